use shmem::prelude::*;

#[kernel]
pub fn returns(n: u32) -> u32 {
    n
}

fn main() {}
