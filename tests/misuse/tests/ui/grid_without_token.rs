use shmem::prelude::*;

#[kernel]
pub fn plain(dst: SymSlice<u32>, src: SymSlice<u32>) {
    shmem::put(Grid, dst, src, 1);
}

fn main() {}
