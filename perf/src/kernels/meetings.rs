//! Barriers and syncs of the world.

use shmem::prelude::*;

/// Barriers (QUIETS 1) or syncs (0) by a thread (TILE 0), a warp (1), a block (2).
#[kernel(collective, max_block = 1024, for<0, 1>, for<1, 1>, for<2, 1>, for<0, 0>, for<1, 0>, for<2, 0>)]
pub fn barriers<const TILE: u32, const QUIETS: u32>(all: Collective, iters: u32) {
    match TILE {
        0 => meet::<Thread, QUIETS>(all, Thread, iters),
        1 => meet::<Warp, QUIETS>(all, Warp, iters),
        _ => meet::<Block, QUIETS>(all, Block, iters),
    }
}

#[inline(always)]
fn meet<G: Tile, const QUIETS: u32>(all: Collective, tile: G, iters: u32) {
    for _ in 0..iters {
        if QUIETS == 1 {
            all.barrier(tile, shmem::world());
        } else {
            all.sync(tile, shmem::world());
        }
    }
}
