//! Barriers of a grid and of some warps: the machine's.

use crate::hook::{Group, current};
use core::panic::Location;

#[track_caller]
pub(crate) fn sync_grid(_line: u64) {
    current().machine.sync(Group::Grid, Location::caller());
}

/// Next to the block's broadcasts, which have 0.
const GROUPS: u64 = 1;

#[track_caller]
pub(crate) fn group_words() -> u64 {
    super::shared(GROUPS, crate::tile::GROUP_BYTES)
}

#[track_caller]
pub(crate) fn group_thread<const W: u32>() -> u32 {
    crate::tile::check_divides(32 * W);
    crate::thread::index()
}

#[track_caller]
pub(crate) fn sync_warps(_word: u64, first: u32, count: u32) {
    current()
        .machine
        .sync(Group::Warps { first, count }, Location::caller());
}
