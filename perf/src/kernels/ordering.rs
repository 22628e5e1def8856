//! What a fence and a quiet cost after a p.

use shmem::prelude::*;

/// What follows a p.
pub mod order {
    /// Nothing.
    pub const NONE: u32 = 0;
    /// fence
    pub const FENCE: u32 = 1;
    /// quiet
    pub const QUIET: u32 = 2;
}

/// p to each slot at PE `peer` in turn. Slot i holds the last number that was put there.
#[kernel(block = 1, for<0>, for<1>, for<2>)]
pub fn p_then<const ORDER: u32>(slots: SymSlice<u64>, peer: u32, iters: u32) {
    let mut slot = 0;
    for i in 0..iters {
        shmem::p(slots.at(slot), u64::from(i), peer);
        match ORDER {
            order::FENCE => shmem::fence(Thread),
            order::QUIET => shmem::quiet(Thread),
            _ => {}
        }
        slot = if slot + 1 == slots.len() { 0 } else { slot + 1 };
    }
}
