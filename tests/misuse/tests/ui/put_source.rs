use shmem::prelude::*;

fn threads_own_array_by_a_block(dst: SymSlice<u32>) {
    shmem::put(Block, dst, &[1u32; 4], 1);
}

fn other_element_type(dst: SymSlice<u32>, src: SymSlice<f32>) {
    shmem::put(Block, dst, src, 1);
}

fn main() {}
