//! The cases, by what they are about.

mod atomics;
mod buffers;
mod completion;
mod hosts;
mod order;
mod signals;
mod teams;
mod tiles;

use crate::Case;

/// All of them, in the order of the table.
pub fn all() -> impl Iterator<Item = &'static Case> {
    [
        order::CASES,
        completion::CASES,
        signals::CASES,
        buffers::CASES,
        tiles::CASES,
        atomics::CASES,
        teams::CASES,
        hosts::CASES,
    ]
    .into_iter()
    .flatten()
}
