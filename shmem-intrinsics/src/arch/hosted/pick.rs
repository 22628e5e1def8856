//! Where a fair look at several words begins.

use std::cell::Cell;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// A number below n, another one at each call; 0 where n is. Counts the calls of this OS thread, so that a world that is
/// run again sees the same.
pub(crate) fn pick(n: u64) -> u64 {
    let calls = CALLS.get();
    CALLS.set(calls.wrapping_add(1));
    calls.checked_rem(n).unwrap_or(0)
}
