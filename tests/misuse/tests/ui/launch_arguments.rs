use shmem::prelude::*;
use shmem_host::{Pe, collective_launch};

#[kernel]
pub fn shift(dst: SymSlice<i32>, n: u32) {
    let _ = (dst, n);
}

fn wrong_type(pe: &Pe, floats: &shmem_host::SymBuf<f32>) {
    let _ = collective_launch!(pe, shift<<<1, 1>>>(floats, 1));
}

fn wrong_scalar(pe: &Pe, ints: &shmem_host::SymBuf<i32>) {
    let _ = collective_launch!(pe, shift<<<1, 1>>>(ints, 1.5f32));
}

fn too_few(pe: &Pe, ints: &shmem_host::SymBuf<i32>) {
    let _ = collective_launch!(pe, shift<<<1, 1>>>(ints));
}

fn main() {}
