//! One-sided transfers: put, p, g and put_signal.
//!
//! | call | who calls | returns when | NVLink |
//! |---|---|---|---|
//! | [`p`], [`g`] | one thread | reusable; in place | `st.relaxed.sys`; `ld.relaxed.sys` |
//! | [`put`] | the tile | the source may be written again | 16-byte strong stores, one tile sync after |
//! | [`put_nbi`] | the tile | at once | the same, no sync |
//! | [`put_signal`] | the tile | the source may be written again | the same, then one release |
//!
//! The source must be ordered before the call for the whole tile (`tile.sync()` after the last store to it): one member
//! may read all of it. None of these is done at return: `fence`, `quiet` or a signal orders them.

use crate::Pod;
use crate::arch::{self, Extent, Space, Span};
use crate::fault::{FaultKind, check};
use crate::global::Global;
use crate::shared::Shared;
use crate::signal::Action;
use crate::sym::{Sym, SymSlice};
use crate::team::{self, Peer, Target};
use crate::tile::{InBlock, Thread, Tile};

/// Where a put reads from: [`SymSlice`] (this PE's own copy), [`Global`], [`Shared`] for tiles within a block, and a
/// thread's own array or slice with [`Thread`] alone.
///
/// # Safety
/// The span that it tells is readable, for as long as the call lasts.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the source of a put of `{T}` by `{G}`",
    note = "a thread's own array is another array in each member: put it with `Thread`, or place it in shared memory"
)]
pub unsafe trait Source<T: Pod, G: Tile>: Copy {
    #[doc(hidden)]
    fn __span(self) -> Span;
    /// Elements.
    #[doc(hidden)]
    fn __len(self) -> u64;
    /// put and put_nbi of it. What has no span to read from ([`computed`](crate::computed())) has its own.
    #[doc(hidden)]
    #[inline(always)]
    #[track_caller]
    fn __put(self, tile: G, dst: u64, extent: Extent, to: Peer, blocking: bool) {
        arch::put(tile, dst, self.__span(), extent, to, blocking);
    }
    /// put_signal of it.
    #[doc(hidden)]
    #[inline(always)]
    #[track_caller]
    fn __put_signal(self, tile: G, dst: u64, extent: Extent, action: impl Action, to: Peer, blocking: bool) {
        arch::put_signal(tile, dst, self.__span(), extent, action, to, blocking);
    }
}

// SAFETY: the launch checked that the object is live on this PE.
unsafe impl<T: Pod, G: Tile> Source<T, G> for SymSlice<T> {
    #[inline(always)]
    fn __span(self) -> Span {
        Span {
            address: arch::heap_base() + self.offset(),
            space: Space::Symmetric,
        }
    }
    #[inline(always)]
    fn __len(self) -> u64 {
        self.len()
    }
}

// SAFETY: the launch checked that the object is live on this PE.
unsafe impl<T: Pod, G: Tile> Source<T, G> for Global<T> {
    #[inline(always)]
    fn __span(self) -> Span {
        Span {
            address: self.start(),
            space: Space::Global,
        }
    }
    #[inline(always)]
    fn __len(self) -> u64 {
        self.len()
    }
}

// SAFETY: it lives as long as the block, and every member of an InBlock tile is in it.
unsafe impl<T: Pod, G: InBlock> Source<T, G> for Shared<T> {
    #[inline(always)]
    fn __span(self) -> Span {
        Span {
            address: self.start(),
            space: Space::Shared,
        }
    }
    #[inline(always)]
    fn __len(self) -> u64 {
        self.len()
    }
}

// SAFETY: borrowed for the call; puts from local memory read it before they return.
unsafe impl<T: Pod> Source<T, Thread> for &[T] {
    #[inline(always)]
    fn __span(self) -> Span {
        Span {
            address: self.as_ptr() as u64,
            space: Space::Local,
        }
    }
    #[inline(always)]
    fn __len(self) -> u64 {
        self.len() as u64
    }
}

// SAFETY: as for slices.
unsafe impl<T: Pod, const N: usize> Source<T, Thread> for &[T; N] {
    #[inline(always)]
    fn __span(self) -> Span {
        Span {
            address: self.as_ptr() as u64,
            space: Space::Local,
        }
    }
    #[inline(always)]
    fn __len(self) -> u64 {
        N as u64
    }
}

/// Writes one element by value at PE `to`. One thread calls it. May be waited on there.
///
/// OpenSHMEM `shmem_p`, NVSHMEM `nvshmem_TYPE_p`; PTX `st.relaxed.sys`. Faults with `FaultKind::Pe`.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(4, 1, 1, || {
///     let dst = shmem_sim::symmetric::<u32>(1);
///     let me = shmem::my_pe();
///     shmem::p(dst.at(0), me, (me + 1) % shmem::n_pes());
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn p<T: Pod>(dst: Sym<T>, value: T, to: impl Target) {
    // SAFETY: `at` found it inside a live object, which every PE has.
    unsafe { arch::store_remote(dst.offset(), value, team::peer(to)) }
}

/// Reads one element from PE `from`. One thread calls it; the value is there at return.
///
/// OpenSHMEM `shmem_g`, NVSHMEM `nvshmem_TYPE_g`; PTX `ld.relaxed.sys`. Faults with `FaultKind::Pe`.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 1, || {
///     let x = shmem_sim::symmetric::<u64>(1);
///     assert_eq!(shmem::g(x.at(0), 1 - shmem::my_pe()), 0);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn g<T: Pod>(src: Sym<T>, from: impl Target) -> T {
    // SAFETY: `at` found it inside a live object, which every PE has.
    unsafe { arch::load_remote(src.offset(), team::peer(from)) }
}

/// Copies `src` to `dst` at PE `to`, both of the same length in elements. All members of the tile call it. Returns when
/// the source may be written again.
///
/// OpenSHMEM `shmem_put`, NVSHMEM `nvshmem_putmem` and its `_warp` and `_block` forms. Faults with `FaultKind::Length`,
/// `FaultKind::Pe`.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 64, || {
///     let (dst, src) = (shmem_sim::symmetric::<f32>(1000), shmem_sim::symmetric::<f32>(1000));
///     for i in Block.strided(1000) {
///         src.store(i, i as f32);
///     }
///     Block.sync();
///     shmem::put(Block, dst, src, 1 - shmem::my_pe());
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn put<G: Tile, T: Pod>(tile: G, dst: SymSlice<T>, src: impl Source<T, G>, to: impl Target) {
    let (extent, peer) = prepare(dst, src, to);
    src.__put(tile, dst.offset(), extent, peer, true);
}

/// As [`put`], but returns at once: the source may be written again after `flush` or `quiet`.
///
/// NVSHMEM `nvshmem_putmem_nbi`. Faults as [`put`].
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 32, || {
///     let (dst, src) = (shmem_sim::symmetric::<u32>(64), shmem_sim::symmetric::<u32>(64));
///     shmem::put_nbi(Block, dst.chunk(0, 32), src.chunk(0, 32), 1 - shmem::my_pe());
///     shmem::put_nbi(Block, dst.chunk(1, 32), src.chunk(1, 32), 1 - shmem::my_pe());
///     shmem::flush(Block);
///     src.store(thread::index(), 7); // reusable now
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn put_nbi<G: Tile, T: Pod>(tile: G, dst: SymSlice<T>, src: impl Source<T, G>, to: impl Target) {
    let (extent, peer) = prepare(dst, src, to);
    src.__put(tile, dst.offset(), extent, peer, false);
}

/// As [`put_nbi`], then applies `action` at `to`: the call returns before the source may be written again, whoever observes
/// the signal also observes the data.
///
/// NVSHMEM `nvshmem_putmem_signal_nbi` and its `_warp` and `_block` forms. Over load and store it is [`put_signal`]: the
/// signal must wait for every member's stores.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 32, || {
///     let (dst, src) = (shmem_sim::symmetric::<u32>(32), shmem_sim::symmetric::<u32>(32));
///     let ready = shmem_sim::signals(1).at(0);
///     shmem::put_signal_nbi(Block, dst, src, ready.set(1), 1 - shmem::my_pe());
///     shmem::wait_until(Block, ready, eq(1));
///     shmem::flush(Block);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn put_signal_nbi<G: Tile, T: Pod>(
    tile: G,
    dst: SymSlice<T>,
    src: impl Source<T, G>,
    action: impl Action,
    to: impl Target,
) {
    let (extent, peer) = prepare(dst, src, to);
    src.__put_signal(tile, dst.offset(), extent, action, peer, false);
}

/// As [`put`], then applies `action` at `to`: whoever observes the signal also observes the data. Nothing is promised for
/// earlier puts.
///
/// OpenSHMEM `shmem_put_signal`, NVSHMEM `nvshmem_putmem_signal` and its `_warp` and `_block` forms; PTX: the copy, the
/// tile's sync, then `st.release.sys` or `red.release.sys.add` by the leader.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 32, || {
///     let (dst, src) = (shmem_sim::symmetric::<u32>(32), shmem_sim::symmetric::<u32>(32));
///     let ready = shmem_sim::signals(1).at(0);
///     src.store(thread::index(), 3);
///     Block.sync();
///     shmem::put_signal(Block, dst, src, ready.set(1), 1 - shmem::my_pe());
///     shmem::wait_until(Block, ready, eq(1));
///     assert_eq!(dst.load(thread::index()), 3);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn put_signal<G: Tile, T: Pod>(
    tile: G,
    dst: SymSlice<T>,
    src: impl Source<T, G>,
    action: impl Action,
    to: impl Target,
) {
    let (extent, peer) = prepare(dst, src, to);
    src.__put_signal(tile, dst.offset(), extent, action, peer, true);
}

#[inline(always)]
#[track_caller]
fn prepare<G: Tile, T: Pod>(dst: SymSlice<T>, src: impl Source<T, G>, to: impl Target) -> (Extent, Peer) {
    check(dst.len() == src.__len(), FaultKind::Length, dst.len(), src.__len());
    (Extent::of::<T>(dst.len()), team::peer(to))
}
