//! Simulated time.

use super::watch;
use crate::hook::current;
use core::panic::Location;

#[track_caller]
pub(crate) fn clock() -> u64 {
    globaltimer()
}

#[track_caller]
pub(crate) fn globaltimer() -> u64 {
    current().machine.now_ns()
}

/// Other lanes run at least once, as they would on a GPU.
#[track_caller]
pub(crate) fn nanosleep(ns: u32) {
    let until = globaltimer() + u64::from(ns);
    let watch = watch(0, 0, "", 0);
    loop {
        current().machine.pause(&watch, Location::caller());
        if globaltimer() >= until {
            break;
        }
    }
}
