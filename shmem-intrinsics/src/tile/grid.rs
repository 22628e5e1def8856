//! All threads of a grid.

use super::{Group, Tile};
use crate::arch::{self, Space, Strength};
use crate::state::SystemArea;

/// All threads of this PE's grid. Only a collective kernel has one, because only its blocks are all resident and can wait
/// for each other: [`Collective::grid`](crate::Collective::grid).
///
/// Every thread of every block makes the calls. A block that has ended is missed, and so is one whose thread 0 has: the
/// others wait for it up to the time limit ([`FaultKind::TimeLimit`](crate::fault::FaultKind)); once a PE has failed they end.
/// Take [`Block`](crate::Block) where blocks need not wait for each other.
///
/// CUDA `cooperative_groups::grid_group`.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(1, 3, 32, || {
///     let grid = shmem_sim::collective().grid();
///     assert_eq!((grid.rank(), grid.size()), (32 * Block.id() + thread::index(), 96));
///     assert_eq!(grid.broadcast(7 + u64::from(grid.rank())), 7);
/// }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    slot: u32,
}

impl Grid {
    #[inline(always)]
    pub(crate) fn new(slot: u32) -> Self {
        Self { slot }
    }

    /// Address of the grid's line in this PE's system area.
    #[inline(always)]
    #[track_caller]
    fn line(self) -> u64 {
        arch::heap_base() + SystemArea::GRIDS + u64::from(self.slot) * SystemArea::GRID_LINE
    }
}

// SAFETY: each block syncs, its leader meets those of the other blocks by a release and an acquire, and the block syncs.
unsafe impl Tile for Grid {
    const __BLOCKS: bool = true;

    #[inline(always)]
    #[track_caller]
    fn rank(self) -> u32 {
        crate::thread::block_index() * crate::thread::block_size() + crate::thread::index()
    }
    #[inline(always)]
    #[track_caller]
    fn size(self) -> u32 {
        crate::thread::grid_size() * crate::thread::block_size()
    }
    #[inline(always)]
    fn id(self) -> u32 {
        0
    }
    #[inline(always)]
    #[track_caller]
    fn sync(self) {
        arch::sync_grid(self.line());
    }
    #[inline(always)]
    #[track_caller]
    fn broadcast(self, value: u64) -> u64 {
        let at = self.line() + 8;
        if self.leader() {
            // SAFETY: the grid's own word in the system area.
            unsafe { arch::store(at, value, Space::Symmetric, Strength::Relaxed) };
        }
        self.sync();
        // SAFETY: as above.
        let value = unsafe { arch::load(at, Space::Symmetric, Strength::Relaxed) };
        // The next broadcast may overwrite the word only after everyone has read it.
        self.sync();
        value
    }
    #[inline(always)]
    fn group(self) -> Group {
        Group::Grid
    }
}
