use shmem::prelude::*;

#[kernel]
pub fn not_collective(all: Collective) {
    let _ = all;
}

#[kernel(collective)]
pub fn without_token(n: u32) {
    let _ = n;
}

fn main() {}
