use shmem::prelude::*;

#[kernel]
pub fn debug_format(x: Global<u32>) {
    shmem::gpu_println!("x is {:?}", x.load(0));
}

#[kernel]
pub fn not_printable(x: Global<u32>) {
    shmem::gpu_println!("{} and {}", x.load(0), x);
}

#[kernel]
pub fn too_few(x: Global<u32>) {
    shmem::gpu_println!("{} {}", x.load(0));
}

#[kernel]
pub fn never_printed(x: Global<u32>) {
    shmem::gpu_println!("{}", x.load(0), x.load(1));
}

#[kernel]
pub fn not_a_literal(x: Global<u32>) {
    shmem::gpu_println!(x.load(0));
}

#[kernel]
pub fn named(x: Global<u32>) {
    shmem::gpu_println!("{value}", value = x.load(0));
}

#[kernel]
pub fn align_centre(x: Global<u32>) {
    shmem::gpu_println!("{:^9}", x.load(0));
}

fn main() {}
