//! Barriers in shared memory of which arriving and waiting are two steps (`mbarrier`).
//!
//! A phase of an [`MBarrier`] ends when as many arrivals as it was initialised for have come; the next one begins at once.
//! Producers arrive and go on, consumers wait.
//!
//! | call | PTX | |
//! |---|---|---|
//! | [`init`](MBarrier::init) | `mbarrier.init` | by one thread, then a sync |
//! | [`arrive`](MBarrier::arrive) | `mbarrier.arrive` | releases |
//! | [`arrive_after_copies`](MBarrier::arrive_after_copies) | `cp.async.mbarrier.arrive.noinc` | arrives once this thread's `copy_async` are in place |
//! | [`test`](MBarrier::test), [`wait`](MBarrier::wait) | `mbarrier.test_wait` | for the phase of an arrival; acquire |
//! | [`test_parity`](MBarrier::test_parity), [`wait_parity`](MBarrier::wait_parity) | `mbarrier.test_wait.parity` | for an even or odd phase; acquire |
//! | [`invalidate`](MBarrier::invalidate) | `mbarrier.inval` | the memory is free for other things |
//!
//! All of it runs on sm_80. Byte counts (`expect_tx`) come with bulk copies, which need sm_90. Take [`Block.sync()`](crate::Tile::sync)
//! where all threads of a block wait at one place.
//!
//! ```
//! use shmem::mbarrier::MBarrierWord;
//! use shmem::prelude::*;
//! // Warp 0 fills a stage, warp 1 reads it; they wait for each other and for nobody else.
//! shmem_sim::run(1, 1, 64, || {
//!     shared!(stage: [u32; 32]);
//!     shared!(barriers: [MBarrierWord; 2]);
//!     let (full, empty) = (barriers.at(0), barriers.at(1));
//!     if Block.leader() {
//!         full.init(32);
//!         empty.init(32);
//!     }
//!     Block.sync();
//!     let lane = warp::lane_id();
//!     for round in 0..4 {
//!         if Warp.id() == 0 {
//!             if round > 0 {
//!                 empty.wait_parity(round - 1); // phase round - 1 of `empty` has ended
//!             }
//!             stage.store(lane, round);
//!             full.arrive();
//!         } else {
//!             full.wait_parity(round);
//!             assert_eq!(stage.load(31 - lane), round);
//!             empty.arrive();
//!         }
//!     }
//! }).unwrap();
//! ```

use crate::fault::{FaultKind, check};
use crate::{Index, Shared, arch};

/// The 8 bytes of an [`MBarrier`] in shared memory. They hold nothing to be read or written:
/// `shared!(full: [MBarrierWord; 2]);`, then `full.at(0)`.
///
/// ```compile_fail,E0599
/// use shmem::mbarrier::MBarrierWord;
/// use shmem::prelude::*;
/// shmem_sim::run(1, 1, 32, || {
///     shared!(full: [MBarrierWord; 1]);
///     full.load(0);
/// }).unwrap();
/// ```
#[repr(transparent)]
#[derive(Debug)]
pub struct MBarrierWord(u64);

/// A barrier in shared memory that threads arrive at and wait for apart. The [module](crate::mbarrier) has an example.
///
/// Before [`init`](Self::init) and a sync, only `init` may be called; the simulator reports others.
#[derive(Clone, Copy, Debug)]
pub struct MBarrier {
    address: u64,
}

/// The phase that a thread has arrived in, as [`MBarrier::arrive`] returns it.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    state: u64,
}

/// Arrivals that a phase may have: PTX ISA, "contents of the mbarrier object".
const MOST: u32 = (1 << 20) - 1;

impl Shared<MBarrierWord> {
    /// Barrier i. Faults with `FaultKind::Index` where i is outside.
    ///
    /// ```
    /// use shmem::mbarrier::MBarrierWord;
    /// use shmem::prelude::*;
    /// shmem_sim::run(1, 1, 1, || {
    ///     shared!(barriers: [MBarrierWord; 2]);
    ///     barriers.at(1).init(1);
    /// }).unwrap();
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn at(self, i: impl Index) -> MBarrier {
        MBarrier {
            address: self.position(i),
        }
    }
}

impl MBarrier {
    /// Makes it a barrier whose phases end with `arrivals` arrivals, in phase 0. One thread calls it, and a sync shows it to
    /// the others. Not again before [`invalidate`](Self::invalidate). Faults with `FaultKind::Arrivals` unless there are 1 to
    /// 2^20 - 1 arrivals.
    ///
    /// PTX `mbarrier.init`, CUDA `cuda::barrier::init`.
    ///
    /// ```
    /// use shmem::mbarrier::MBarrierWord;
    /// use shmem::prelude::*;
    /// shmem_sim::run(1, 1, 64, || {
    ///     shared!(barrier: [MBarrierWord; 1]);
    ///     let barrier = barrier.at(0);
    ///     if Block.leader() {
    ///         barrier.init(Block.size());
    ///     }
    ///     Block.sync();
    ///     barrier.wait(barrier.arrive());
    /// }).unwrap();
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn init(self, arrivals: u32) {
        let fits = arrivals != 0 && arrivals <= MOST;
        check(fits, FaultKind::Arrivals, arrivals.into(), MOST.into());
        // SAFETY: a word of shared memory that is for barriers alone.
        unsafe { arch::mbarrier_init(self.address, arrivals) };
    }

    /// Ends its use as a barrier: its memory may be initialised again. One thread calls it, when all others are done with it
    /// and have synced; then they sync again.
    ///
    /// PTX `mbarrier.inval`.
    ///
    /// ```
    /// use shmem::mbarrier::MBarrierWord;
    /// use shmem::prelude::*;
    /// shmem_sim::run(1, 1, 1, || {
    ///     shared!(barrier: [MBarrierWord; 1]);
    ///     barrier.at(0).init(1);
    ///     barrier.at(0).invalidate();
    ///     barrier.at(0).init(2);
    /// }).unwrap();
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn invalidate(self) {
        // SAFETY: as in `init`.
        unsafe { arch::mbarrier_invalidate(self.address) };
    }

    /// Arrives: one of the arrivals that end the current phase. One thread's own; returns at once. Releases: whoever waits
    /// for the phase sees what this thread did before.
    ///
    /// PTX `mbarrier.arrive`, CUDA `cuda::barrier::arrive`.
    ///
    /// ```
    /// use shmem::mbarrier::MBarrierWord;
    /// use shmem::prelude::*;
    /// shmem_sim::run(1, 1, 1, || {
    ///     shared!(barrier: [MBarrierWord; 1]);
    ///     let barrier = barrier.at(0);
    ///     barrier.init(2);
    ///     let first = barrier.arrive();
    ///     assert!(!barrier.test(first));
    ///     barrier.arrive();
    ///     assert!(barrier.test(first));
    /// }).unwrap();
    /// ```
    #[inline(always)]
    #[track_caller]
    #[expect(clippy::must_use_candidate, reason = "who waits by parity needs no token")]
    pub fn arrive(self) -> Arrival {
        // SAFETY: as in `init`.
        let state = unsafe { arch::mbarrier_arrive(self.address) };
        Arrival { state }
    }

    /// Arrives once all that this thread has begun to copy with [`copy_async`](crate::async_copy::copy_async) is in place,
    /// committed or not. One thread's own; returns at once. Whoever waits for the phase sees the copies, and only those:
    /// what else this thread did before is not released.
    ///
    /// PTX `cp.async.mbarrier.arrive.noinc`, CUDA `__pipeline_arrive_on`. The simulator puts the copies in place at this call.
    ///
    /// ```
    /// use shmem::async_copy::copy_async;
    /// use shmem::mbarrier::MBarrierWord;
    /// use shmem::prelude::*;
    /// shmem_sim::run(1, 1, 32, || {
    ///     shared!(stage: [u32; 64]);
    ///     shared!(full: [MBarrierWord; 1]);
    ///     let full = full.at(0);
    ///     if Block.leader() {
    ///         full.init(32);
    ///     }
    ///     Block.sync();
    ///     copy_async(Block, stage, shmem_sim::symmetric_with::<u32>(64, |_, i| i as u32));
    ///     full.arrive_after_copies();
    ///     full.wait_parity(0);
    ///     assert_eq!(stage.load(63 - thread::index()), 63 - thread::index());
    /// }).unwrap();
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn arrive_after_copies(self) {
        // SAFETY: as in `init`.
        unsafe { arch::mbarrier_arrive_after_copies(self.address) };
    }

    /// Whether the phase of an arrival at this barrier has ended. One thread's own; never waits. Acquires where it has. The
    /// arrival is one in the current phase or the one before: no older one is told apart.
    ///
    /// PTX `mbarrier.test_wait`. [`arrive`](Self::arrive) has an example.
    #[inline(always)]
    #[track_caller]
    #[must_use]
    pub fn test(self, arrival: Arrival) -> bool {
        // SAFETY: as in `init`.
        unsafe { arch::mbarrier_test(self.address, arrival.state) }
    }

    /// Waits until the phase of an arrival has ended, as [`test`](Self::test) tells it. One thread's own; acquires. Bounded
    /// like all waits: `FaultKind::TimeLimit`, `FaultKind::PeerFailed`.
    ///
    /// PTX `mbarrier.test_wait` in a loop, CUDA `cuda::barrier::wait`. [`init`](Self::init) has an example.
    #[inline(always)]
    #[track_caller]
    pub fn wait(self, arrival: Arrival) {
        let watch = arch::watch(self.address, 8, "another phase than that of", arrival.state);
        arch::spin(&watch, || self.test(arrival));
    }

    /// Whether the phase of this parity has ended: the current phase, or the one before, whichever is even where `phase` is,
    /// and odd where it is odd. So a thread that numbers the phases from 0 and falls behind by none asks for its number. One
    /// thread's own; never waits. Acquires where it has.
    ///
    /// PTX `mbarrier.test_wait.parity`.
    ///
    /// ```
    /// use shmem::mbarrier::MBarrierWord;
    /// use shmem::prelude::*;
    /// shmem_sim::run(1, 1, 1, || {
    ///     shared!(barrier: [MBarrierWord; 1]);
    ///     let barrier = barrier.at(0);
    ///     barrier.init(1);
    ///     for phase in 0..4 {
    ///         assert!(!barrier.test_parity(phase));
    ///         barrier.arrive();
    ///         assert!(barrier.test_parity(phase));
    ///     }
    /// }).unwrap();
    /// ```
    #[inline(always)]
    #[track_caller]
    #[must_use]
    pub fn test_parity(self, phase: u32) -> bool {
        // SAFETY: as in `init`.
        unsafe { arch::mbarrier_test_parity(self.address, phase & 1) }
    }

    /// Waits until the phase of this parity has ended, as [`test_parity`](Self::test_parity) tells it. One thread's own;
    /// acquires. Bounded like all waits: `FaultKind::TimeLimit`, `FaultKind::PeerFailed`.
    ///
    /// PTX `mbarrier.test_wait.parity` in a loop. The [module](crate::mbarrier) has an example.
    #[inline(always)]
    #[track_caller]
    pub fn wait_parity(self, phase: u32) {
        let watch = arch::watch(
            self.address,
            8,
            "another phase than one of parity",
            u64::from(phase & 1),
        );
        arch::spin(&watch, || self.test_parity(phase));
    }
}
