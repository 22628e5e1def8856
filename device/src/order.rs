//! quiet and sync on a stream.
use shmem::prelude::*;

/// Completes what kernels earlier on the stream issued.
#[kernel(block = 32)]
pub fn quiet() {
    shmem::quiet(Warp);
    shmem::order::__complete(Warp);
}

/// All PEs meet, in stream order: one warp, slot 0.
#[kernel(collective, programmatic, block = 32)]
pub fn sync_all(all: Collective) {
    all.sync(Warp, shmem::world());
}
