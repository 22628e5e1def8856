//! Exchange among the 32 lanes of a warp. Every lane named in a mask makes the same call; all lanes where there is no mask.
//!
//! | call | PTX |
//! |---|---|
//! | [`shuffle`], [`shuffle_xor`] | `shfl.sync.idx`, `shfl.sync.bfly` |
//! | [`ballot`], [`any`], [`all`] | `vote.sync.ballot`, `.any`, `.all` |
//!
//! Smaller groups have the same calls as methods of [`SubWarp`]. All of them are LLVM's convergent
//! intrinsics: as `asm!` the optimiser would be free to copy one into both arms of a branch.

use crate::Pod;
use crate::arch;
use crate::tile::SubWarp;

/// All 32 lanes.
pub const FULL: u32 = !0;

/// The thread's lane in its warp, `0..32` (`%laneid`).
#[inline(always)]
#[track_caller]
pub fn lane_id() -> u32 {
    arch::lane_id()
}

/// The thread's warp in its block.
#[inline(always)]
#[track_caller]
pub fn warp_id() -> u32 {
    crate::thread::index() / 32
}

/// The value that lane `from % 32` gives.
///
/// ```
/// use shmem::warp;
/// shmem_sim::run(1, 1, 32, || assert_eq!(warp::shuffle(warp::lane_id() * 10, 7), 70)).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn shuffle<T: Pod>(value: T, from: u32) -> T {
    SubWarp::<32>.shuffle(value, from)
}

/// The value of the lane whose number differs from ours by exclusive or with `mask`.
///
/// ```
/// use shmem::warp;
/// shmem_sim::run(1, 1, 32, || assert_eq!(warp::shuffle_xor(warp::lane_id(), 1), warp::lane_id() ^ 1)).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn shuffle_xor<T: Pod>(value: T, mask: u32) -> T {
    SubWarp::<32>.shuffle_xor(value, mask)
}

/// Bit i tells whether lane i said true.
///
/// ```
/// use shmem::warp;
/// shmem_sim::run(1, 1, 32, || assert_eq!(warp::ballot(warp::lane_id() < 4), 0b1111)).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn ballot(predicate: bool) -> u32 {
    arch::ballot(FULL, predicate)
}

/// Whether any lane said true.
///
/// ```
/// use shmem::warp;
/// shmem_sim::run(1, 1, 32, || assert!(warp::any(warp::lane_id() == 9))).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn any(predicate: bool) -> bool {
    arch::vote_any(FULL, predicate)
}

/// Whether every lane said true.
///
/// ```
/// use shmem::warp;
/// shmem_sim::run(1, 1, 32, || assert!(!warp::all(warp::lane_id() == 9))).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn all(predicate: bool) -> bool {
    arch::vote_all(FULL, predicate)
}

/// Waits for the lanes in `mask`, and orders memory among them (`bar.warp.sync`).
///
/// ```
/// use shmem::warp;
/// shmem_sim::run(1, 1, 32, || warp::sync(warp::FULL)).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn sync(mask: u32) {
    arch::sync_warp(mask);
}
