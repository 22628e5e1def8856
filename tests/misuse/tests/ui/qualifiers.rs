use shmem::prelude::*;

#[kernel]
pub async fn asynchronous() {}

#[kernel]
pub unsafe fn not_safe() {}

#[kernel]
pub extern "C" fn with_abi() {}

#[kernel]
pub fn borrows<'a>(n: [u32; 1]) {}

fn main() {}
