use shmem::prelude::*;

#[kernel]
pub fn nothing() {}

#[deny(unused_must_use)]
fn called_like_a_function() {
    nothing();
}

fn main() {}
