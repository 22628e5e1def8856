//! What the suite itself needs.

use shmem::prelude::*;

/// Every PE tells every other its number.
#[kernel(collective, block = 32)]
pub fn post(all: Collective, board: SymSlice<f64>, mine: f64) {
    for pe in Warp.strided(shmem::n_pes()) {
        shmem::p(board.at(shmem::my_pe()), mine, pe);
    }
    all.barrier(Warp, shmem::world());
}
