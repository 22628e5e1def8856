use shmem::prelude::*;

#[kernel(blocks = 4)]
pub fn unknown_word() {}

#[kernel(block = 2048)]
pub fn block_too_large() {}

#[kernel(block = 32, max_block = 64)]
pub fn two_bounds() {}

#[kernel]
pub fn no_instances<T: Pod>(x: Global<T>) {
    let _ = x;
}

#[kernel(for<u32>)]
pub fn not_generic(x: Global<u32>) {
    let _ = x;
}

fn main() {}
