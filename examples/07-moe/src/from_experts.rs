//! Sums of results back to the tokens.
use crate::layout::*;
use shmem::packet;
use shmem::prelude::*;
use shmem::vector::{Bf16x8, F32x4, U32x2};

#[inline(always)]
pub(crate) fn combine<const PACKETS: bool>(
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
        answer::<PACKETS>(s, y, from, inbox, epoch);
    }
    if halves & RECEIVE != 0 {
        collect::<PACKETS>(s, y, from, inbox, chosen, z, epoch);
    }
}

#[inline(always)]
fn answer<const PACKETS: bool>(s: Shape, y: Global<Bf16x8>, from: Packed, inbox: Inbox, epoch: u64) {
    let (me, n, items) = (shmem::my_pe(), shmem::n_pes(), s.tokens * inbox.parts);
    let lines = s.part(inbox.parts).sums();
    let sums = shmem::shared::dynamic::<F32x4>().slice(0..lines);
    for item in (Block.id()..(n - 1) * items).step_by(thread::grid_size() as usize) {
        let (owner, row) = ((me + 1 + item / items) % n, item % items);
        let any = add_up(s, inbox.parts, y, from, owner * items + row, sums);
        let at = ((epoch % 2) as u32 * items + row) * n + me;
        if PACKETS {
            packet::send_run(Block, slots(inbox.back, at, lines), sums.cast(), flag(epoch), owner);
        } else if any {
            let answered = inbox.answered.at(at).set(epoch);
            shmem::put_signal(Block, inbox.back.chunk(at, lines), sums, answered, owner);
        }
    }
}

/// The weighted sum of what this PE's experts made of a part of a row, and whether there is any. All threads of the block call it, and see it;
/// they may still be reading the last one.
#[inline(always)]
fn add_up(s: Shape, parts: u32, y: Global<Bf16x8>, from: Packed, row: u32, sums: Shared<F32x4>) -> bool {
    shared!(jobs: [U32x2; TOP]);
    let (lines, of) = (s.hidden / 8 / parts, row % parts);
    let (lane, job) = (warp::lane_id(), row / parts * s.top + warp::lane_id());
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
        (f32::from_bits(weight), y.load((place * parts + of) * lines + i))
    };
    for i in Block.strided(lines) {
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
    for i in Block.strided(sums.len() as u32 - 2 * lines) {
        sums.store(2 * lines + i, F32x4([0.0; 4]));
    }
    Block.sync();
    all != 0
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
fn collect<const PACKETS: bool>(
    s: Shape,
    y: Global<Bf16x8>,
    from: Packed,
    inbox: Inbox,
    chosen: Global<i32>,
    z: Global<Bf16x8>,
    epoch: u64,
) {
    let (me, n, parts) = (shmem::my_pe(), shmem::n_pes(), inbox.parts);
    let (items, local, lines) = (s.tokens * parts, s.local(n), s.part(parts).sums());
    let stage = shmem::shared::dynamic::<F32x4>();
    let sums = stage.slice(0..lines);
    // Blocks that have answered are the last to collect.
    for item in (place_behind((n - 1) * items)..items).step_by(thread::grid_size() as usize) {
        let at = |pe: u32| ((epoch % 2) as u32 * items + item) * n + pe;
        add_up(s, parts, y, from, me * items + item, sums);
        let mut sends = 0;
        if PACKETS {
            let came = stage.slice(lines..2 * lines);
            for k in 1..n {
                let pe = (me + k) % n;
                packet::receive_run(Block, came.cast(), slots(inbox.back, at(pe), lines), flag(epoch));
                Block.sync();
                for i in Block.strided(lines) {
                    sums.store(i, sums.load(i) + came.load(i));
                }
                Block.sync();
            }
        } else {
            let (lane, first) = (warp::lane_id(), item / parts * s.top);
            let expert = if lane < s.top { chosen.load(first + lane) } else { -1 };
            for pe in 0..n {
                sends |= u32::from(warp::any(expert >= 0 && expert as u32 / local == pe)) << pe;
            }
            sends &= !(1 << me);
            if Warp.id() == 0 && sends >> lane & 1 == 1 {
                shmem::wait_until(Thread, inbox.answered.at(at(lane)), ge(epoch));
            }
            Block.sync();
        }
        let load = |pe: u32, quad: u32| {
            if pe == me {
                sums.load(quad)
            } else if pe < n && sends >> pe & 1 == 1 {
                inbox.back.load(at(pe) * lines + quad)
            } else {
                F32x4([0.0; 4])
            }
        };
        for i in Block.strided(s.hidden / parts / 8) {
            // What two PEs have sent is on its way at a time.
            let (mut low, mut high, mut pe) = (F32x4([0.0; 4]), F32x4([0.0; 4]), 0);
            while pe < n {
                let (a, b) = (load(pe, 2 * i), load(pe, 2 * i + 1));
                let (c, d) = (load(pe + 1, 2 * i), load(pe + 1, 2 * i + 1));
                (low, high) = (low + a + c, high + b + d);
                pe += 2;
            }
            let (F32x4([a, b, c, d]), F32x4([e, f, g, h])) = (low, high);
            z.store(
                item * (s.hidden / parts / 8) + i,
                Bf16x8::from_f32([a, b, c, d, e, f, g, h]),
            );
        }
    }
}
