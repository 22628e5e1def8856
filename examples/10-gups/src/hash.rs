//! A set of numbers that is spread over the PEs: each word of the table is a number, or empty.
use crate::random::{mix, place};
use shmem::prelude::*;
use shmem::scope::Gpu;

/// A word that holds no number, and the number that the set can't hold: fresh memory is an empty set.
pub const EMPTY: u64 = 0;

/// What became of the keys of an insert: places in `counts`.
pub mod count {
    /// They are new.
    pub const NEW: u32 = 0;
    /// They were there.
    pub const OLD: u32 = 1;
    /// The part of their PE is full, or they are [`EMPTY`](super::EMPTY).
    pub const LOST: u32 = 2;
}

/// Inserts the keys, each once: of equal ones, by whatever PEs at whatever time, one is new. `counts` are added to.
///
/// A key claims the first word behind its place that is empty. Nothing is ordered: the compare-and-swap alone decides whose a
/// word is, and its result says so. Words are never given back, so that a key is not behind an empty one.
#[kernel(max_block = 1024)]
pub fn insert(table: SymSlice<u64>, keys: Global<u64>, counts: Global<u64>) {
    let threads = u64::from(thread::grid_size()) * u64::from(thread::block_size());
    let mut i = u64::from(Block.id()) * u64::from(thread::block_size()) + u64::from(thread::index());
    let (mut new, mut old, mut lost) = (0u32, 0u32, 0u32);
    while i < keys.len() {
        let key = keys.load(i);
        let (pe, first) = place(mix(key), shmem::n_pes(), table.len());
        let (mut probe, mut found) = (0, None);
        while key != EMPTY && probe < table.len() && found.is_none() {
            let at = (first + probe) & (table.len() - 1);
            let before = shmem::compare_swap(table.at(at), EMPTY, key, pe);
            found = (before == EMPTY || before == key).then_some(before);
            probe += 1;
        }
        match found {
            Some(EMPTY) => new += 1,
            Some(_) => old += 1,
            None => lost += 1,
        }
        i += threads;
    }
    // Both in one sum: threads that are done wait for the block's others in it.
    let sum = Block.sum(u64::from(old) << 32 | u64::from(new));
    if Block.leader() {
        counts.word::<Gpu>(count::NEW).add(sum & u64::from(u32::MAX));
        counts.word::<Gpu>(count::OLD).add(sum >> 32);
    }
    if lost != 0 {
        counts.word::<Gpu>(count::LOST).add(lost.into());
    }
}
