//! The way back.
use crate::{Inbox, NONE, PES, Packed, Shape, TOP};
use shmem::bytemuck::cast;
use shmem::prelude::*;
use shmem::vector::{Bf16x8, F32x4};

/// `sum` and a row's numbers by its weight.
#[inline(always)]
fn add(mut sum: [f32; 8], (weight, row): (f32, Bf16x8)) -> [f32; 8] {
    let row = row.f32();
    for j in 0..8 {
        sum[j] = row[j].mul_add(weight, sum[j]);
    }
    sum
}

/// Sends each token's owner what the experts here have made of it: the row of a single job, or the weighted sum of several.
#[inline(always)]
fn answer(s: Shape, y: Global<Bf16x8>, from: Packed, inbox: Inbox) {
    let (me, n, epoch) = (shmem::my_pe(), shmem::n_pes(), from.epoch.load(0));
    let (half, lines) = ((epoch % 2) as u32, s.hidden / 8);
    let sums = shmem::shared::dynamic::<F32x4>().slice(0..2 * lines);
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
        let (back, answered) = (inbox.back.chunk(at, 2 * lines), inbox.answered.at(at).set(epoch));
        if jobs == 1 {
            let (back, row) = (back.cast().slice(0..lines), y.chunk(rows.load(0), lines));
            shmem::put_signal(Block, back, row, answered, owner);
        } else if jobs > 1 {
            for i in Block.strided(lines) {
                let term = |k: u32| {
                    if k < jobs {
                        (weights.load(k), y.load(rows.load(k) * lines + i))
                    } else {
                        (0.0, Bf16x8::default())
                    }
                };
                // Four loads are on their way at a time.
                let (mut sum, mut k) = ([0.0; 8], 0);
                while k < jobs {
                    let (a, b, c, d) = (term(k), term(k + 1), term(k + 2), term(k + 3));
                    sum = add(add(add(add(sum, a), b), c), d);
                    k += 4;
                }
                let [a, b, c, d, e, f, g, h] = sum;
                sums.store(2 * i, F32x4([a, b, c, d]));
                sums.store(2 * i + 1, F32x4([e, f, g, h]));
            }
            Block.sync();
            shmem::put_signal(Block, back, sums, answered, owner);
        }
        Block.sync();
    }
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
            let (rows, zero) = (inbox.back.cast::<Bf16x8>(), Bf16x8::default());
            // A row of bf16, or two lines for each of its own.
            let load = |pe: u32| match jobs.load(pe) {
                0 => (zero, zero),
                1 => (rows.load(2 * row(pe) * lines + i), zero),
                _ => {
                    let at = 2 * (row(pe) * lines + i);
                    (rows.load(at), rows.load(at + 1))
                }
            };
            let sum_with = |mut sum: [f32; 8], pe: u32, (low, high): (Bf16x8, Bf16x8)| {
                if jobs.load(pe) == 1 {
                    return add(sum, (weights.load(pe), low));
                }
                let (F32x4(low), F32x4(high)) = (cast(low), cast(high));
                for j in 0..4 {
                    sum[j] += low[j];
                    sum[j + 4] += high[j];
                }
                sum
            };
            // What two PEs have sent is on its way at a time.
            let (mut sum, mut pe) = ([0.0; 8], 0);
            while pe < n {
                let (a, b) = (load(pe), load(pe + 1));
                sum = sum_with(sum_with(sum, pe, a), pe + 1, b);
                pe += 2;
            }
            z.store(token * lines + i, Bf16x8::from_f32(sum));
        }
        Block.sync();
    }
}

/// Sends the experts' results `y`, laid out as [`Packed::rows`] but in bf16, to the tokens' owners, and adds up what comes for this PE's
/// tokens: `z` takes the sum of each, weighted. Dynamic shared memory: [`Config::combine_bytes`](crate::Config::combine_bytes). `chosen` and `weight` are those of the dispatch that made `from`.
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
