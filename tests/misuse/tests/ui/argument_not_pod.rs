use shmem::prelude::*;

#[kernel]
pub fn takes_a_string(n: u32, name: String) {
    let _ = (n, name);
}

fn main() {}
