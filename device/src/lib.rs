//! The library's own kernels: what calls on a stream launch. Users call them through `shmem_host::Stream`.
pub mod order;
pub mod rma;
pub mod signal;

use shmem::prelude::*;

/// A barrier of all PEs in stream order: one warp, slot 0.
#[kernel(collective, block = 32)]
pub fn barrier_all(all: Collective) {
    all.barrier(Warp, shmem::world());
}
