//! How fast the simulator is, on one core: lane switches, and block-put with and without the checker.
//!
//! `cargo run --release -p shmem-sim --example speed`

use shmem::prelude::*;
use shmem_sim::{Sim, collective, symmetric};
use std::time::Instant;

/// Lanes that do nothing but meet.
fn switches() {
    let begun = Instant::now();
    let report = Sim::new(1)
        .grid(4)
        .block(256)
        .check(false)
        .run(|| {
            for _ in 0..2000 {
                Block.sync();
            }
        })
        .expect("nothing can go wrong");
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{:.1} million lane switches a second",
        report.lane_switches as f64 / seconds / 1e6
    );
}

/// Every block of every PE puts its part of `words` words to the next PE, `rounds` times.
fn block_put(check: bool, words: usize, rounds: u32) -> f64 {
    let begun = Instant::now();
    Sim::new(8)
        .grid(8)
        .block(256)
        .check(check)
        .run(|| {
            let (dst, src) = (symmetric::<u32>(words), symmetric::<u32>(words));
            let (me, n) = (shmem::my_pe(), shmem::n_pes());
            let part = words as u64 / 8;
            let (dst, src) = (
                dst.chunk(thread::block_index(), part),
                src.chunk(thread::block_index(), part),
            );
            let all = collective();
            for round in 0..rounds {
                for i in Block.strided(part as u32) {
                    src.store(i, me + i + round);
                }
                Block.sync();
                shmem::put(Block, dst, src, (me + 1) % n);
                all.barrier(all.grid(), shmem::world());
                for i in Block.strided(part as u32) {
                    assert_eq!(dst.load(i), (me + n - 1) % n + i + round);
                }
                all.sync(all.grid(), shmem::world());
            }
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
    begun.elapsed().as_secs_f64()
}

/// The most memory that this process has had.
fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap_or("unknown").trim().to_owned()
}

fn main() {
    switches();
    for (words, rounds) in [(1 << 16, 10), (1 << 20, 2)] {
        let (off, on) = (block_put(false, words, rounds), block_put(true, words, rounds));
        println!(
            "block-put, 8 PEs x 8 blocks x 256 threads, {words} words, {rounds} rounds: unchecked {off:.2} s, checked {on:.2} \
             s, {:.1} times as long; peak memory {}",
            on / off,
            peak()
        );
    }
}
