//! Several warps of a block.

use super::{Block, Group, InBlock, SubWarp, Tile};
use crate::arch;
use crate::shared::Shared;

/// W neighbouring warps of a block, 2, 4, 8, 16 or 32 of them, that wait for each other and not for the rest of the block.
/// [`Block::groups`] makes it. The block's size must be a multiple of `32 * W`: a launch that breaks this is refused, the
/// simulator faults ([`FaultKind::Tile`](crate::fault::FaultKind)).
///
/// Take it where parts of a block do different things, one group each; [`Warp`](type@crate::Warp) where one warp will do.
/// A sync is a wait: past the time limit it is a fault ([`FaultKind::TimeLimit`](crate::fault::FaultKind)), and once a PE has
/// failed it ends. A warp that has ended is missed, and so is one whose first lane has.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(1, 1, 256, || {
///     let group = Block.groups::<4>();
///     if group.id() == 0 {
///         group.sync(); // the other four warps don't take part
///         assert_eq!(group.broadcast(u64::from(thread::index()) + 3), 3);
///     }
/// }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarpGroup<const W: u32> {
    /// Its words were initialised.
    _made: (),
}

impl<const W: u32> InBlock for WarpGroup<W> {}

/// Words of shared memory that a group has: one that its warps arrive at, and one for broadcasts.
const WORDS: u64 = 2;
/// Groups of all sizes in the largest block: 16 of two warps, 8 of four, 4, 2 and 1.
const GROUPS: u64 = 16 + 8 + 4 + 2 + 1;
/// Bytes of shared memory that a kernel with warp groups has for them.
pub(crate) const BYTES: usize = (GROUPS * WORDS * 8) as usize;

impl Block {
    /// The block as groups of W warps each; this thread's own group. All threads of the block call it, as often as they
    /// like: groups made earlier stay what they are, but none of their members may be in a sync meanwhile.
    ///
    /// Two syncs of the block. [`WarpGroup`] has an example.
    #[inline(always)]
    #[track_caller]
    #[must_use]
    pub fn groups<const W: u32>(self) -> WarpGroup<W> {
        let group = WarpGroup { _made: () };
        // Whoever is still in a sync of a group that was made before has left it now.
        self.sync();
        if group.leader() {
            group.words().store(0, 0);
        }
        self.sync();
        group
    }

    /// The tiles of N lanes that the block is made of; this thread's own one.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// shmem_sim::run(1, 1, 64, || assert_eq!(Block.partition::<16>().id(), thread::index() / 16)).unwrap();
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn partition<const N: u32>(self) -> SubWarp<N> {
        SubWarp
    }
}

impl<const W: u32> WarpGroup<W> {
    /// Threads of a group.
    const SIZE: u32 = {
        assert!(
            W.is_power_of_two() && W >= 2 && W <= 32,
            "a WarpGroup has 2, 4, 8, 16 or 32 warps: for one warp take Warp"
        );
        32 * W
    };

    /// The words of this thread's group. Groups of each size have words of their own.
    #[inline(always)]
    #[track_caller]
    fn words(self) -> Shared<u64> {
        let first = const { 32 - 64 / W };
        let bytes = u64::from(first + self.id()) * WORDS * 8;
        Shared::__new(arch::group_words() + bytes, WORDS)
    }

    /// The tiles of N lanes that the group is made of; this thread's own one.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// shmem_sim::run(1, 1, 64, || {
    ///     let quad = Block.groups::<2>().partition::<4>();
    ///     assert_eq!(quad.size(), 4);
    /// }).unwrap();
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn partition<const N: u32>(self) -> SubWarp<N> {
        SubWarp
    }
}

// SAFETY: each warp syncs, its first lane meets those of the other warps by a release and an acquire, and the warp syncs.
unsafe impl<const W: u32> Tile for WarpGroup<W> {
    #[inline(always)]
    #[track_caller]
    fn rank(self) -> u32 {
        arch::group_thread::<W>() & (Self::SIZE - 1)
    }
    #[inline(always)]
    fn size(self) -> u32 {
        Self::SIZE
    }
    #[inline(always)]
    #[track_caller]
    fn id(self) -> u32 {
        arch::group_thread::<W>() / Self::SIZE
    }
    #[inline(always)]
    #[track_caller]
    fn sync(self) {
        arch::sync_warps(self.words().start(), self.id() * W, W);
    }
    #[inline(always)]
    #[track_caller]
    fn broadcast(self, value: u64) -> u64 {
        let words = self.words();
        if self.leader() {
            words.store(1, value);
        }
        self.sync();
        let value = words.load(1);
        // The next broadcast may overwrite the word only after everyone has read it.
        self.sync();
        value
    }
    #[inline(always)]
    #[track_caller]
    fn group(self) -> Group {
        Group::Warps {
            first: self.id() * W,
            count: W,
        }
    }
}
