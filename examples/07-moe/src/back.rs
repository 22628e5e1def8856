//! The way back.
use crate::{Inbox, NONE, PES, Packed, Shape, TOP};
use shmem::prelude::*;
use shmem::vector::{Bf16x8, F32x4, U32x2, U32x4};

/// Four bf16 as f32.
#[inline(always)]
fn wide(U32x2([low, high]): U32x2) -> F32x4 {
    let number = f32::from_bits;
    F32x4([
        number(low << 16),
        number(low & 0xffff_0000),
        number(high << 16),
        number(high & 0xffff_0000),
    ])
}

/// Sends each token's owner what the experts here have made of it: the row of a single job, or the weighted sum of several.
#[inline(always)]
fn answer(s: Shape, y: Global<Bf16x8>, from: Packed, inbox: Inbox) {
    let (me, n, epoch) = (shmem::my_pe(), shmem::n_pes(), from.epoch.load(0));
    let (half, quads) = ((epoch % 2) as u32, s.hidden / 4);
    let y = y.cast::<U32x2>();
    shared!(rows: [u32; TOP]);
    shared!(weights: [f32; TOP]);
    shared!(jobs: [u32; 1]);
    for item in (Block.id()..n * s.tokens).step_by(thread::grid_size() as usize) {
        // Others first.
        let (owner, token) = ((me + 1 + item / s.tokens) % n, item % s.tokens);
        if Warp.id() == 0 {
            let (lane, job) = (Warp.rank(), (owner * s.tokens + token) * s.top + Warp.rank());
            let row = if lane < s.top { from.place.load(job) } else { NONE };
            let all = warp::ballot(row != NONE);
            if row != NONE {
                let k = (all & ((1 << lane) - 1)).count_ones();
                rows.store(k, row);
                weights.store(k, from.weight.load(job));
            }
            if Warp.leader() {
                jobs.store(0, all.count_ones());
            }
        }
        Block.sync();
        let (jobs, at) = (jobs.load(0), (half * s.tokens + token) * n + me);
        let (back, answered) = (inbox.back.chunk(at, quads), inbox.answered.at(at).set(epoch));
        if jobs == 1 {
            let row = y.cast::<U32x4>().chunk(rows.load(0), quads / 2);
            shmem::put_signal(Block, back.cast().slice(0..quads / 2), row, answered, owner);
        } else if jobs > 1 {
            let sum = |i: u32| {
                // Four loads are on their way at a time.
                let term = |k: u32| {
                    if k < jobs {
                        (weights.load(k), y.load(rows.load(k) * quads + i))
                    } else {
                        (0.0, U32x2([0; 2]))
                    }
                };
                let (mut sum, mut k) = (F32x4([0.0; 4]), 0);
                while k < jobs {
                    let (a, b, c, d) = (term(k), term(k + 1), term(k + 2), term(k + 3));
                    sum = add(add(add(add(sum, a), b), c), d);
                    k += 4;
                }
                sum
            };
            let stage = inbox.stage.chunk(owner * s.tokens + token, quads);
            shmem::put_signal(Block, back, shmem::computed(stage, sum), answered, owner);
        }
        Block.sync();
    }
}

/// `sum` and a row's four numbers by its weight.
#[inline(always)]
fn add(sum: F32x4, (weight, row): (f32, U32x2)) -> F32x4 {
    sum + F32x4([weight; 4]) * wide(row)
}

/// Adds up what the PEs have sent for each token.
#[inline(always)]
fn collect(s: Shape, chosen: Global<i32>, weight: Global<f32>, from: Packed, inbox: Inbox, z: Global<Bf16x8>) {
    let (n, epoch) = (shmem::n_pes(), from.epoch.load(0));
    let (half, local, lines) = ((epoch % 2) as u32, s.local(n), s.hidden / 8);
    shared!(jobs: [u32; PES + 1]);
    shared!(weights: [f32; PES + 1]);
    for token in (Block.id()..s.tokens).step_by(thread::grid_size() as usize) {
        let row = |pe: u32| (half * s.tokens + token) * n + pe;
        if Warp.id() == 0 {
            let (lane, job) = (Warp.rank(), token * s.top + Warp.rank());
            let (expert, mine) = if lane < s.top {
                (chosen.load(job), weight.load(job))
            } else {
                (-1, 0.0)
            };
            // PE n sends nothing.
            for pe in 0..=n {
                let all = warp::ballot(expert >= 0 && pe < n && expert as u32 / local == pe);
                // The weight of a single job.
                let weight = warp::shuffle(mine, all.trailing_zeros());
                if lane == pe % 32 {
                    jobs.store(pe, all.count_ones());
                    weights.store(pe, weight);
                    if all != 0 {
                        shmem::wait_until(Thread, inbox.answered.at(row(pe)), ge(epoch));
                    }
                }
            }
        }
        Block.sync();
        for i in Block.strided(lines) {
            let load = |pe: u32| match jobs.load(pe) {
                0 => [U32x4([0; 4]); 2],
                1 => [inbox.back.cast().load(2 * row(pe) * lines + i), U32x4([0; 4])],
                _ => [0, 1].map(|k| inbox.back.cast().load(2 * (row(pe) * lines + i) + k)),
            };
            let add = |sum: [F32x4; 2], pe: u32, line: [U32x4; 2]| {
                if jobs.load(pe) == 1 {
                    let U32x4([a, b, c, d]) = line[0];
                    let weight = weights.load(pe);
                    [
                        add(sum[0], (weight, U32x2([a, b]))),
                        add(sum[1], (weight, U32x2([c, d]))),
                    ]
                } else {
                    let [low, high] = line.map(|line| F32x4(line.0.map(f32::from_bits)));
                    [sum[0] + low, sum[1] + high]
                }
            };
            // What two PEs have sent is on its way at a time.
            let (mut sum, mut pe) = ([F32x4([0.0; 4]); 2], 0);
            while pe < n {
                let (a, b) = (load(pe), load(pe + 1));
                sum = add(add(sum, pe, a), pe + 1, b);
                pe += 2;
            }
            let [F32x4([a, b, c, d]), F32x4([e, f, g, h])] = sum;
            z.store(token * lines + i, Bf16x8::from_f32([a, b, c, d, e, f, g, h]));
        }
        Block.sync();
    }
}

/// Sends the experts' results `y`, laid out as [`Packed::rows`] but in bf16, to the tokens' owners, and adds up what comes for this PE's
/// tokens: `z` takes the sum of each, weighted. `chosen` and `weight` are those of the dispatch that made `from`.
#[kernel(collective, max_block = 1024)]
pub fn combine(
    _all: Collective,
    s: Shape,
    y: Global<Bf16x8>,
    from: Packed,
    chosen: Global<i32>,
    weight: Global<f32>,
    inbox: Inbox,
    z: Global<Bf16x8>,
) {
    answer(s, y, from, inbox);
    collect(s, chosen, weight, from, inbox, z);
}

/// The first half of [`combine`]: waits for nothing.
#[kernel(max_block = 1024)]
pub fn combine_send(s: Shape, y: Global<Bf16x8>, from: Packed, inbox: Inbox) {
    answer(s, y, from, inbox);
}

/// The second half of [`combine`].
#[kernel(collective, max_block = 1024)]
pub fn combine_receive(
    _all: Collective,
    s: Shape,
    from: Packed,
    chosen: Global<i32>,
    weight: Global<f32>,
    inbox: Inbox,
    z: Global<Bf16x8>,
) {
    collect(s, chosen, weight, from, inbox, z);
}
