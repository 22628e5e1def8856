//! Each PE writes its number into its right neighbour.
use shmem::prelude::*;

/// Puts this PE's number into `dst[0]` of its right neighbour.
#[kernel]
pub fn simple_shift(dst: SymSlice<i32>) {
    let me = shmem::my_pe();
    let peer = (me + 1) % shmem::n_pes();
    shmem::p(dst.at(0), me as i32, peer);
}
