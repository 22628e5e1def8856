//! Tiles: which threads make a call together. `put(Block, ..)` is NVSHMEM's `putmem_block`, `put(Warp, ..)` its `_warp`,
//! `put(Thread, ..)` the plain one.
//!
//! A tile is a unit value: nothing is stored, its loops are compiled for it. Every member makes the same call with the same
//! arguments.

use crate::Pod;
use crate::arch;

/// Threads that call together.
///
/// # Safety
/// `sync` waits for every member and orders memory among them as `barrier.sync` does; ranks are `0..size()`, each once.
pub unsafe trait Tile: Copy {
    /// This thread's number among the members.
    fn rank(self) -> u32;
    /// How many members there are.
    fn size(self) -> u32;
    /// Which of the tiles of its kind in the enclosing block (for [`Block`]: in the grid) this is.
    fn id(self) -> u32;
    /// Waits until all members have called it; what they did before is visible to all after.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// shmem_sim::run(1, 1, 64, || {
    ///     shared!(x: [u32; 64]);
    ///     x.store(thread::index(), 1);
    ///     Block.sync();
    ///     assert_eq!(x.load(63 - thread::index()), 1);
    /// }).unwrap();
    /// ```
    fn sync(self);
    /// The leader's value, in every member. All call it; what the others pass is ignored. What the leader did before is
    /// visible to all after, as with [`sync`](Self::sync).
    ///
    /// ```
    /// use shmem::prelude::*;
    /// shmem_sim::run(1, 1, 64, || assert_eq!(Block.broadcast(u64::from(thread::index()) + 5), 5)).unwrap();
    /// ```
    fn broadcast(self, value: u64) -> u64;

    /// Whether this thread is the member of rank 0.
    #[inline(always)]
    #[track_caller]
    fn leader(self) -> bool {
        self.rank() == 0
    }

    /// This member's share of `0..n`: rank, rank + size, ..
    ///
    /// ```
    /// use shmem::prelude::*;
    /// shmem_sim::run(1, 1, 64, || {
    ///     let mine: Vec<u32> = Block.strided(130).collect();
    ///     assert_eq!(mine[0], thread::index());
    /// }).unwrap();
    /// ```
    #[inline(always)]
    #[track_caller]
    fn strided(self, n: u32) -> Strided {
        Strided {
            next: self.rank(),
            step: self.size(),
            end: n,
        }
    }

    /// One thread, which must hide its latencies itself.
    #[doc(hidden)]
    const __LONE: bool = false;

    #[doc(hidden)]
    #[cfg(not(target_arch = "nvptx64"))]
    fn __group(self) -> crate::hook::Group;
}

/// Tiles that lie inside one block, and so may use its shared memory.
pub trait InBlock: Tile {}

/// The indices of [`Tile::strided`].
#[derive(Clone, Debug)]
pub struct Strided {
    next: u32,
    step: u32,
    end: u32,
}

impl Iterator for Strided {
    type Item = u32;

    #[inline(always)]
    fn next(&mut self) -> Option<u32> {
        if self.next >= self.end {
            return None;
        }
        let i = self.next;
        // An index near u32::MAX must end the loop, not start it again.
        self.next = i.saturating_add(self.step);
        Some(i)
    }
}

/// One thread alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread;

/// N neighbouring lanes of a warp: 1, 2, 4, 8, 16 or 32. The block's size must be a multiple of N: a launch that breaks
/// this is refused, the simulator faults ([`FaultKind::Tile`](crate::fault::FaultKind)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubWarp<const N: u32>;

/// The 32 lanes of a warp.
pub type Warp = SubWarp<32>;
/// The 32 lanes of a warp, as a value.
#[expect(non_upper_case_globals, reason = "a tile is written as a value: `put(Warp, ..)`")]
pub const Warp: Warp = SubWarp;

/// All threads of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block;

impl InBlock for Thread {}
impl<const N: u32> InBlock for SubWarp<N> {}
impl InBlock for Block {}

// SAFETY: one member, in program order.
unsafe impl Tile for Thread {
    const __LONE: bool = true;

    #[inline(always)]
    fn rank(self) -> u32 {
        0
    }
    #[inline(always)]
    fn size(self) -> u32 {
        1
    }
    #[inline(always)]
    #[track_caller]
    fn id(self) -> u32 {
        crate::thread::index()
    }
    #[inline(always)]
    fn sync(self) {}
    #[inline(always)]
    fn broadcast(self, value: u64) -> u64 {
        value
    }
    #[cfg(not(target_arch = "nvptx64"))]
    fn __group(self) -> crate::hook::Group {
        crate::hook::Group::Thread
    }
}

// SAFETY: bar.warp.sync with the mask of the N lanes waits for them and orders memory among them.
unsafe impl<const N: u32> Tile for SubWarp<N> {
    #[inline(always)]
    #[track_caller]
    fn rank(self) -> u32 {
        const {
            assert!(
                N.is_power_of_two() && N <= 32,
                "a SubWarp has 1, 2, 4, 8, 16 or 32 lanes"
            )
        };
        arch::tile_lane_id::<N>() & (N - 1)
    }
    #[inline(always)]
    fn size(self) -> u32 {
        N
    }
    #[inline(always)]
    #[track_caller]
    fn id(self) -> u32 {
        crate::thread::index() / N
    }
    #[inline(always)]
    #[track_caller]
    fn sync(self) {
        arch::sync_warp(self.mask());
    }
    #[inline(always)]
    #[track_caller]
    fn broadcast(self, value: u64) -> u64 {
        // A shuffle alone orders no memory.
        self.sync();
        self.shuffle(value, 0)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    #[track_caller]
    fn __group(self) -> crate::hook::Group {
        crate::hook::Group::Warp(self.mask())
    }
}

impl<const N: u32> SubWarp<N> {
    /// The lanes of this tile within its warp.
    #[inline(always)]
    #[track_caller]
    pub fn mask(self) -> u32 {
        #[cfg(not(target_arch = "nvptx64"))]
        check_divides(N);
        if N == 32 {
            !0
        } else {
            ((1u32 << (N & 31)) - 1) << (arch::tile_lane_id::<N>() & !(N - 1))
        }
    }

    /// How many tiles of this size a block has.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// shmem_sim::run(1, 1, 96, || assert_eq!((Warp::per_block(), SubWarp::<8>::per_block()), (3, 12))).unwrap();
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn per_block() -> u32 {
        crate::thread::block_size() / N
    }

    /// The value that the member of rank `from % N` gives. All members call it.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// shmem_sim::run(1, 1, 32, || {
    ///     let first = SubWarp::<8>.shuffle(thread::index(), 0);
    ///     assert_eq!(first, thread::index() / 8 * 8);
    /// }).unwrap();
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn shuffle<T: Pod>(self, value: T, from: u32) -> T {
        let from = (arch::lane_id() & !(N - 1)) | (from & (N - 1));
        let (mut words, n) = arch::to_words(value);
        // Not a closure: it would not know the caller's line.
        let mut i = 0;
        while i < n {
            words[i] = arch::shuffle_idx(self.mask(), words[i], from);
            i += 1;
        }
        arch::from_words(words)
    }

    /// The value of the member whose rank differs by exclusive or with `mask`, which is below N. All members call it.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// shmem_sim::run(1, 1, 32, || {
    ///     // A sum over four lanes.
    ///     let mut sum = thread::index() % 4;
    ///     sum += SubWarp::<4>.shuffle_xor(sum, 1);
    ///     sum += SubWarp::<4>.shuffle_xor(sum, 2);
    ///     assert_eq!(sum, 6);
    /// }).unwrap();
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn shuffle_xor<T: Pod>(self, value: T, mask: u32) -> T {
        let (mut words, n) = arch::to_words(value);
        let mut i = 0;
        while i < n {
            words[i] = arch::shuffle_xor(self.mask(), words[i], mask & (N - 1));
            i += 1;
        }
        arch::from_words(words)
    }

    /// Bit r tells whether the member of rank r said true. All members call it.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// shmem_sim::run(1, 1, 32, || assert_eq!(SubWarp::<4>.ballot(thread::index() % 4 == 3), 0b1000)).unwrap();
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn ballot(self, predicate: bool) -> u32 {
        let m = self.mask();
        (arch::ballot(m, predicate) & m) >> m.trailing_zeros()
    }
}

// SAFETY: barrier.sync 0 waits for every thread of the block that has not ended, and orders memory among them.
unsafe impl Tile for Block {
    #[inline(always)]
    #[track_caller]
    fn rank(self) -> u32 {
        crate::thread::index()
    }
    #[inline(always)]
    #[track_caller]
    fn size(self) -> u32 {
        crate::thread::block_size()
    }
    #[inline(always)]
    #[track_caller]
    fn id(self) -> u32 {
        crate::thread::block_index()
    }
    #[inline(always)]
    #[track_caller]
    fn sync(self) {
        arch::sync_block();
    }
    #[inline(always)]
    #[track_caller]
    fn broadcast(self, value: u64) -> u64 {
        let slot = crate::shared::scratch();
        if self.leader() {
            slot.store(0, value);
        }
        self.sync();
        let value = slot.load(0);
        // The next broadcast may overwrite the slot only after everyone has read it.
        self.sync();
        value
    }
    #[cfg(not(target_arch = "nvptx64"))]
    fn __group(self) -> crate::hook::Group {
        crate::hook::Group::Block
    }
}

/// The launch refuses such blocks on a GPU; where there is none, the first use of the tile does.
#[cfg(not(target_arch = "nvptx64"))]
#[track_caller]
pub(crate) fn check_divides(n: u32) {
    let size = crate::thread::block_size();
    crate::fault::check(
        size.is_multiple_of(n),
        crate::fault::FaultKind::Tile,
        n.into(),
        size.into(),
    );
}
