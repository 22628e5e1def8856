//! Random updates of a table that is spread over the PEs.
use crate::random::{place, random};
use shmem::prelude::*;
use shmem::scope::Gpu;

/// What an update does to its word.
pub mod op {
    /// xor: a second time undoes it.
    pub const XOR: u32 = 0;
    /// add
    pub const ADD: u32 = 1;
    /// Undoes add.
    pub const SUB: u32 = 2;
}

/// Applies random numbers `first..first + count` to the words where they belong, shared out among all threads. The table has a
/// power of two of words on each PE.
///
/// No update has a result to wait for: a thread sends one after the other. Where they all end, the kernel does; the peers'
/// are seen behind a barrier.
#[kernel(max_block = 1024, for<{ op::XOR }>, for<{ op::ADD }>, for<{ op::SUB }>)]
pub fn update<const OP: u32>(table: SymSlice<u64>, first: u64, count: u64) {
    let threads = u64::from(thread::grid_size()) * u64::from(thread::block_size());
    let mut i = u64::from(Block.id()) * u64::from(thread::block_size()) + u64::from(thread::index());
    while i < count {
        let r = random(first + i);
        let (pe, at) = place(r, shmem::n_pes(), table.len());
        match OP {
            op::XOR => shmem::xor(table.at(at), r, pe),
            op::ADD => shmem::add(table.at(at), r, pe),
            _ => shmem::add(table.at(at), r.wrapping_neg(), pe),
        }
        i += threads;
    }
}

/// Counts this PE's words that are not 0: all updates, and then all that undo them, leave none.
#[kernel(max_block = 1024)]
pub fn count_others(table: SymSlice<u64>, wrong: Global<u32>) {
    let threads = u64::from(thread::grid_size()) * u64::from(thread::block_size());
    let mut i = u64::from(Block.id()) * u64::from(thread::block_size()) + u64::from(thread::index());
    let mut others = 0;
    while i < table.len() {
        others += u32::from(table.load(i) != 0);
        i += threads;
    }
    let others = Block.sum(others);
    if Block.leader() && others > 0 {
        wrong.word::<Gpu>(0).add(others);
    }
}
