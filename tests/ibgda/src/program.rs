//! Runs the kernels, checks what they wrote, and prints the table.

use crate::{BATCH, STEP};
use crate::{post, post_alone, post_batches, post_in_contexts, time_batches, time_posts, time_posts_alone};
use anyhow::ensure;
use shmem::{BlockShared, Private};
use shmem_host::{Buf, NetworkCounters, Pe, SymBuf, World, launch};
use std::time::Instant;

/// Words that are written, again and again.
const WORDS: usize = 1 << 16;
/// Contexts of a block that uses several: with the default one and a thread's own, as many as have queues unless
/// SHMEM_IBGDA_CONTEXTS says otherwise.
const CONTEXTS: u32 = 6;
/// Threads of a tile, and what it is called.
const TILES: [(u32, &str); 3] = [(1, "thread"), (32, "warp"), (256, "block of 256")];
/// Entries that a block has posted at most when the clocks are looked at: they must fit into a queue.
const BURST: u32 = 128;
const ROUNDS: u32 = 64;

/// What the program does, at which size.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Writes of each way of posting, about.
    pub writes: u32,
    /// Whether the times mean anything: not on the simulator.
    pub timed: bool,
}

/// PE 0 posts to PE 1, or to itself where it is alone.
///
/// # Errors
/// Whatever fails, and words that are not what they should be.
pub fn run(world: World, options: Options) -> anyhow::Result<()> {
    let backend = world.backend_name();
    println!(
        "ibgda-rate on {backend}, {} PEs, writes of 8 bytes from PE 0 to PE {}",
        world.n(),
        1 % world.n()
    );
    world.run(|pe| {
        let run = Run {
            dst: pe.alloc(WORDS)?,
            alone: pe.contexts(1)?,
            contexts: pe.contexts(CONTEXTS)?,
            peer: 1 % pe.n(),
            options,
            pe: &pe,
        };
        run.rates()?;
        run.costs()
    })
}

struct Run<'a> {
    pe: &'a Pe,
    dst: SymBuf<u64>,
    contexts: shmem_host::Contexts<BlockShared>,
    alone: shmem_host::Contexts<Private>,
    peer: u32,
    options: Options,
}

impl Run<'_> {
    fn posts(&self) -> bool {
        self.pe.id() == 0
    }

    /// How fast entries are posted and done.
    fn rates(&self) -> anyhow::Result<()> {
        let (pe, dst, peer) = (self.pe, &self.dst, self.peer);
        if self.posts() {
            println!(
                "\n| posted by | writes | s | million/s | entries | entries/doorbell |\n|---|---|---|---|---|---|"
            );
        }
        for (threads, name) in TILES {
            self.rate(
                &format!("{name}, p"),
                threads,
                |each| launch!(pe, post<<<1, threads>>>(dst, each, peer)),
            )?;
            if threads == 1 {
                self.rate(
                    "thread, p, context of its own",
                    1,
                    |each| launch!(pe, post_alone<<<1, 1>>>(&self.alone, dst, each, peer)),
                )?;
            }
            if threads > 32 {
                self.rate(
                    &format!("{name}, p, {CONTEXTS} contexts"),
                    threads,
                    |each| launch!(pe, post_in_contexts<<<1, threads>>>(&self.contexts, dst, each, peer)),
                )?;
            }
            self.rate(
                &format!("{name}, batches of {BATCH} puts"),
                threads,
                |each| launch!(pe, post_batches<<<1, threads>>>(dst, each, peer)),
            )?;
        }
        Ok(())
    }

    fn rate(
        &self,
        name: &str,
        threads: u32,
        launch: impl FnOnce(u32) -> Result<(), shmem_host::Error>,
    ) -> anyhow::Result<()> {
        let pe = self.pe;
        let each = (self.options.writes / threads)
            .next_multiple_of(BATCH as u32)
            .max(BATCH as u32);
        self.clear()?;
        if self.posts() {
            let (before, start) = (pe.network_counters(), Instant::now());
            launch(each)?;
            pe.stream().synchronize()?;
            let (seconds, after) = (start.elapsed().as_secs_f64(), pe.network_counters());
            let writes = each * threads;
            let done = before.zip(after).map(|(before, after)| since(before, after));
            println!(
                "| {name} | {writes} | {} | {} |",
                self.speed(writes, seconds),
                consumed(done)
            );
        }
        pe.barrier_all()?;
        self.verify(name, each * threads)
    }

    fn speed(&self, writes: u32, seconds: f64) -> String {
        if self.options.timed {
            format!("{seconds:.3} | {:.3}", f64::from(writes) / seconds / 1e6)
        } else {
            "- | -".to_owned()
        }
    }

    fn clear(&self) -> anyhow::Result<()> {
        self.dst.write(&vec![0; WORDS])?;
        self.pe.barrier_all()?;
        Ok(())
    }

    /// Write `number` has brought `number + 1`, and a later one to the same word came later.
    fn verify(&self, name: &str, writes: u32) -> anyhow::Result<()> {
        if self.pe.id() == self.peer {
            let words = self.dst.to_vec()?;
            let places = WORDS as u32 / STEP;
            for (i, &word) in words.iter().enumerate() {
                let i = i as u32;
                let (place, between) = (i / STEP, !i.is_multiple_of(STEP));
                let last = (writes > place).then(|| (writes - 1 - place) / places * places + place);
                let expected = last.filter(|_| !between).map_or(0, |number| u64::from(number) + 1);
                ensure!(
                    word == expected,
                    "{name}: word {i} of PE {} is {word}, expected {expected}",
                    self.peer
                );
            }
        }
        self.pe.barrier_all()?;
        Ok(())
    }

    /// What a kernel's posting costs, apart from the adapter.
    fn costs(&self) -> anyhow::Result<()> {
        let (pe, dst, peer) = (self.pe, &self.dst, self.peer);
        if self.posts() {
            println!(
                "\n| {ROUNDS} bursts by | entries of a burst | ns from call to return | ns per entry of the burst |\n\
                 |---|---|---|---|"
            );
        }
        for (threads, name) in TILES {
            let each = (BURST / threads).max(1);
            self.cost(
                &format!("{name}, p"),
                threads,
                each,
                |times| launch!(pe, time_posts<<<1, threads>>>(dst, each, ROUNDS, peer, times)),
            )?;
            if threads == 1 {
                self.cost(
                    "thread, p, context of its own",
                    1,
                    each,
                    |times| launch!(pe, time_posts_alone<<<1, 1>>>(&self.alone, dst, each, ROUNDS, peer, times)),
                )?;
            }
            // A block's batches at once would be more than a queue holds.
            if threads <= 16 {
                self.cost(
                    &format!("{name}, puts of a batch"),
                    threads,
                    BATCH as u32,
                    |times| launch!(pe, time_batches<<<1, threads>>>(dst, ROUNDS, peer, times)),
                )?;
            }
        }
        Ok(())
    }

    fn cost(
        &self,
        name: &str,
        threads: u32,
        each: u32,
        launch: impl FnOnce(&Buf<u64>) -> Result<(), shmem_host::Error>,
    ) -> anyhow::Result<()> {
        self.clear()?;
        if self.posts() {
            let times = self.pe.buffer::<u64>((2 * ROUNDS * threads + 4) as usize)?;
            launch(&times)?;
            let times = times.to_vec()?;
            let (rounds, clocks) = times.split_at(times.len() - 4);
            let ns = ns_of_cycle([clocks[0], clocks[1]], [clocks[2], clocks[3]]);
            // The first round finds nothing in the caches.
            let rounds: Vec<_> = rounds.chunks(2 * threads as usize).skip(1).collect();
            let calls = rounds.iter().map(|round| busy(round)).sum::<u64>() as f64;
            let bursts = rounds.iter().map(|round| lasted(round)).sum::<u64>() as f64;
            let (count, entries) = (rounds.len() as f64, f64::from(threads * each));
            let (call, entry) = (calls * ns / count / entries, bursts * ns / count / entries);
            let figures = if self.options.timed {
                format!("{call:.0} | {entry:.0}")
            } else {
                "- | -".to_owned()
            };
            println!("| {name} | {entries} | {figures} |");
        }
        self.pe.barrier_all()?;
        self.verify(name, each * threads)
    }
}

fn since(before: NetworkCounters, after: NetworkCounters) -> (u64, u64) {
    (after.entries - before.entries, after.doorbells - before.doorbells)
}

fn consumed(done: Option<(u64, u64)>) -> String {
    match done {
        Some((entries, doorbells)) => format!("{entries} | {:.1}", entries as f64 / doorbells.max(1) as f64),
        None => "- | -".to_owned(),
    }
}

/// Cycles that a round's threads were busy, together.
fn busy(round: &[u64]) -> u64 {
    round.chunks(2).map(|pair| pair[1] - pair[0]).sum()
}

/// Cycles from the first thread's start to the last one's end.
fn lasted(round: &[u64]) -> u64 {
    let start = round.iter().step_by(2).min().copied().unwrap_or(0);
    round.iter().skip(1).step_by(2).max().copied().unwrap_or(0) - start
}

/// From a cycle counter and a clock in nanoseconds, at two times.
fn ns_of_cycle([cycles, ns]: [u64; 2], [later, later_ns]: [u64; 2]) -> f64 {
    (later_ns - ns) as f64 / (later - cycles).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_round() {
        let round = [10, 15, 8, 12, 9, 20];
        assert_eq!((busy(&round), lasted(&round)), (5 + 4 + 11, 20 - 8));
        assert!((ns_of_cycle([100, 7], [300, 107]) - 0.5).abs() < 1e-9);
    }
}
