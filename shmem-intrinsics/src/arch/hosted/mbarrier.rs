//! `mbarrier` as a word that lanes change by compare-and-swap. Its layout is this file's own:
//!
//! | bits | |
//! |---|---|
//! | 52.. | [`MARK`], so that memory that was never initialised is told apart |
//! | 40..52 | the phase's number |
//! | 20..40 | arrivals that the phase still lacks |
//! | ..20 | arrivals of each phase |

use super::atomic;
use crate::arch::{Order, Place, Target};

const MARK: u64 = 0xb47;
const COUNT: u64 = (1 << 20) - 1;

fn phase(word: u64) -> u64 {
    word >> 40 & 0xfff
}

fn word(phase: u64, pending: u64, arrivals: u64) -> u64 {
    MARK << 52 | (phase & 0xfff) << 40 | pending << 20 | arrivals
}

fn target(address: u64) -> Target {
    Target::Here {
        address,
        place: Place::Shared,
    }
}

/// # Safety
/// The address is that of a word for barriers, as in all functions of this file.
#[track_caller]
unsafe fn load(at: u64) -> u64 {
    // SAFETY: the caller's promise.
    let word: u64 = unsafe { atomic::load(target(at), Order::Acquire) };
    assert!(
        word >> 52 == MARK,
        "this mbarrier is not initialised: one thread calls init, then its block syncs"
    );
    word
}

/// # Safety
/// See [`load`].
#[track_caller]
pub(crate) unsafe fn mbarrier_init(at: u64, arrivals: u32) {
    // SAFETY: the caller's promise.
    let old: u64 = unsafe { atomic::load(target(at), Order::Relaxed) };
    assert!(
        old >> 52 != MARK,
        "this mbarrier is initialised already: invalidate it before"
    );
    let arrivals = arrivals.into();
    // SAFETY: the caller's promise.
    unsafe { atomic::store(target(at), word(0, arrivals, arrivals), Order::Relaxed) };
}

/// # Safety
/// See [`load`].
#[track_caller]
pub(crate) unsafe fn mbarrier_invalidate(at: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        load(at);
        atomic::store(target(at), 0u64, Order::Relaxed);
    }
}

/// # Safety
/// See [`load`].
#[track_caller]
pub(crate) unsafe fn mbarrier_arrive(at: u64) -> u64 {
    loop {
        // SAFETY: the caller's promise.
        let old = unsafe { load(at) };
        let (pending, arrivals) = (old >> 20 & COUNT, old & COUNT);
        let new = match pending {
            1 => word(phase(old) + 1, arrivals, arrivals),
            _ => word(phase(old), pending - 1, arrivals),
        };
        // SAFETY: the caller's promise.
        if unsafe { atomic::compare_swap(target(at), old, new, Order::AcqRel) } == old {
            return old;
        }
    }
}

/// # Safety
/// See [`load`].
#[track_caller]
pub(crate) unsafe fn mbarrier_arrive_after_copies(at: u64) {
    super::commit_async();
    super::wait_async::<0>();
    // SAFETY: the caller's promise.
    unsafe { mbarrier_arrive(at) };
}

/// # Safety
/// See [`load`].
#[track_caller]
pub(crate) unsafe fn mbarrier_test(at: u64, state: u64) -> bool {
    // SAFETY: the caller's promise.
    phase(unsafe { load(at) }) != phase(state)
}

/// # Safety
/// See [`load`].
#[track_caller]
pub(crate) unsafe fn mbarrier_test_parity(at: u64, parity: u32) -> bool {
    // SAFETY: the caller's promise.
    phase(unsafe { load(at) }) % 2 != u64::from(parity)
}
