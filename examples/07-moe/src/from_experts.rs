//! Sums of results back to the tokens.
use crate::layout::*;
use shmem::prelude::*;
use shmem::vector::{Bf16x8, F32x4, U32x2};

/// Sends the sums of the experts' results `y`, weighted, to the tokens' PEs, one of each token, and adds up what comes for this PE's tokens in
/// `z`. `y` is laid out as [`Packed::rows`], but in bf16. Halves as [`dispatch`](crate::dispatch()). Dynamic shared memory:
/// [`Config::combine_bytes`](crate::Config::combine_bytes).
#[kernel(collective, max_block = 1024)]
pub fn combine(
    _all: Collective,
    halves: u32,
    s: Shape,
    y: Global<Bf16x8>,
    from: Packed,
    inbox: Inbox,
    chosen: Global<i32>,
    z: Global<Bf16x8>,
) {
    let epoch = from.epoch.load(0);
    if halves & SEND != 0 {
        answer(s, y, from, inbox, epoch);
    }
    if halves & RECEIVE != 0 {
        collect(s, inbox, chosen, z, epoch);
    }
}

#[inline(always)]
fn answer(s: Shape, y: Global<Bf16x8>, from: Packed, inbox: Inbox, epoch: u64) {
    let (me, n, lines) = (shmem::my_pe(), shmem::n_pes(), s.hidden / 8);
    let sums = shmem::shared::dynamic::<F32x4>().slice(0..2 * lines);
    shared!(jobs: [U32x2; TOP]);
    for item in (Block.id()..n * s.tokens).step_by(thread::grid_size() as usize) {
        // To this PE last.
        let (owner, token) = ((me + 1 + item / s.tokens) % n, item % s.tokens);
        let (lane, job) = (warp::lane_id(), (owner * s.tokens + token) * s.top + warp::lane_id());
        let place = if lane < s.top { from.place.load(job) } else { NONE };
        let all = warp::ballot(place != NONE);
        if Warp.id() == 0 && place != NONE {
            let before = all & ((1 << lane) - 1);
            jobs.store(before.count_ones(), U32x2([place, from.weight.load(job).to_bits()]));
        }
        Block.sync();
        let term = |k: u32, i: u32| {
            if k >= all.count_ones() {
                return (0.0, Bf16x8::default());
            }
            let [place, weight] = jobs.load(k).0;
            (f32::from_bits(weight), y.load(place * lines + i))
        };
        for i in Block.strided(if all != 0 { lines } else { 0 }) {
            // Four loads are on their way at a time.
            let (mut sum, mut k) = ([0.0; 8], 0);
            while k < all.count_ones() {
                let (a, b, c, d) = (term(k, i), term(k + 1, i), term(k + 2, i), term(k + 3, i));
                sum = add(add(add(add(sum, a), b), c), d);
                k += 4;
            }
            let [a, b, c, d, e, f, g, h] = sum;
            sums.store(2 * i, F32x4([a, b, c, d]));
            sums.store(2 * i + 1, F32x4([e, f, g, h]));
        }
        Block.sync();
        if all != 0 {
            let at = ((epoch % 2) as u32 * s.tokens + token) * n + me;
            let (back, answered) = (inbox.back.chunk(at, 2 * lines), inbox.answered.at(at));
            shmem::put_signal(Block, back, sums, answered.set(epoch), owner);
        }
    }
}

#[inline(always)]
fn add(mut sum: [f32; 8], (weight, row): (f32, Bf16x8)) -> [f32; 8] {
    let row = row.f32();
    for j in 0..8 {
        sum[j] = row[j].mul_add(weight, sum[j]);
    }
    sum
}

#[inline(always)]
fn collect(s: Shape, inbox: Inbox, chosen: Global<i32>, z: Global<Bf16x8>, epoch: u64) {
    let (n, local, lines) = (shmem::n_pes(), s.local(shmem::n_pes()), s.hidden / 8);
    // Blocks that have answered are the last to collect.
    for token in (place_behind(n * s.tokens)..s.tokens).step_by(thread::grid_size() as usize) {
        let lane = warp::lane_id();
        let row = |pe: u32| ((epoch % 2) as u32 * s.tokens + token) * n + pe;
        let expert = if lane < s.top {
            chosen.load(token * s.top + lane)
        } else {
            -1
        };
        let mut sends = 0;
        for pe in 0..n {
            sends |= u32::from(warp::any(expert >= 0 && expert as u32 / local == pe)) << pe;
        }
        if Warp.id() == 0 && sends >> lane & 1 == 1 {
            shmem::wait_until(Thread, inbox.answered.at(row(lane)), ge(epoch));
        }
        Block.sync();
        let load = |pe: u32, quad: u32| {
            if pe < n && sends >> pe & 1 == 1 {
                inbox.back.load(row(pe) * 2 * lines + quad)
            } else {
                F32x4([0.0; 4])
            }
        };
        for i in Block.strided(lines) {
            // What two PEs have sent is on its way at a time.
            let (mut low, mut high, mut pe) = (F32x4([0.0; 4]), F32x4([0.0; 4]), 0);
            while pe < n {
                let (a, b) = (load(pe, 2 * i), load(pe, 2 * i + 1));
                let (c, d) = (load(pe + 1, 2 * i), load(pe + 1, 2 * i + 1));
                (low, high) = (low + a + c, high + b + d);
                pe += 2;
            }
            let (F32x4([a, b, c, d]), F32x4([e, f, g, h])) = (low, high);
            z.store(token * lines + i, Bf16x8::from_f32([a, b, c, d, e, f, g, h]));
        }
    }
}
