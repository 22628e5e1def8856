//! Time in a kernel.
//!
//! | call | unit | PTX | simulator |
//! |---|---|---|---|
//! | [`clock`] | cycles of the thread's multiprocessor | `%clock64` | simulated ns |
//! | [`globaltimer`] | ns, one clock for the whole device | `%globaltimer` | simulated ns |
//! | [`nanosleep`] | ns | `nanosleep.u32` | gives way to other lanes |

use crate::arch;

/// Cycles since some start; for differences within one thread block, whose threads share the counter.
///
/// Accesses before and after stay there in the compiler's order, but the GPU may still have earlier ones in flight. PTX
/// `%clock64`. On the simulator it counts simulated time, which says nothing about GPUs.
///
/// ```
/// use shmem::{prelude::*, time};
/// shmem_sim::run(1, 1, 32, || {
///     let before = time::clock();
///     Block.sync();
///     assert!(time::clock() > before);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn clock() -> u64 {
    arch::clock()
}

/// Nanoseconds since some start that all threads of the device share. It ticks coarsely (32 ns to about 1 us, by device).
///
/// PTX `%globaltimer`.
///
/// ```
/// use shmem::time;
/// shmem_sim::run(1, 1, 1, || {
///     let before = time::globaltimer();
///     time::nanosleep(500);
///     assert!(time::globaltimer() >= before + 500);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn globaltimer() -> u64 {
    arch::globaltimer()
}

/// Suspends the thread for about `ns` nanoseconds: between 0 and twice as many, at most a millisecond. To wait for
/// memory use [`wait_until`](crate::wait_until) or [`spin_until`](crate::spin_until), which are bounded and see failures.
///
/// PTX `nanosleep.u32`.
///
/// ```
/// shmem_sim::run(1, 1, 32, || shmem::time::nanosleep(100)).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn nanosleep(ns: u32) {
    arch::nanosleep(ns);
}
