//! Thread-block clusters: `blocks` neighbours along x.

use crate::hook::{Group, current};
use core::panic::Location;

#[track_caller]
pub(crate) fn cluster_blocks() -> u32 {
    current().lane.cluster
}

#[track_caller]
pub(crate) fn cluster_block_rank() -> u32 {
    current().lane.block[0] % cluster_blocks()
}

#[track_caller]
pub(crate) fn cluster_idx() -> [u32; 3] {
    let [x, y, z] = super::block_idx();
    [x / cluster_blocks(), y, z]
}

#[track_caller]
pub(crate) fn cluster_dim() -> [u32; 3] {
    let [x, y, z] = super::grid_dim();
    [x / cluster_blocks(), y, z]
}

#[track_caller]
pub(crate) fn sync_cluster() {
    current().machine.sync(Group::Cluster, Location::caller());
}

/// The cluster's word for broadcasts, the second of its first block.
#[track_caller]
pub(crate) fn cluster_scratch() -> u64 {
    let at = current()
        .machine
        .first_shared(super::SCRATCH, super::SCRATCH_BYTES, Location::caller()) as u64
        + 8;
    // SAFETY: the first block has the word, and has not ended: it syncs with this lane later.
    unsafe { super::load(at, super::Space::Shared, super::Strength::Weak) }
}
