//! The kernel of a ring sum that communicates on the stream.
use shmem::prelude::*;

/// Adds what came to the sum, and passes it on.
#[kernel]
pub fn add(sum: Global<u32>, passing: Global<u32>, came: SymSlice<u32>) {
    for i in Block.strided(sum.len() as u32) {
        let value = came.load(i);
        sum.store(i, sum.load(i) + value);
        passing.store(i, value);
    }
}
