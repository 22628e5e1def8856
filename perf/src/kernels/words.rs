//! Bandwidth of calls that move one word: p, g, and stores through `ptr`. Each thread of the grid moves its words, in
//! coalesced order; a repetition steps through `windows` copies on PE `peer`'s side, as for put and get.

use super::in_grid;
use shmem::prelude::*;

/// What a word kernel calls.
pub mod word {
    /// p
    pub const P: u32 = 0;
    /// g
    pub const G: u32 = 1;
    /// A store through `ptr`.
    pub const ST: u32 = 2;
}

/// Words between `here` and `windows` copies of them at PE `peer`.
#[kernel(max_block = 1024, for<u32, 0>, for<u32, 1>, for<u32, 2>, for<u64, 0>, for<u64, 1>, for<u64, 2>)]
pub fn word_bw<T: Pod, const CALL: u32>(there: SymSlice<T>, here: SymSlice<T>, windows: u32, peer: u32, iters: u32) {
    let len = there.len() / u64::from(windows);
    let (first, threads) = in_grid();
    let mut window = 0;
    for _ in 0..iters {
        let there = there.chunk(window, len);
        let mut i = first;
        while i < len {
            match CALL {
                word::P => shmem::p(there.at(i), here.load(i), peer),
                word::G => here.store(i, shmem::g(there.at(i), peer)),
                _ => {
                    if let Some(there) = shmem::ptr(there.at(i), peer) {
                        there.store(here.load(i));
                    }
                }
            }
            i += threads;
        }
        window = if window + 1 == windows { 0 } else { window + 1 };
    }
    shmem::quiet(Block);
}
