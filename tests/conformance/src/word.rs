//! Atomics on ordinary memory: every scope, every order, shared memory, and messages between blocks.
use crate::atomic::{Integer, Summed};
use shmem::prelude::*;
use shmem::scope::{self, Cta, Gpu, Place, Scope, System};
use shmem::{Bf16x2, F16x2, Word};

/// Adds 1 in every way; three of them tell what was there. Returns the sum of that.
#[inline(always)]
fn add_in_every_way<T: Summed, S: Place>(x: [Word<T, S>; 6]) -> u64 {
    let one = T::from_number(1);
    x[0].add(one);
    x[1].add_release(one);
    let relaxed = x[2].fetch_add(one).number();
    let acquired = x[3].fetch_add_acquire(one).number();
    let released = x[4].fetch_add_release(one).number();
    relaxed + acquired + released + x[5].fetch_add_acqrel(one).number()
}

/// Every thread adds 1 to words of its block, of its device, of all; and to words in shared memory, which the leader copies
/// out. A block's words: 6 at block scope, 6 from shared memory; the last 12 are the grid's.
#[kernel(for<i32>, for<u32>, for<i64>, for<u64>, for<f32>, for<f64>, for<F16x2>, for<Bf16x2>)]
pub fn add_up<T: Summed>(x: Global<T>, seen: Global<u64>) {
    let block = x.chunk(Block.id(), 12);
    let (all, tells) = (
        x.slice(thread::grid_size() * 12..thread::grid_size() * 12 + 12),
        thread::grid_size(),
    );
    let old = add_in_every_way(words::<T, Cta>(block));
    seen.word::<Gpu>(Block.id()).add(old);
    let old = add_in_every_way(words::<T, Gpu>(all)) + add_in_every_way(words::<T, System>(all.slice(6..12)));
    seen.word::<Gpu>(tells).add(old);
    shared!(stage: [u64; 6]);
    let stage = stage.cast::<T>();
    if Block.leader() {
        let mut i = 0;
        while i < 6 {
            stage.word(i).store(T::from_number(0));
            i += 1;
        }
    }
    Block.sync();
    let old = add_in_every_way([0, 1, 2, 3, 4, 5].map(|i| stage.word(i)));
    seen.word::<System>(Block.id()).add_release(old);
    Block.sync();
    if Block.leader() {
        let mut i = 0;
        while i < 6 {
            block.word::<Cta>(6 + i).store_release(stage.word(i).load_acquire());
            i += 1;
        }
    }
}

#[inline(always)]
fn words<T: Summed, S: Scope>(x: Global<T>) -> [Word<T, S>; 6] {
    [0, 1, 2, 3, 4, 5].map(|i| x.word::<S>(i))
}

/// What [`every_operation`] leaves in each of its three places.
pub const OPERATIONS: usize = 16;

/// One thread runs every operation on integers, at three scopes and in shared memory, and stores what each returned.
#[kernel(for<i32>, for<u32>, for<i64>, for<u64>)]
pub fn every_operation<T: Integer>(x: Global<T>, out: Global<T>) {
    if Block.leader() {
        operations(x.word::<Cta>(0), out.chunk(0, OPERATIONS));
        operations(x.word::<Gpu>(1), out.chunk(1, OPERATIONS));
        operations(x.word::<System>(2), out.chunk(2, OPERATIONS));
        shared!(stage: [u64; 1]);
        operations(stage.cast::<T>().word(0), out.chunk(3, OPERATIONS));
    }
}

#[inline(always)]
fn operations<T: Integer, S: Place>(x: Word<T, S>, out: Global<T>) {
    let n = T::from_bits;
    x.store(n(0b1100));
    let swaps = [
        x.swap(n(1)),
        x.swap_acquire(n(2)),
        x.swap_release(n(3)),
        x.swap_acqrel(n(4)),
        x.compare_swap(n(4), n(5)),
        x.compare_swap_acquire(n(4), n(6)),
        x.compare_swap_release(n(5), n(7)),
        x.compare_swap_acqrel(n(7), n(0b1111)),
    ];
    let mut i = 0;
    while i < swaps.len() {
        out.store(i, swaps[i]);
        i += 1;
    }
    out.store(8, x.fetch_and(n(0b1110)));
    x.and(n(0b1101));
    out.store(9, x.fetch_and_acquire(n(!0)));
    x.or(n(0b0001));
    out.store(10, x.fetch_or_release(n(0b10000)));
    x.or_release(n(0b100_0000));
    out.store(11, x.fetch_or_acqrel(n(0)));
    x.xor(n(0b1));
    out.store(12, x.fetch_xor(n(0b10)));
    x.xor_release(n(0b100));
    out.store(13, x.fetch_xor_acqrel(n(!0)));
    out.store(14, x.fetch_and_acqrel(n(0xff)));
    out.store(15, x.load());
}

/// Each block passes a row on to the next one, by fence and by release; the next one waits with a whole tile.
#[kernel]
pub fn between_blocks(data: Global<u64>, flags: Global<u32>, rounds: u32, wrong: Global<u32>) {
    let (b, n, size) = (Block.id(), thread::grid_size(), thread::block_size());
    let (mine, from) = (data.chunk(b, size), data.chunk((b + n - 1) % n, size));
    let (there, back) = (flags.chunk(0, n), flags.chunk(1, n));
    let value = |block: u32, t: u32, round: u32| u64::from(block) << 40 | u64::from(round) << 20 | u64::from(t);
    for round in 1..=rounds {
        mine.store(thread::index(), value(b, thread::index(), round));
        match round % 3 {
            0 => {
                Block.sync();
                if Block.leader() {
                    // Behind the block's barrier, so that it covers the other threads' stores.
                    scope::fence::<Gpu>();
                    there.word::<Gpu>((b + 1) % n).store(round);
                }
            }
            1 => {
                Block.sync();
                if Block.leader() {
                    there.word::<System>((b + 1) % n).store_release(round);
                }
            }
            _ => {
                Block.sync();
                if Block.leader() {
                    there.word::<Gpu>((b + 1) % n).add_release(1);
                }
            }
        }
        shmem::wait_until(Block, there.word::<System>(b), eq(round));
        let other = (thread::index() + 33) % size;
        if from.load(other) != value((b + n - 1) % n, other, round) {
            wrong.store(0, round);
        }
        Block.sync();
        if Block.leader() {
            back.word::<Gpu>((b + n - 1) % n).store_release(round);
        }
        shmem::wait_until(Warp, back.word::<Gpu>(b), ge(round));
    }
}

/// Warps of a block take turns by a word in shared memory.
#[kernel]
pub fn take_turns(out: Global<u32>) {
    shared!(turn: [u32; 2]);
    if Block.leader() {
        turn.store(0, 0);
        turn.store(1, 0);
    }
    Block.sync();
    let last = Warp::per_block() - 1;
    shmem::wait_until(Warp, turn.word(0), eq(last - Warp.id()));
    if Warp.leader() {
        // Nobody else is here.
        let place = turn.load(1);
        turn.store(1, place + 1);
        out.store(place, Warp.id());
        scope::fence::<Cta>();
        turn.word(0).add_release(1);
    }
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::suite::{Case, full_or_little};
    use anyhow::ensure;
    use shmem_host::{Pe, collective_launch};

    pub const CASES: &[Case] = &[
        Case {
            name: "words: sums of every type, scope and order",
            run: sums,
        },
        Case {
            name: "words: every operation on integers",
            run: every,
        },
        Case {
            name: "words: messages between blocks",
            run: messages,
        },
        Case {
            name: "words: warps take turns in shared memory",
            run: turns,
        },
    ];

    fn sums(pe: &Pe) -> anyhow::Result<()> {
        let (blocks, threads) = full_or_little((4usize, 64u64), (2, 33));
        macro_rules! each { ($($t:ident)*) => { $(
            let (x, seen) = (pe.buffer::<$t>(12 * blocks + 12)?, pe.buffer::<u64>(blocks + 1)?);
            collective_launch!(pe, add_up::<$t><<<blocks as u32, threads as u32>>>(&x, &seen))?;
            for (i, x) in x.to_vec()?.into_iter().enumerate() {
                let sum = if i < 12 * blocks { threads } else { threads * blocks as u64 };
                ensure!(x.number() == sum && x.is_whole(), "{} word {i}: {x:?}, expected {sum}", stringify!($t));
            }
            // Each of eight sums has passed through every number below it.
            let passed = |sum: u64| 8 * sum * (sum - 1) / 2;
            let mut expected = vec![passed(threads); blocks];
            expected.push(passed(threads * blocks as u64));
            let seen = seen.to_vec()?;
            ensure!(seen == expected, "{}: old values sum up to {seen:?}, expected {expected:?}", stringify!($t));
        )* } }
        each!(i32 u32 i64 u64 f32 f64 F16x2 Bf16x2);
        Ok(())
    }

    fn every(pe: &Pe) -> anyhow::Result<()> {
        macro_rules! each { ($($t:ident)*) => { $(
            let (x, out) = (pe.buffer::<$t>(3)?, pe.buffer::<$t>(4 * OPERATIONS)?);
            collective_launch!(pe, every_operation::<$t><<<1, 32>>>(&x, &out))?;
            let expected: [$t; OPERATIONS] = [
                0b1100, 1, 2, 3, 4, 5, 5, 7, 0b1111, 0b1100, 0b1101, 0b101_1101, 0b101_1100, 0b101_1010, !0b101_1010, 0xa5,
            ];
            for (place, got) in out.to_vec()?.chunks(OPERATIONS).enumerate() {
                ensure!(got == expected, "{}, place {place}: {got:?}, expected {expected:?}", stringify!($t));
            }
        )* } }
        each!(i32 u32 i64 u64);
        Ok(())
    }

    fn messages(pe: &Pe) -> anyhow::Result<()> {
        let (blocks, threads, rounds) = full_or_little((6, 64, 30), (3, 64, 4));
        let (data, flags, wrong) = (
            pe.buffer::<u64>(blocks * threads)?,
            pe.buffer::<u32>(2 * blocks)?,
            pe.buffer::<u32>(1)?,
        );
        let grid = blocks as u32;
        collective_launch!(pe, between_blocks<<<grid, threads as u32>>>(&data, &flags, rounds, &wrong))?;
        let wrong = wrong.read(0)?;
        ensure!(wrong == 0, "stale data in round {wrong}");
        Ok(())
    }

    fn turns(pe: &Pe) -> anyhow::Result<()> {
        let out = pe.buffer::<u32>(8)?;
        collective_launch!(pe, take_turns<<<1, 256>>>(&out))?;
        let out = out.to_vec()?;
        ensure!(out == [7, 6, 5, 4, 3, 2, 1, 0], "warps in the order {out:?}");
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
