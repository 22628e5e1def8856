//! Sources that are computed on the way: reduce and forward in one pass.

use crate::arch::{self, Extent, Span};
use crate::fault::{FaultKind, check};
use crate::rma::Source;
use crate::signal::Action;
use crate::team::Peer;
use crate::tile::Tile;
use crate::{Pod, SymSlice};

/// What [`computed`] makes.
#[derive(Clone, Copy)]
pub struct Computed<T, F> {
    stage: SymSlice<T>,
    element: F,
}

impl<T, F> core::fmt::Debug for Computed<T, F> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Computed(stage {:?})", self.stage)
    }
}

/// A put's source whose element i is `element(i)`: over load/store the elements go straight to the peer; over a network
/// they are placed in `stage`, which is as long as the destination and must not be in use by an earlier put.
///
/// Each element is computed once, by one member of the tile, in no order; there are fewer than 2^31. What `element` reads must be ordered before the
/// call for the whole tile, as with any source. Works with `put`, `put_nbi`, `put_signal`. What it costs: one strong store
/// per element; elements of 16 bytes are fastest.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 32, || {
///     let (own, stage) = (shmem_sim::symmetric::<u32>(64), shmem_sim::symmetric::<u32>(64));
///     let (inbox, ready) = (shmem_sim::symmetric::<u32>(64), shmem_sim::signals(1).at(0));
///     let doubled = shmem::computed(stage, |i| 2 * (own.load(i) + i));
///     shmem::put_signal(Block, inbox, doubled, ready.set(1), 1 - shmem::my_pe());
///     shmem::wait_until(Block, ready, eq(1));
///     assert_eq!(inbox.load(63), 126);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn computed<T: Pod, F: Fn(u32) -> T + Copy>(stage: SymSlice<T>, element: F) -> Computed<T, F> {
    let n = stage.len();
    // Index arithmetic can't wrap then.
    check(n < 1 << 31, FaultKind::Length, 1 << 31, n);
    Computed { stage, element }
}

// SAFETY: the span is the stage's, which is symmetric memory.
unsafe impl<T: Pod, G: Tile, F: Fn(u32) -> T + Copy> Source<T, G> for Computed<T, F> {
    #[inline(always)]
    fn __span(self) -> Span {
        Source::<T, G>::__span(self.stage)
    }
    #[inline(always)]
    fn __len(self) -> u64 {
        self.stage.len()
    }
    #[inline(always)]
    #[track_caller]
    fn __put(self, tile: G, dst: u64, _: Extent, to: Peer, blocking: bool) {
        arch::put_computed(tile, dst, self.stage, self.element, to, blocking);
    }
    #[inline(always)]
    #[track_caller]
    fn __put_signal(self, tile: G, dst: u64, _: Extent, action: impl Action, to: Peer, _: bool) {
        arch::put_computed_signal(tile, dst, self.stage, self.element, action, to);
    }
}

/// The elements are placed in the stage, for a put of it: as a network needs them.
#[inline(always)]
#[track_caller]
pub(crate) fn fill<T: Pod, G: Tile>(tile: G, stage: SymSlice<T>, element: impl Fn(u32) -> T) -> (Span, Extent) {
    let n = stage.len() as u32;
    for i in tile.strided(n) {
        stage.store(i, element(i));
    }
    tile.sync();
    (Source::<T, G>::__span(stage), Extent::of::<T>(stage.len()))
}
