//! The library's own kernels: what calls on a stream launch. Users call them through `shmem_host::Stream`.
pub mod collective;
pub mod order;
pub mod rma;
pub mod signal;

use shmem::prelude::*;

/// A barrier of all PEs in stream order: one warp, slot 0.
#[kernel(collective, programmatic, block = 32)]
pub fn barrier_all(all: Collective) {
    shmem::order::__complete(Warp);
    all.barrier(Warp, shmem::world());
}

/// A barrier of a team in stream order: one warp, slot 0. Only the members launch it.
#[kernel(programmatic, block = 32)]
pub fn team_barrier(team: Team) {
    shmem::order::__complete(Warp);
    alone().barrier(Warp, team);
}

/// Likewise a sync.
#[kernel(programmatic, block = 32)]
pub fn team_sync(team: Team) {
    alone().sync(Warp, team);
}

#[inline(always)]
fn alone() -> Collective {
    // SAFETY: one block is resident by itself, and nothing here uses the grid's barrier, which the number is for.
    unsafe { Collective::__new(0) }
}
