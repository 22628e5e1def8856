use shmem::prelude::*;

#[derive(Clone, Copy, KernelArg)]
pub struct WithoutRepr {
    n: u32,
}

#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct WithReference {
    text: &'static str,
}

#[derive(Clone, Copy, KernelArg)]
pub enum NotAStruct {
    A,
}

fn main() {}
