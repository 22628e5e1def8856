//! Kernels that do nothing but post writes of 8 bytes to a PE that a network adapter reaches, and the program that runs them.
//!
//! Words that are written lie 16 bytes apart, so that no two of them become one entry.

#[cfg(not(target_arch = "nvptx64"))]
pub mod program;

use shmem::prelude::*;
use shmem::{BlockShared, CtxSet, Private, time};

/// Words from one that is written to the next.
pub const STEP: u32 = 2;
/// Puts of a batch.
pub const BATCH: usize = 8;

/// The index of what a thread of a block writes for the `i`-th time, and the value.
#[inline(always)]
fn place(dst: SymSlice<u64>, i: u32) -> (u32, u64) {
    let number = i * thread::block_size() + thread::index();
    let words = dst.len() as u32 / STEP;
    (number % words * STEP, u64::from(number) + 1)
}

/// By every thread of the block, in the default context.
#[kernel]
pub fn post(dst: SymSlice<u64>, each: u32, peer: u32) {
    for i in 0..each {
        let (at, value) = place(dst, i);
        shmem::p(dst.at(at), value, peer);
    }
    shmem::quiet(Block);
}

/// Each warp in one of several contexts.
#[kernel]
pub fn post_in_contexts(contexts: CtxSet<BlockShared>, dst: SymSlice<u64>, each: u32, peer: u32) {
    let own = contexts.get(thread::index() / 32 % contexts.len());
    for i in 0..each {
        let (at, value) = place(dst, i);
        shmem::p(dst.at(at), value, own.to(peer));
    }
    for i in 0..contexts.len() {
        contexts.get(i).quiet(Block);
    }
}

/// By one thread, in a context of its own.
#[kernel(max_block = 1)]
pub fn post_alone(contexts: CtxSet<Private>, dst: SymSlice<u64>, each: u32, peer: u32) {
    let own = contexts.get(0);
    for i in 0..each {
        let (at, value) = place(dst, i);
        shmem::p(dst.at(at), value, own.to(peer));
    }
    own.quiet(Thread);
}

/// By every thread, [`BATCH`] at a time: the adapter is told of them when the batch ends. `each` is a multiple of it.
#[kernel]
pub fn post_batches(dst: SymSlice<u64>, each: u32, peer: u32) {
    let mut i = 0;
    while i < each {
        let mut values = [0; BATCH];
        let mut places = [0; BATCH];
        for j in 0..BATCH {
            (places[j], values[j]) = place(dst, i + j as u32);
        }
        let puts = shmem::batch(Thread);
        for j in 0..BATCH {
            puts.put(dst.slice(places[j]..places[j] + 1), &values[j..=j], peer);
        }
        puts.quiet();
        i += BATCH as u32;
    }
}

/// Has each thread note the clock before and after `posts`: words `2 * (round * threads + thread)` and the next.
#[inline(always)]
fn timed(times: Global<u64>, round: u32, posts: impl FnOnce()) {
    Block.sync();
    let before = time::clock();
    posts();
    let after = time::clock();
    let at = 2 * (round * thread::block_size() + thread::index());
    times.store(at, before);
    times.store(at + 1, after);
}

/// Notes both clocks, from word `at` on.
#[inline(always)]
fn both_clocks(times: Global<u64>, at: u64) {
    if Block.elect() {
        times.store(at, time::clock());
        times.store(at + 1, time::globaltimer());
    }
}

/// Times of `rounds` times `each` posts of every thread, in the default context; what was posted in a round has left the queue before
/// the next. The last four words of `times` are both clocks at the start and at the end.
#[kernel]
pub fn time_posts(dst: SymSlice<u64>, each: u32, rounds: u32, peer: u32, times: Global<u64>) {
    both_clocks(times, times.len() - 4);
    for round in 0..rounds {
        timed(times, round, || {
            for i in 0..each {
                let (at, value) = place(dst, i);
                shmem::p(dst.at(at), value, peer);
            }
        });
        shmem::quiet(Block);
    }
    both_clocks(times, times.len() - 2);
}

/// The same by one thread, in a context of its own.
#[kernel(max_block = 1)]
pub fn time_posts_alone(
    contexts: CtxSet<Private>,
    dst: SymSlice<u64>,
    each: u32,
    rounds: u32,
    peer: u32,
    times: Global<u64>,
) {
    let own = contexts.get(0);
    both_clocks(times, times.len() - 4);
    for round in 0..rounds {
        timed(times, round, || {
            for i in 0..each {
                let (at, value) = place(dst, i);
                shmem::p(dst.at(at), value, own.to(peer));
            }
        });
        own.quiet(Thread);
    }
    both_clocks(times, times.len() - 2);
}

/// The same of the puts of one batch: the adapter is told outside of what is timed.
#[kernel]
pub fn time_batches(dst: SymSlice<u64>, rounds: u32, peer: u32, times: Global<u64>) {
    both_clocks(times, times.len() - 4);
    for round in 0..rounds {
        let mut values = [0; BATCH];
        let mut places = [0; BATCH];
        for j in 0..BATCH {
            (places[j], values[j]) = place(dst, j as u32);
        }
        let puts = shmem::batch(Thread);
        timed(times, round, || {
            for j in 0..BATCH {
                puts.put(dst.slice(places[j]..places[j] + 1), &values[j..=j], peer);
            }
        });
        puts.quiet();
    }
    both_clocks(times, times.len() - 2);
}
