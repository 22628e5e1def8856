//! Large puts by whole blocks, from symmetric memory and from shared memory.
use shmem::prelude::*;

/// Elements that a block stages in shared memory.
pub const STAGE: usize = 1024;

/// Every block puts its part of `src` into `dst` of the right neighbour.
#[kernel(max_block = 1024)]
pub fn put_by_blocks(dst: SymSlice<u32>, src: SymSlice<u32>) {
    let (to, parts) = ((shmem::my_pe() + 1) % shmem::n_pes(), u64::from(thread::grid_size()));
    let part = src.len().div_ceil(parts);
    let begin = (part * u64::from(Block.id())).min(src.len());
    let end = (begin + part).min(src.len());
    shmem::put(Block, dst.slice(begin..end), src.slice(begin..end), to);
}

/// The same with each element changed on its way, in shared memory: `dst[i] = src[i] ^ key`.
#[kernel(max_block = 1024)]
pub fn put_staged(dst: SymSlice<u32>, src: SymSlice<u32>, key: u32) {
    let to = (shmem::my_pe() + 1) % shmem::n_pes();
    shared!(stage: [u32; STAGE]);
    let mut begin = u64::from(Block.id()) * STAGE as u64;
    while begin < src.len() {
        let end = (begin + STAGE as u64).min(src.len());
        let (from, stage) = (src.slice(begin..end), stage.slice(0..end - begin));
        for i in Block.strided(from.len() as u32) {
            stage.store(i, from.load(i) ^ key);
        }
        // All of the stage is written before any member reads it; `put` returns when all of it has been read.
        Block.sync();
        shmem::put(Block, dst.slice(begin..end), stage, to);
        begin += u64::from(thread::grid_size()) * STAGE as u64;
    }
}
