//! Exchange among the 32 lanes of a warp. Every lane named in a mask makes the same call; all lanes where there is no mask.
//!
//! | call | PTX |
//! |---|---|
//! | [`shuffle`], [`shuffle_xor`] | `shfl.sync.idx`, `shfl.sync.bfly` |
//! | [`ballot`], [`any`], [`all`] | `vote.sync.ballot`, `.any`, `.all` |
//! | [`shuffle_up`], [`shuffle_down`] | `shfl.sync.up`, `.down` |
//! | [`match_any`], [`match_all`] | `match.any.sync` |
//! | [`reduce_add`], [`reduce_min`], [`reduce_max`], [`reduce_and`], [`reduce_or`], [`reduce_xor`] | `redux.sync` |
//!
//! Smaller groups have the same calls as methods of [`SubWarp`]. All of them are LLVM's convergent
//! intrinsics: as `asm!` the optimiser would be free to copy one into both arms of a branch.

use crate::Pod;
use crate::arch;
use crate::reduce::{Number, Reduce};
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

/// The value of the lane `by` below; lanes below `by` keep their own.
///
/// PTX `shfl.sync.up`.
///
/// ```
/// use shmem::warp;
/// shmem_sim::run(1, 1, 32, || {
///     let lane = warp::lane_id();
///     assert_eq!(warp::shuffle_up(lane, 4), if lane < 4 { lane } else { lane - 4 });
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn shuffle_up<T: Pod>(value: T, by: u32) -> T {
    let (mut words, n) = arch::to_words(value);
    let mut i = 0;
    while i < n {
        words[i] = arch::shuffle_up(FULL, words[i], by);
        i += 1;
    }
    arch::from_words(words)
}

/// The value of the lane `by` above; the last `by` lanes keep their own.
///
/// PTX `shfl.sync.down`.
///
/// ```
/// use shmem::warp;
/// shmem_sim::run(1, 1, 32, || {
///     let lane = warp::lane_id();
///     assert_eq!(warp::shuffle_down(lane, 4), if lane > 27 { lane } else { lane + 4 });
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn shuffle_down<T: Pod>(value: T, by: u32) -> T {
    let (mut words, n) = arch::to_words(value);
    let mut i = 0;
    while i < n {
        words[i] = arch::shuffle_down(FULL, words[i], by);
        i += 1;
    }
    arch::from_words(words)
}

/// Which lanes give the same bits as this one. Values of 4 or 8 bytes.
///
/// PTX `match.any.sync`.
///
/// ```
/// use shmem::warp;
/// shmem_sim::run(1, 1, 32, || {
///     let lane = warp::lane_id();
///     assert_eq!(warp::match_any(lane / 16), if lane < 16 { 0xffff } else { 0xffff_0000 });
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn match_any<T: Pod>(value: T) -> u32 {
    const { assert!(matches!(size_of::<T>(), 4 | 8), "a matched value has 4 or 8 bytes") };
    if size_of::<T>() == 4 {
        arch::match_any_32(FULL, bytemuck::cast(value))
    } else {
        arch::match_any_64(FULL, bytemuck::cast(value))
    }
}

/// Whether all lanes of a full warp give the same bits. Values of 4 or 8 bytes.
///
/// PTX `match.any.sync`: all are alike where this lane's set has everyone.
///
/// ```
/// use shmem::warp;
/// shmem_sim::run(1, 1, 32, || {
///     assert!(warp::match_all(7u64));
///     assert!(!warp::match_all(warp::lane_id()));
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn match_all<T: Pod>(value: T) -> bool {
    match_any(value) == FULL
}

/// Numbers that `redux.sync` reduces: u32, i32.
pub trait Redux: Number {}
impl Redux for u32 {}
impl Redux for i32 {}

/// The wrapping sum of all lanes' values, u32 or i32. Other numbers and smaller groups: [`Reduce::sum`].
///
/// PTX `redux.sync.add`.
///
/// ```
/// use shmem::warp;
/// shmem_sim::run(1, 1, 32, || assert_eq!(warp::reduce_add(warp::lane_id()), 31 * 32 / 2)).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn reduce_add<T: Redux>(value: T) -> T {
    Reduce::sum(SubWarp::<32>, value)
}

/// The smallest of all lanes' values, u32 or i32.
///
/// PTX `redux.sync.min`.
///
/// ```
/// use shmem::warp;
/// shmem_sim::run(1, 1, 32, || assert_eq!(warp::reduce_min(5 - warp::lane_id() as i32), -26)).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn reduce_min<T: Redux>(value: T) -> T {
    Reduce::min(SubWarp::<32>, value)
}

/// The largest of all lanes' values, u32 or i32.
///
/// PTX `redux.sync.max`.
///
/// ```
/// use shmem::warp;
/// shmem_sim::run(1, 1, 32, || assert_eq!(warp::reduce_max(5 - warp::lane_id() as i32), 5)).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn reduce_max<T: Redux>(value: T) -> T {
    Reduce::max(SubWarp::<32>, value)
}

/// The bits that every lane has.
///
/// PTX `redux.sync.and`.
///
/// ```
/// use shmem::warp;
/// shmem_sim::run(1, 1, 32, || assert_eq!(warp::reduce_and(warp::lane_id() | 64), 64)).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn reduce_and(value: u32) -> u32 {
    arch::redux_and(value, FULL)
}

/// The bits that any lane has.
///
/// PTX `redux.sync.or`.
///
/// ```
/// use shmem::warp;
/// shmem_sim::run(1, 1, 32, || assert_eq!(warp::reduce_or(warp::lane_id()), 31)).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn reduce_or(value: u32) -> u32 {
    arch::redux_or(value, FULL)
}

/// The bits that an odd number of lanes have.
///
/// PTX `redux.sync.xor`.
///
/// ```
/// use shmem::warp;
/// shmem_sim::run(1, 1, 32, || assert_eq!(warp::reduce_xor(u32::from(warp::lane_id() < 3)), 1)).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn reduce_xor(value: u32) -> u32 {
    arch::redux_xor(value, FULL)
}
