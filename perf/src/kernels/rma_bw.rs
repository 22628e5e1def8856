//! Bandwidth of put and get by blocks.

use shmem::bulk::Engine;
use shmem::prelude::*;

/// What a bandwidth kernel calls.
pub mod call {
    /// put
    pub const PUT: u32 = 0;
    /// put_nbi
    pub const PUT_NBI: u32 = 1;
    /// get
    pub const GET: u32 = 2;
    /// get_nbi
    pub const GET_NBI: u32 = 3;
}

/// Each block moves its part of a buffer of `len` elements, `iters` times, stepping through `windows` copies of it on PE
/// `peer`'s side: transfers over one buffer again and again were seen to beat the link's raw rate. Gets step through as many
/// copies on this side, since those under way together write different places.
#[kernel(max_block = 1024, for<0>, for<1>, for<2>, for<3>)]
pub fn bandwidth<const CALL: u32>(there: SymSlice<u32>, here: SymSlice<u32>, windows: u32, peer: u32, iters: u32) {
    let gets = CALL == call::GET || CALL == call::GET_NBI;
    let len = there.len() / u64::from(windows);
    let part = len.div_ceil(u64::from(thread::grid_size())).next_multiple_of(4);
    let begin = part * u64::from(Block.id());
    if begin < len {
        let size = part.min(len - begin);
        let (mut at, mut window) = (begin, 0);
        for _ in 0..iters {
            let from = if gets { at } else { begin };
            let (there, here) = (there.slice(at..at + size), here.slice(from..from + size));
            match CALL {
                call::PUT => shmem::put(Block, there, here, peer),
                call::PUT_NBI => shmem::put_nbi(Block, there, here, peer),
                call::GET => shmem::get(Block, here, there, peer),
                _ => shmem::get_nbi(Block, here, there, peer),
            }
            (at, window) = (at + len, window + 1);
            if window == windows {
                (at, window) = (begin, 0);
            }
        }
        shmem::quiet(Block);
    }
}

/// As [`bandwidth`], by bulk engines over the dynamic shared memory: put, `put_nbi`, get.
#[kernel(max_block = 1024, for<0>, for<1>, for<2>)]
pub fn bulk_bandwidth<const CALL: u32>(there: SymSlice<u32>, here: SymSlice<u32>, windows: u32, peer: u32, iters: u32) {
    let len = there.len() / u64::from(windows);
    let part = len.div_ceil(u64::from(thread::grid_size())).next_multiple_of(4);
    let begin = part * u64::from(Block.id());
    if begin < len {
        let size = part.min(len - begin);
        let mut engine = Engine::new(Block, shmem::shared::dynamic::<u8>());
        for i in 0..iters {
            let at = begin + len * u64::from(i % windows);
            let from = if CALL == call::GET { at } else { begin };
            let (there, here) = (there.slice(at..at + size), here.slice(from..from + size));
            match CALL {
                call::PUT => engine.put(there, here, peer),
                call::PUT_NBI => engine.put_nbi(there, here, peer),
                _ => engine.get(here, there, peer),
            }
        }
        engine.quiet();
    }
}
