//! Reading from another PE: get and get_nbi. One element is [`g`](crate::g).
//!
//! | call | who calls | the data is in place | NVLink |
//! |---|---|---|---|
//! | [`get`] | the tile | at return, for every member | 16-byte `ld.relaxed.sys`, past L1, many in flight; one tile sync |
//! | [`get_nbi`] | the tile | after `quiet` | the same, no sync |

use crate::Pod;
use crate::arch::{self, Extent, Space, Span};
use crate::fault::{FaultKind, check};
use crate::global::Global;
use crate::shared::Shared;
use crate::sym::SymSlice;
use crate::team::{self, Peer, Target};
use crate::tile::{InBlock, Thread, Tile};

/// Where a get writes to: [`SymSlice`] (this PE's own copy), [`Global`], [`Shared`] for tiles within a block, and a
/// thread's own array or slice with [`Thread`] alone.
///
/// # Safety
/// The span that it tells is writable, for as long as the call lasts.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the destination of a get of `{T}` by `{G}`",
    note = "a thread's own array is another array in each member: get it with `Thread`, or into shared memory"
)]
pub unsafe trait Destination<T: Pod, G: Tile> {
    #[doc(hidden)]
    fn __span(&mut self) -> Span;
    /// Elements.
    #[doc(hidden)]
    fn __len(&self) -> u64;
}

/// | type | space | tiles |
/// |---|---|---|
/// | `SymSlice` | this PE's heap | all |
/// | `Global` | this PE's memory | all |
/// | `Shared` | the block's | within a block |
macro_rules! handles { ($($name:ident: $tile:ident, $space:ident, $address:expr;)*) => { $(
    // SAFETY: live for the whole kernel: the launch checked it, or it is the block's own.
    unsafe impl<T: Pod, G: $tile> Destination<T, G> for $name<T> {
        #[inline(always)]
        #[track_caller]
        fn __span(&mut self) -> Span {
            let address: fn($name<T>) -> u64 = $address;
            Span { address: address(*self), space: Space::$space }
        }
        #[inline(always)]
        fn __len(&self) -> u64 {
            self.len()
        }
    }
)* } }
handles! {
    SymSlice: Tile, Symmetric, |s| arch::heap_base() + s.offset();
    Global: Tile, Global, |s| s.start();
    Shared: InBlock, Shared, |s| s.start();
}

// SAFETY: borrowed for the call; over load and store a get into local memory has written it before it returns.
unsafe impl<T: Pod> Destination<T, Thread> for &mut [T] {
    #[inline(always)]
    fn __span(&mut self) -> Span {
        Span {
            address: self.as_mut_ptr() as u64,
            space: Space::Local,
        }
    }
    #[inline(always)]
    fn __len(&self) -> u64 {
        self.len() as u64
    }
}

// SAFETY: as for slices.
unsafe impl<T: Pod, const N: usize> Destination<T, Thread> for &mut [T; N] {
    #[inline(always)]
    fn __span(&mut self) -> Span {
        Span {
            address: self.as_mut_ptr() as u64,
            space: Space::Local,
        }
    }
    #[inline(always)]
    fn __len(&self) -> u64 {
        N as u64
    }
}

/// Copies `src` at PE `from` to `dst` here, both of the same length in elements. All members of the tile call it; at return
/// the data is in place for each of them.
///
/// What others wrote to `src` must be ordered before the call, by a signal or a barrier. OpenSHMEM `shmem_get`, NVSHMEM
/// `nvshmem_getmem` and its `_warp` and `_block` forms. Faults with `FaultKind::Length`, `FaultKind::Pe`.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 64, || {
///     let (src, dst) = (shmem_sim::symmetric::<u32>(100), shmem_sim::global::<u32>(100));
///     shmem::get(Block, dst, src, 1 - shmem::my_pe());
///     let mut first = [9u32; 4];
///     shmem::get(Thread, &mut first, src.slice(0..4), 1 - shmem::my_pe());
///     assert_eq!(first, [0; 4]);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn get<G: Tile, T: Pod>(tile: G, dst: impl Destination<T, G>, src: SymSlice<T>, from: impl Target) {
    let (span, extent, pe) = prepare(dst, src, from);
    arch::get(tile, span, src.offset(), extent, pe, true);
}

/// As [`get`], but returns at once: the data is in place after `quiet`. The destination must outlive that, so that a
/// thread's own array can't be one.
///
/// NVSHMEM `nvshmem_getmem_nbi`. Faults as [`get`].
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 64, || {
///     let (src, dst) = (shmem_sim::symmetric::<u64>(40), shmem_sim::global::<u64>(40));
///     shmem::get_nbi(Block, dst, src, 1 - shmem::my_pe());
///     shmem::quiet(Block);
///     assert_eq!(dst.load(39), 0);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn get_nbi<G: Tile, T: Pod>(tile: G, dst: impl Destination<T, G> + Copy, src: SymSlice<T>, from: impl Target) {
    let (span, extent, pe) = prepare(dst, src, from);
    arch::get(tile, span, src.offset(), extent, pe, false);
}

#[inline(always)]
#[track_caller]
fn prepare<G: Tile, T: Pod>(
    mut dst: impl Destination<T, G>,
    src: SymSlice<T>,
    from: impl Target,
) -> (Span, Extent, Peer) {
    check(dst.__len() == src.len(), FaultKind::Length, dst.__len(), src.len());
    (dst.__span(), Extent::of::<T>(src.len()), team::peer(from))
}
