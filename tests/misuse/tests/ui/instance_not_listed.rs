use shmem::prelude::*;
use shmem_host::{Pe, SymBuf, collective_launch};

#[kernel(for<f32>, for<u32>)]
pub fn fill<T: Pod>(dst: SymSlice<T>) {
    let _ = dst;
}

fn launch(pe: &Pe, longs: &SymBuf<u64>) {
    let _ = collective_launch!(pe, fill::<u64><<<1, 1>>>(longs));
}

fn main() {}
