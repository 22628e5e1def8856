//! One operation at a time, by PE 0 on PE `peer`'s memory.

use super::by_scope;
use shmem::prelude::*;

by_scope! {
    put_quiet_by_thread put_quiet_by_warp put_quiet_by_block =
        puts(dst: SymSlice<u32>, src: SymSlice<u32>, peer: u32, iters: u32),
        "put and quiet, again and again.";
    get_by_thread get_by_warp get_by_block =
        gets(here: SymSlice<u32>, there: SymSlice<u32>, stride: u64, peer: u32, iters: u32),
        "Gets `here.len()` elements from places `stride` elements apart, in turn, so that no load finds its line in the L1 cache.";
}

#[inline(always)]
fn puts<G: Tile>(tile: G, dst: SymSlice<u32>, src: SymSlice<u32>, peer: u32, iters: u32) {
    for _ in 0..iters {
        shmem::put(tile, dst, src, peer);
        shmem::quiet(tile);
    }
}

#[inline(always)]
fn gets<G: Tile>(tile: G, here: SymSlice<u32>, there: SymSlice<u32>, stride: u64, peer: u32, iters: u32) {
    let mut at = 0;
    for _ in 0..iters {
        shmem::get(tile, here, there.slice(at..at + here.len()), peer);
        at = if at + stride == there.len() { 0 } else { at + stride };
    }
}

/// Each `g` brings the index of the next, so that they go one by one. `last` becomes the last.
#[kernel(block = 1)]
pub fn g_chain(chain: SymSlice<u64>, last: Global<u64>, peer: u32, iters: u32) {
    let mut at = 0;
    for _ in 0..iters {
        at = shmem::g(chain.at(at), peer);
    }
    last.store(0, at);
}
