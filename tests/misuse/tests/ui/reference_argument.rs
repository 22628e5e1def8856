use shmem::prelude::*;

#[kernel]
pub fn by_reference(data: &[f32], n: u32) {
    let _ = (data, n);
}

fn main() {}
