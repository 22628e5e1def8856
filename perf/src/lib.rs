//! Kernels of the benchmarks.
use shmem::prelude::*;

/// Each block puts its part of `src` to PE `to`, `iters` times, stepping through `windows` copies of the buffer in `dst`:
/// puts into one buffer again and again were seen to beat the link's raw rate. `nbi` leaves out the sync after each.
#[kernel(max_block = 1024)]
pub fn put_bw(dst: SymSlice<u32>, src: SymSlice<u32>, windows: u32, to: u32, iters: u32, nbi: u32) {
    let part = (src.len().div_ceil(u64::from(thread::grid_size()))).next_multiple_of(4);
    let begin = part * u64::from(Block.id());
    if begin < src.len() {
        let end = (begin + part).min(src.len());
        let from = src.slice(begin..end);
        let mut window = 0;
        for _ in 0..iters {
            let at = dst.chunk(window, src.len()).slice(begin..end);
            if nbi == 0 {
                shmem::put(Block, at, from, to);
            } else {
                shmem::put_nbi(Block, at, from, to);
            }
            window = if window + 1 == windows { 0 } else { window + 1 };
        }
        shmem::quiet(Block);
    }
}
