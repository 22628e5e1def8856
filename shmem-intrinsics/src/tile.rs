//! Tiles: which threads make a call together. `put(Block, ..)` is NVSHMEM's `putmem_block`, `put(Warp, ..)` its `_warp`,
//! `put(Thread, ..)` the plain one.
//!
//! A tile is a unit value: nothing is stored, its loops are compiled for it. Every member makes the same call with the same
//! arguments.
//!
//! | tile | threads | its sync |
//! |---|---|---|
//! | [`Thread`] | one | none |
//! | [`SubWarp`], [`Warp`](type@Warp) | 1 to 32 lanes of a warp | `bar.warp.sync` |
//! | [`WarpGroup`] | 2 to 32 warps of a block | a word in shared memory |
//! | [`Block`] | a block | `barrier.sync` |
//! | [`Cluster`] | the blocks of a cluster | `barrier.sync`, `barrier.cluster` |
//! | [`Grid`] | all blocks of a collective kernel | `barrier.sync`, and a word in device memory |
//!
//! Tiles of one's own implement [`Tile`].

mod cluster;
mod grid;
mod warp_group;

pub use cluster::Cluster;
pub use grid::Grid;
pub(crate) use warp_group::BYTES as GROUP_BYTES;
pub use warp_group::WarpGroup;

use crate::Pod;
use crate::arch;
use core::ops::Range;

/// Threads that call together.
///
/// A kernel may have tiles of its own, built on those that exist:
///
/// ```
/// use shmem::prelude::*;
/// use shmem::tile::Group;
///
/// /// The even lanes of a warp.
/// #[derive(Clone, Copy)]
/// struct EvenLanes;
/// const EVEN: u32 = 0x5555_5555;
///
/// // SAFETY: warp::sync waits for the lanes of the mask and orders memory among them; their ranks are 0 to 15.
/// unsafe impl Tile for EvenLanes {
///     fn rank(self) -> u32 {
///         warp::lane_id() / 2
///     }
///     fn size(self) -> u32 {
///         16
///     }
///     fn id(self) -> u32 {
///         warp::warp_id()
///     }
///     fn sync(self) {
///         warp::sync(EVEN);
///     }
///     fn broadcast(self, value: u64) -> u64 {
///         // Of all that the lanes put there, the leader's is read.
///         shared!(words: [u64; 1024]);
///         words.store(thread::index(), value);
///         self.sync();
///         let value = words.load(thread::index() & !31);
///         self.sync();
///         value
///     }
///     fn group(self) -> Group {
///         Group::Warp(EVEN)
///     }
/// }
/// impl InBlock for EvenLanes {}
///
/// shmem_sim::run(2, 1, 64, || {
///     let (dst, src) = (shmem_sim::symmetric::<u32>(200), shmem_sim::symmetric::<u32>(200));
///     let ready = shmem_sim::signals(2);
///     let (dst, src) = (dst.chunk(warp::warp_id(), 100), src.chunk(warp::warp_id(), 100));
///     if warp::lane_id() % 2 == 0 {
///         for i in EvenLanes.strided(100) {
///             src.store(i, 1000 + i);
///         }
///         EvenLanes.sync();
///         let ready = ready.at(EvenLanes.id());
///         shmem::put_signal(EvenLanes, dst, src, ready.set(1), 1 - shmem::my_pe());
///         assert_eq!(shmem::wait_until(EvenLanes, ready, ge(1)), 1);
///         assert_eq!(dst.load(99), 1099);
///     }
/// }).unwrap();
/// ```
///
/// The first two warps of each block are `Block.groups::<2>()` where its `id()` is 0: no tile of one's own is needed.
///
/// # Safety
/// `sync` waits for every member and orders memory among them as `barrier.sync` does; ranks are `0..size()`, each once;
/// `group` names just the members.
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

    /// A [`broadcast`](Self::broadcast) in two steps, of which the first may go ahead of what the leader waits for: all members have read what the
    /// last one told.
    #[doc(hidden)]
    #[inline(always)]
    fn __clear(self) {}

    /// The second step. All members call both.
    #[doc(hidden)]
    #[inline(always)]
    #[track_caller]
    fn __tell(self, value: u64) -> u64 {
        self.broadcast(value)
    }

    /// Whole blocks, so that a thread may have no more than 64 registers.
    #[doc(hidden)]
    const __BLOCKS: bool = false;

    /// Whether this thread is the one member that is elected, for what one of them does alone. Which it is, is not promised:
    /// take [`leader`](Self::leader) where it matters. No sync, so that any member may call it.
    ///
    /// PTX `elect.sync` chooses among the lanes of a warp, from sm_90 on; this one is rank 0 everywhere.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// shmem_sim::run(1, 1, 64, || {
    ///     let count = shmem_sim::counters(1).at(0);
    ///     if Warp.elect() {
    ///         shmem::signal_op(count.add(1), 0);
    ///     }
    ///     assert_eq!(shmem::wait_until(Block, count, ge(2)), 2);
    /// }).unwrap();
    /// ```
    #[inline(always)]
    #[track_caller]
    fn elect(self) -> bool {
        self.leader()
    }

    /// This member's share of `0..n` in one piece: shares follow each other by rank, and the first `n % size` of them are one
    /// longer than the rest. For memory, [`strided`](Self::strided) is mostly faster: neighbouring threads then touch
    /// neighbouring elements.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// shmem_sim::run(1, 1, 4, || {
    ///     let mine = Block.part(10);
    ///     assert_eq!(mine, [0..3, 3..6, 6..8, 8..10][thread::index() as usize]);
    ///     assert_eq!(shmem_sim::symmetric::<u32>(10).slice(mine.clone()).len(), u64::from(mine.end - mine.start));
    /// }).unwrap();
    /// ```
    #[inline(always)]
    #[track_caller]
    fn part(self, n: u32) -> Range<u32> {
        let (rank, size) = (self.rank(), self.size());
        let (each, longer) = (n / size, n % size);
        let start = rank * each + rank.min(longer);
        start..start + each + u32::from(rank < longer)
    }

    /// Which threads its `sync` waits for. The simulator, which runs whole operations of a tile, goes by it; on a GPU nothing
    /// does. A tile that is built on another one says what that one says.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// use shmem::tile::Group;
    /// shmem_sim::run(1, 1, 32, || assert_eq!(Warp.group(), Group::Warp(!0))).unwrap();
    /// ```
    #[track_caller]
    fn group(self) -> Group;
}

/// Threads that wait for each other, as seen by one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// Itself.
    Thread,
    /// The lanes of its warp whose bits are set.
    Warp(u32),
    /// The threads of some warps of its block.
    Warps {
        /// The first warp.
        first: u32,
        /// How many.
        count: u32,
    },
    /// All threads of its block.
    Block,
    /// All threads of the blocks of its cluster.
    Cluster,
    /// All threads of its grid.
    Grid,
}

/// Tiles that lie inside one block, and so may use its shared memory.
#[diagnostic::on_unimplemented(
    message = "the threads of `{Self}` are not all in one block",
    note = "shared memory and BlockShared contexts are of one block"
)]
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
    #[inline(always)]
    fn group(self) -> Group {
        Group::Thread
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
    #[inline(always)]
    #[track_caller]
    fn group(self) -> Group {
        Group::Warp(self.mask())
    }
}

impl<const N: u32> SubWarp<N> {
    /// The lanes of this tile within its warp.
    #[inline(always)]
    #[track_caller]
    pub fn mask(self) -> u32 {
        const {
            assert!(
                N.is_power_of_two() && N <= 32,
                "a SubWarp has 1, 2, 4, 8, 16 or 32 lanes"
            )
        };
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

    /// The tiles of M lanes that this one is made of; this thread's own one. M is at most N.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// shmem_sim::run(1, 1, 32, || assert_eq!(Warp.partition::<8>().id(), thread::index() / 8)).unwrap();
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn partition<const M: u32>(self) -> SubWarp<M> {
        const { assert!(M <= N, "a part has at most as many lanes as the whole") };
        SubWarp
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
    const __BLOCKS: bool = true;

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
        self.__clear();
        self.__tell(value)
    }
    #[inline(always)]
    #[track_caller]
    fn __clear(self) {
        self.sync();
    }
    #[inline(always)]
    #[track_caller]
    fn __tell(self, value: u64) -> u64 {
        let slot = crate::shared::scratch();
        if self.leader() {
            slot.store(0, value);
        }
        self.sync();
        slot.load(0)
    }
    #[inline(always)]
    fn group(self) -> Group {
        Group::Block
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
