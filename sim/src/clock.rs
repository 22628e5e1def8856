//! Simulated time.

use std::cell::Cell;

/// Simulated nanoseconds that one stretch of a lane, or one look at the clock, takes.
pub(crate) const TICK_NS: u64 = 10;

#[derive(Default)]
pub(crate) struct Clock(Cell<u64>);

impl Clock {
    pub(crate) fn now_ns(&self) -> u64 {
        self.0.get()
    }

    pub(crate) fn pass_ns(&self, ns: u64) {
        self.0.set(self.0.get() + ns);
    }

    /// Goes on to a later time.
    pub(crate) fn reach_ns(&self, ns: u64) {
        self.0.set(self.0.get().max(ns));
    }
}
