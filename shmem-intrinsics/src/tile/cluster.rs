//! The blocks of a thread-block cluster.

use super::{Block, Group, Tile};
use crate::arch;

/// All threads of a cluster: blocks next to each other in the grid that run together on one part of a GPU, and so can wait
/// for each other in every kernel, collective or not. `LaunchConfig::cluster` of the launch says how many blocks a cluster
/// has, up to 8 along x; without it each block is a cluster of its own. Clusters of several blocks need compute capability
/// 9.0, and kernels compiled for it: other launches are refused.
///
/// Every thread of every block of the cluster makes the calls. Threads that have ended are not waited for, as in
/// [`Block`]. Shared memory is still that of each block: a cluster is not [`InBlock`](crate::InBlock).
///
/// Take it where a few blocks share work; [`Grid`](crate::Grid) where all do.
///
/// CUDA `cooperative_groups::cluster_group`; PTX `%cluster_ctarank`, `barrier.cluster`.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::Sim::new(1).grid(4).block(32).cluster(2).run(|| {
///     assert_eq!((Cluster.id(), Cluster.size()), (Block.id() / 2, 64));
///     assert_eq!(Cluster.rank(), Block.id() % 2 * 32 + thread::index());
///     let first_block = Cluster.broadcast(Block.id().into());
///     assert_eq!(first_block, u64::from(Block.id() / 2 * 2));
/// }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster;

impl Cluster {
    /// How many blocks it has.
    ///
    /// PTX `%cluster_nctarank`.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// shmem_sim::run(1, 4, 32, || assert_eq!(Cluster.blocks(), 1)).unwrap();
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn blocks(self) -> u32 {
        arch::cluster_blocks()
    }

    /// This block's number among them.
    ///
    /// PTX `%cluster_ctarank`.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// let sim = shmem_sim::Sim::new(1).grid(8).block(1).cluster(4);
    /// sim.run(|| assert_eq!(Cluster.block_rank(), Block.id() % 4)).unwrap();
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn block_rank(self) -> u32 {
        arch::cluster_block_rank()
    }
}

// SAFETY: barrier.cluster waits for every thread of the cluster that has not ended; its arrival releases and its wait acquires.
unsafe impl Tile for Cluster {
    const __BLOCKS: bool = true;

    #[inline(always)]
    #[track_caller]
    fn rank(self) -> u32 {
        self.block_rank() * Block.size() + Block.rank()
    }
    #[inline(always)]
    #[track_caller]
    fn size(self) -> u32 {
        self.blocks() * Block.size()
    }
    /// Which of the grid's clusters this is.
    #[inline(always)]
    #[track_caller]
    fn id(self) -> u32 {
        let ([x, y, z], [nx, ny, _]) = (arch::cluster_idx(), arch::cluster_dim());
        (z * ny + y) * nx + x
    }
    #[inline(always)]
    #[track_caller]
    fn sync(self) {
        arch::sync_cluster();
    }
    #[inline(always)]
    #[track_caller]
    fn broadcast(self, value: u64) -> u64 {
        if self.leader() {
            // Behind that of the block's broadcasts, which may still be read.
            crate::shared::scratch().store(1, value);
        }
        self.sync();
        let value = arch::cluster_scratch();
        // The leader's block may overwrite the word, or end, only after everyone has read it.
        self.sync();
        value
    }
    #[inline(always)]
    fn group(self) -> Group {
        Group::Cluster
    }
}
