use shmem::async_copy::copy_async;
use shmem::prelude::*;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Entry {
    pub key: u64,
    pub value: u32,
}

#[kernel]
pub fn no_such_field(table: SymSlice<Entry>) {
    let _ = shmem::field!(table.at(0), Entry, name);
}

#[kernel]
pub fn field_of_another_type(table: SymSlice<u64>) {
    let _ = shmem::field!(table.at(0), Entry, key);
}

#[kernel]
pub fn sum_of_halves(x: Global<bf16>) {
    let _ = Block.sum(x.load(0));
}

#[kernel]
pub fn shared_source(x: Global<u32>) {
    shared!(stage: [u32; 32]);
    copy_async(Block, stage, stage);
    let _ = x;
}

#[kernel]
pub fn own_array_as_run(x: Global<u32>) {
    shmem::write(Block, &[x.load(0); 4], [1u32; 4]);
}

fn main() {}
