//! Asynchronous copies: the machine keeps them until they are waited for.

use super::{Space, Strength, access};
use crate::Pod;
use crate::hook::current;
use core::panic::Location;

/// # Safety
/// Both are addresses of a live T, of 4, 8 or 16 bytes.
#[track_caller]
pub(crate) unsafe fn copy_async<T: Pod>(shared: u64, global: u64, space: Space) {
    let (from, to) = (
        access::<T>(global, space, Strength::Weak),
        access::<T>(shared, Space::Shared, Strength::Weak),
    );
    current().machine.copy_async(from, to, Location::caller());
}

#[track_caller]
pub(crate) fn commit_async() {
    current().machine.commit_async();
}

#[track_caller]
pub(crate) fn wait_async<const N: u32>() {
    current().machine.wait_async(N, Location::caller());
}
