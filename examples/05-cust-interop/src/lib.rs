//! The kernel of a program that uses cust.
use shmem::prelude::*;

/// Puts `x`, multiplied, into the right neighbour's `dst`.
#[kernel(collective)]
pub fn scale_to_right(all: Collective, dst: SymSlice<f32>, x: Global<f32>, by: f32) {
    let right = (shmem::my_pe() + 1) % shmem::n_pes();
    for i in Block.strided(x.len() as u32) {
        shmem::p(dst.at(i), x.load(i) * by, right);
    }
    all.barrier(Block, shmem::world());
}
