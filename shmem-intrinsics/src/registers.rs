//! Register tiles: a run of elements that the members of a tile hold among them, each a few in registers.

use crate::arch::{self, Span, Strength};
use crate::fault::{FaultKind, check};
use crate::rma::Source;
use crate::team::{self, Target};
use crate::tile::{InBlock, Tile};
use crate::{Global, Pod, Shared, SymSlice};

/// What [`read`] and [`write()`] reach: [`SymSlice`] (this PE's own copy), [`Global`], and [`Shared`] for tiles within a block.
///
/// # Safety
/// The span of the source is writable as well.
#[diagnostic::on_unimplemented(
    message = "a tile can't read or write `{Self}` as a run of `{T}`",
    note = "runs are SymSlice, Global and, for tiles within a block, Shared"
)]
pub unsafe trait Run<T: Pod, G: Tile>: Source<T, G> {}
// SAFETY: symmetric memory is written by anyone.
unsafe impl<T: Pod, G: Tile> Run<T, G> for SymSlice<T> {}
// SAFETY: device memory of this PE.
unsafe impl<T: Pod, G: Tile> Run<T, G> for Global<T> {}
// SAFETY: the block's own.
unsafe impl<T: Pod, G: InBlock> Run<T, G> for Shared<T> {}

/// Loads a run of K elements for each member: element j of a member's array is `src[j * tile.size() + tile.rank()]`, so
/// that neighbours load neighbours. All K loads are in flight together. All members call it; no sync.
///
/// K follows from the array's type; written out it is `read::<4, _, _>(..)`. An element of 16 bytes
/// ([`vector`](crate::vector)) makes each load one of 16 bytes. PTX `ld.global`, or `ld.shared`. Faults with
/// `FaultKind::Length` unless `src` has just K elements for each member.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(1, 1, 64, || {
///     let x = shmem_sim::symmetric::<u32>(256);
///     let mine: [u32; 4] = shmem::read(Block, x);
///     shmem::write(Block, x, mine.map(|v| v + Block.rank()));
///     assert_eq!(x.load(2 * 64 + Block.rank()), Block.rank());
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn read<const K: usize, T: Pod, G: Tile>(tile: G, src: impl Run<T, G>) -> [T; K] {
    let Span { address, space } = src.__span();
    let (mut at, step) = place::<K, T, G>(tile, address, src.__len());
    let mut values = [T::zeroed(); K];
    // A counted loop unrolls, and the array stays in registers.
    let mut j = 0;
    while j < K {
        // SAFETY: inside the object, by the check of its length.
        values[j] = unsafe { arch::load(at, space, Strength::Weak) };
        at += step;
        j += 1;
    }
    values
}

/// Stores what [`read`] loads: element j of a member's array to `dst[j * tile.size() + tile.rank()]`. All members call it;
/// no sync.
///
/// PTX `st.global`, or `st.shared`. Faults with `FaultKind::Length` unless `dst` has just K elements for each member.
#[inline(always)]
#[track_caller]
pub fn write<const K: usize, T: Pod, G: Tile>(tile: G, dst: impl Run<T, G>, values: [T; K]) {
    let Span { address, space } = dst.__span();
    let (mut at, step) = place::<K, T, G>(tile, address, dst.__len());
    let mut j = 0;
    while j < K {
        // SAFETY: inside the object, by the check of its length.
        unsafe { arch::store(at, values[j], space, Strength::Weak) };
        at += step;
        j += 1;
    }
}

/// Puts what [`read`] loads, from registers: element j of a member's array to `dst[j * tile.size() + tile.rank()]` at PE `to`. All members
/// call it; no sync. As K calls of [`p`](crate::p) by each, with one check of the length: what it orders, what it may be waited on.
///
/// PTX `st.relaxed.sys`. Faults with `FaultKind::Length` unless `dst` has just K elements for each member; `FaultKind::Pe`.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 64, || {
///     let (own, inbox) = (shmem_sim::symmetric::<u32>(256), shmem_sim::symmetric::<u32>(256));
///     let mine: [u32; 4] = shmem::read(Block, own);
///     shmem::write_to(Block, inbox, mine.map(|v| v + 7), 1 - shmem::my_pe());
///     shmem::quiet(Block);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn write_to<const K: usize, T: Pod, G: Tile>(tile: G, dst: SymSlice<T>, values: [T; K], to: impl Target) {
    let (mut at, step) = place::<K, T, G>(tile, dst.offset(), dst.len());
    let to = team::peer(to);
    let mut j = 0;
    while j < K {
        // SAFETY: inside a live object, which every PE has, by the check of its length.
        unsafe { arch::store_remote(at, values[j], to) };
        at += step;
        j += 1;
    }
}

/// Calls `f` with 0, 1, .. N - 1, written out one after the other: N is at most 16. One thread's own.
///
/// Arrays stay in registers only where each index is a constant, that is where loops over them unroll. The compiler unrolls
/// short ones by itself; take this for long ones. CUDA `#pragma unroll`.
///
/// ```
/// use shmem::registers::unroll;
/// let mut squares = [0; 6];
/// unroll::<6>(|i| squares[i] = i * i);
/// assert_eq!(squares, [0, 1, 4, 9, 16, 25]);
/// ```
#[inline(always)]
pub fn unroll<const N: usize>(mut f: impl FnMut(usize)) {
    const { assert!(N <= 16, "unroll calls up to 16 times: nest it for more") };
    macro_rules! calls { ($($i:literal)*) => { $(if $i < N { f($i) })* } }
    calls!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
}

/// The address of a member's first element, and the bytes from one to the next.
#[inline(always)]
#[track_caller]
fn place<const K: usize, T: Pod, G: Tile>(tile: G, address: u64, len: u64) -> (u64, u64) {
    let (rank, size) = (u64::from(tile.rank()), u64::from(tile.size()));
    check(len == K as u64 * size, FaultKind::Length, K as u64 * size, len);
    (address + rank * size_of::<T>() as u64, size * size_of::<T>() as u64)
}
