use shmem::prelude::*;
use shmem_host::{Pe, collective_launch};

#[kernel]
pub fn nothing() {}

fn no_shape(pe: &Pe) {
    let _ = collective_launch!(pe, nothing());
}

fn one_parameter(pe: &Pe) {
    let _ = collective_launch!(pe, nothing<<<1>>>());
}

fn no_arguments(pe: &Pe) {
    let _ = collective_launch!(pe, nothing<<<1, 1>>>);
}

fn main() {}
