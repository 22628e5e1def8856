//! Rows to the experts.
use crate::cast::to_fp8;
use crate::layout::*;
use shmem::async_copy::{commit, copy_async, wait_group};
use shmem::packet;
use shmem::prelude::*;
use shmem::scope::Gpu;
use shmem::vector::{U32x2, U32x4};

#[inline(always)]
pub(crate) fn dispatch<const FP8: bool, const PACKETS: bool>(
    halves: u32,
    s: Shape,
    tokens: Tokens,
    inbox: Inbox,
    out: Packed,
) {
    let epoch = inbox.epoch.load(0) + 1;
    if halves & SEND != 0 {
        send::<FP8, PACKETS>(s, tokens, inbox, epoch);
    }
    if halves & RECEIVE != 0 {
        receive::<FP8, PACKETS>(s, inbox, out, epoch);
    }
}

#[inline(always)]
fn send<const FP8: bool, const PACKETS: bool>(s: Shape, tokens: Tokens, inbox: Inbox, epoch: u64) {
    let (me, n, blocks) = (shmem::my_pe(), shmem::n_pes(), thread::grid_size());
    let (parts, part) = (inbox.parts, s.part(inbox.parts));
    let (row, lines, items) = (part.hidden / 8, part.message::<FP8>(), s.tokens * parts);
    let stage = shmem::shared::dynamic::<U32x4>();
    let stage_row = |item: u32| {
        copy_async(Block, stage.slice(0..row).cast(), tokens.x.chunk(item, row));
        commit();
    };
    // The first row is on its way while all else comes.
    if Block.id() < items {
        stage_row(Block.id());
    }
    let (mine, local) = ((epoch % 2) as u32 * n + me, s.local(n));
    shared!(counts: [u32; EXPERTS]);
    let counts = counts.slice(0..n * local);
    // The last block has the fewest tokens.
    if Block.id() == blocks - 1 {
        count_jobs(counts, tokens.chosen, s.tokens * s.top);
        for expert in Block.strided(n * local) {
            let count = inbox.count.at(mine * local + expert % local);
            let value = epoch << COUNT_BITS | u64::from(counts.load(expert));
            // It is all that this tells.
            shmem::relaxed::signal_op(count.set(value), expert / local);
        }
    }
    let message = stage.slice(if FP8 { row..row + lines } else { 0..lines });
    let (numbers, scales) = part.lines::<FP8>();
    let head = message.slice(numbers + scales..lines).cast::<U32x2>();
    for item in (Block.id()..items).step_by(blocks as usize) {
        if item != Block.id() {
            Block.sync();
            stage_row(item);
        }
        let (first, k) = (item / parts * s.top, Block.rank());
        let (mut expert, mut weight) = (-1, 0.0);
        if k < s.top {
            (expert, weight) = (tokens.chosen.load(first + k), tokens.weight.load(first + k));
        }
        count_jobs(counts, tokens.chosen, first);
        for k in Block.strided(head.len() as u32) {
            let mut job = [NONE, 0];
            if k < s.top && expert >= 0 {
                job = [(expert as u32) << 16 | counts.load(expert), weight.to_bits()];
            }
            head.store(k, U32x2(job));
        }
        wait_group::<0>();
        Block.sync();
        if FP8 {
            to_fp8(part, stage, message);
        }
        // Once to each PE that has experts of the token, to this one last.
        for i in 1..=n {
            let (to, at) = ((me + i) % n, mine * items + item);
            if PACKETS {
                packet::send_run(Block, slots(inbox.rows, at, lines), message.cast(), flag(epoch), to);
                continue;
            }
            let goes = (0..s.top).any(|k| (head.load(k).0[0] >> 16) / local == to);
            let ready = inbox.ready.at(at).set(2 * epoch + u64::from(goes));
            if goes {
                shmem::put_signal(Block, inbox.rows.chunk(at, lines), message, ready, to);
            } else if Block.leader() {
                shmem::signal_op(ready, to);
            }
        }
    }
}

/// Counts the first so many jobs by their experts.
#[inline(always)]
fn count_jobs(counts: Shared<u32>, chosen: Global<i32>, jobs: u32) {
    for expert in Block.strided(counts.len() as u32) {
        counts.store(expert, 0);
    }
    Block.sync();
    for job in Block.strided(jobs) {
        let expert = chosen.load(job);
        if expert >= 0 {
            counts.word(expert).add(1);
        }
    }
    Block.sync();
}

#[inline(always)]
fn receive<const FP8: bool, const PACKETS: bool>(s: Shape, inbox: Inbox, out: Packed, epoch: u64) {
    let (me, n, blocks) = (shmem::my_pe(), shmem::n_pes(), thread::grid_size());
    let (half, local, room) = ((epoch % 2) as u32, s.local(n), n * s.tokens);
    let (parts, part, warps) = (inbox.parts, s.part(inbox.parts), Block.size() / 32);
    let ((numbers, scales), lines) = (part.lines::<FP8>(), part.message::<FP8>());
    let stage = shmem::shared::dynamic::<U32x4>().slice(0..lines);
    let head = stage.slice(numbers + scales..lines).cast::<U32x2>();
    // The last block that has read the epoch begins the next one.
    Block.sync();
    let ticket = inbox.ticket.word::<Gpu>(0);
    if Block.rank() == Block.size() - 1 && ticket.fetch_add_acqrel(1) == blocks - 1 {
        ticket.store(0);
        inbox.epoch.store(0, epoch);
        out.epoch.store(0, epoch);
    }
    // How many jobs of an expert come from the first so many PEs. A warp calls it.
    let come = |expert: u32, pes: u32| {
        let mut jobs = 0;
        for from in Warp.strided(pes) {
            let count = inbox.count.at((half * n + from) * local + expert);
            let come = shmem::relaxed::wait_until(Thread, count, ge(epoch << COUNT_BITS));
            jobs += come as u32 % (1 << COUNT_BITS);
        }
        Warp.sum(jobs)
    };
    // Blocks that have sent are the last to receive: what comes, to this PE's own rows too, is waited for already.
    let first = place_behind(s.tokens * parts);
    for expert in (first + blocks * Warp.id()..local).step_by((blocks * warps) as usize) {
        let len = come(expert, n);
        if Warp.leader() {
            out.len.store(expert, len);
        }
    }
    shared!(places: [u32; TOP]);
    shared!(before: [u32; EXPERTS]);
    let mut known = NONE;
    for item in (first..room * parts).step_by(blocks as usize) {
        let (row, of) = (item / parts, item % parts);
        let (source, token) = ((me + row / s.tokens) % n, row % s.tokens);
        let at = ((half * n + source) * s.tokens + token) * parts + of;
        // Counts are here before rows: what the experts have before this PE's is known when one comes.
        if source != known {
            for expert in (Warp.id()..local).step_by(warps as usize) {
                let jobs = come(expert, source);
                if Warp.leader() {
                    before.store(expert, jobs);
                }
            }
            known = source;
        }
        let row = PACKETS || shmem::wait_until(Block, inbox.ready.at(at), ge(2 * epoch)) % 2 == 1;
        if PACKETS {
            packet::receive_run(Block, stage.cast(), slots(inbox.rows, at, lines), flag(epoch));
        } else if row {
            copy_async(Block, stage, inbox.rows.chunk(at, lines));
            commit();
            wait_group::<0>();
        }
        Block.sync();
        let k = Block.rank();
        if k < s.top {
            let [to, weight] = if row { head.load(k).0 } else { [NONE, 0] };
            let (expert, slot) = (to >> 16, to & 0xffff);
            let place = if expert / local == me {
                expert % local * room + before.load(expert % local) + slot
            } else {
                NONE
            };
            if of == 0 {
                let job = (source * s.tokens + token) * s.top + k;
                out.place.store(job, place);
                out.weight.store(job, f32::from_bits(weight));
            }
            places.store(k, place);
        }
        Block.sync();
        for i in Block.strided(if row { numbers + scales } else { 0 }) {
            let line = stage.load(i);
            for k in 0..s.top {
                let place = places.load(k);
                if place != NONE && i < numbers {
                    out.rows.store((place * parts + of) * numbers + i, line);
                } else if place != NONE {
                    out.scales.store((place * parts + of) * scales + i - numbers, line);
                }
            }
        }
        Block.sync();
    }
}
