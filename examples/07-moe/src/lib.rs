//! Mixture of experts, for few tokens: `dispatch` brings each token's row to the PEs of its experts and packs what arrives by expert, `combine`
//! brings the experts' results back and adds them up, weighted. Each is one kernel, or two with other work between them.
//!
//! PE p has the experts `p * local..(p + 1) * local`. A *job* is one of a token's `top` experts. A row goes once to each PE, however many
//! of its experts are there, and so does their sum on its way back.
use shmem::async_copy::{commit, copy_async, wait_group};
use shmem::prelude::*;
use shmem::scope::Gpu;
use shmem::vector::{Bf16x8, F32x4, U32x2, U32x4};

mod back;
mod cast;
#[cfg(not(target_arch = "nvptx64"))]
mod check;
mod experts;
#[cfg(not(target_arch = "nvptx64"))]
mod host;
pub use back::{combine, combine_receive, combine_send};
#[cfg(not(target_arch = "nvptx64"))]
pub use check::{Batch, Routing, Set, check};
pub use experts::{factor, stand_in};
#[cfg(not(target_arch = "nvptx64"))]
pub use host::{Config, Moe, Pending, Tokens, Work};

/// In place of a row: none.
pub const NONE: u32 = u32::MAX;
/// Most experts of all PEs together.
pub const EXPERTS: usize = 1024;
/// Most experts of one token.
pub const TOP: usize = 32;
/// Most PEs.
pub const PES: usize = 32;

/// How many of everything.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelArg)]
pub struct Shape {
    /// Of each PE.
    pub tokens: u32,
    /// Experts of a token, all different.
    pub top: u32,
    /// Of all PEs together.
    pub experts: u32,
    /// Numbers of a row: a multiple of 8, for fp8 of 128.
    pub hidden: u32,
}

impl Shape {
    /// Experts of one PE. The last ones may have fewer.
    #[inline(always)]
    pub fn local(self, n: u32) -> u32 {
        self.experts.div_ceil(n)
    }

    /// Lines of 16 bytes of a row's numbers, and of its scales: one f32 for 128 numbers.
    #[inline(always)]
    pub fn lines<const FP8: bool>(self) -> (u32, u32) {
        if FP8 {
            (self.hidden / 16, (self.hidden / 128).div_ceil(4))
        } else {
            (self.hidden / 8, 0)
        }
    }

    /// Lines of a message: numbers, scales, and for each job its expert and slot, and its weight.
    #[inline(always)]
    pub fn message<const FP8: bool>(self) -> u32 {
        let (numbers, scales) = self.lines::<FP8>();
        numbers + scales + self.top.div_ceil(2)
    }
}

/// What comes from PE to PE. Everything has two halves that are used in turns: who dispatches for the second time after an epoch
/// has heard from all PEs that they had dispatched once more, and so had read all of that epoch.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Inbox {
    /// `[2][source PE][token]` messages.
    pub rows: SymSlice<U32x4>,
    /// The same of signals: twice the epoch, and one more where there is a row.
    pub ready: SymSlice<SignalWord>,
    /// `[2][source PE][local expert]`: the epoch, and below it in 32 bits how many jobs come.
    pub count: SymSlice<SignalWord>,
    /// `[2][token][expert PE]` results: a job's bf16 row, or the weighted sum of several jobs in f32.
    pub back: SymSlice<F32x4>,
    /// The same of signals: the epoch.
    pub answered: SymSlice<SignalWord>,
    /// The last epoch that has been received.
    pub epoch: Global<u64>,
    /// Blocks that are done with receiving.
    pub ticket: Global<u32>,
}

/// What a PE's experts work on, and where it came from.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Packed {
    /// `[local expert][PEs * tokens]` rows of numbers, by source PE and token.
    pub rows: Global<U32x4>,
    /// The same of scales.
    pub scales: Global<U32x4>,
    /// Rows of each local expert.
    pub len: Global<u32>,
    /// `[source PE][token][top]`: the row of each job, or [`NONE`].
    pub place: Global<u32>,
    /// The same of weights.
    pub weight: Global<f32>,
    /// The epoch that it is of.
    pub epoch: Global<u64>,
}

/// Sends this PE's tokens: `x` has a row for each, `chosen` and `weight` `[tokens][top]` experts, -1 for none, and weights.
#[inline(always)]
fn send<const FP8: bool>(s: Shape, x: Global<Bf16x8>, chosen: Global<i32>, weight: Global<f32>, inbox: Inbox) {
    let (me, n, blocks) = (shmem::my_pe(), shmem::n_pes(), thread::grid_size());
    let epoch = inbox.epoch.load(0) + 1;
    let (half, local) = ((epoch % 2) as u32, s.local(n));

    shared!(counts: [u32; EXPERTS]);
    let counts = counts.slice(0..n * local);
    // The last block has the fewest tokens. It tells the experts' PEs how many jobs come.
    if Block.id() == blocks - 1 {
        count_jobs(counts, chosen, s.tokens * s.top);
        for expert in Block.strided(n * local) {
            let count = inbox.count.at((half * n + me) * local + expert % local);
            let value = epoch << 32 | u64::from(counts.load(expert));
            shmem::signal_op(count.set(value), expert / local);
        }
        Block.sync();
    }

    let (row, lines) = (s.hidden / 8, s.message::<FP8>());
    let stage = shmem::shared::dynamic::<U32x4>();
    let message = if FP8 {
        stage.slice(row..row + lines)
    } else {
        stage.slice(0..lines)
    };
    let head = message.slice(lines - s.top.div_ceil(2)..lines).cast::<U32x2>();
    for token in (Block.id()..s.tokens).step_by(blocks as usize) {
        copy_async(Block, stage.slice(0..row).cast::<Bf16x8>(), x.chunk(token, row));
        commit();
        // A job's slot is the number of jobs of its expert before it.
        let first = token * s.top;
        count_jobs(counts, chosen, first);
        for k in Block.strided(head.len() as u32) {
            let expert = if k < s.top { chosen.load(first + k) } else { -1 };
            let job = if expert < 0 {
                [NONE, 0]
            } else {
                [
                    (expert as u32) << 16 | counts.load(expert),
                    weight.load(first + k).to_bits(),
                ]
            };
            head.store(k, U32x2(job));
        }
        wait_group::<0>();
        Block.sync();
        if FP8 {
            cast::to_fp8(s, stage, message);
            Block.sync();
        }
        // Others first.
        for i in 1..=n {
            let (to, at) = ((me + i) % n, (half * n + me) * s.tokens + token);
            let mut goes = false;
            for k in 0..s.top {
                goes |= (head.load(k).0[0] >> 16) / local == to;
            }
            let ready = inbox.ready.at(at).set(2 * epoch + u64::from(goes));
            if goes {
                shmem::put_signal(Block, inbox.rows.chunk(at, lines), message, ready, to);
            } else if Block.leader() {
                shmem::signal_op(ready, to);
            }
        }
    }
}

/// Counts the first so many jobs by their experts. All threads of the block call it.
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

/// Receives what all PEs have sent, and packs it by expert.
#[inline(always)]
fn receive<const FP8: bool>(s: Shape, inbox: Inbox, out: Packed) {
    let (me, n, blocks) = (shmem::my_pe(), shmem::n_pes(), thread::grid_size());
    let epoch = inbox.epoch.load(0) + 1;
    let (half, local, room) = ((epoch % 2) as u32, s.local(n), n * s.tokens);
    let ((numbers, scales), lines) = (s.lines::<FP8>(), s.message::<FP8>());
    let warps = (Block.size() / 32) as usize;
    // How many jobs of an expert a PE sends.
    let count = |from: u32, expert: u32| {
        let count = inbox.count.at((half * n + from) * local + expert);
        shmem::wait_until(Thread, count, ge(epoch << 32)) as u32
    };
    // The last block that has read the epoch begins the next one.
    Block.sync();
    if Block.rank() == Block.size() - 1 {
        let ticket = inbox.ticket.word::<Gpu>(0);
        if ticket.fetch_add_acqrel(1) == blocks - 1 {
            ticket.store(0);
            inbox.epoch.store(0, epoch);
            out.epoch.store(0, epoch);
        }
    }
    for expert in (Block.id() + blocks * Warp.id()..local).step_by(blocks as usize * warps) {
        let len = Warp.strided(n).map(|from| count(from, expert)).sum();
        let len = Warp.sum::<u32>(len);
        if Warp.leader() {
            out.len.store(expert, len);
        }
    }
    shared!(places: [u32; TOP]);
    for item in (Block.id()..room).step_by(blocks as usize) {
        let (source, token) = ((me + item / s.tokens) % n, item % s.tokens);
        let at = (half * n + source) * s.tokens + token;
        let came = shmem::wait_until(Block, inbox.ready.at(at), ge(2 * epoch)) % 2 == 1;
        let message = inbox.rows.chunk(at, lines);
        let load = |i: u32| {
            if came && i < numbers + scales {
                message.load(i)
            } else {
                U32x4([0; 4])
            }
        };
        // Two lines are on their way while the jobs' places are found.
        let (mut i, size) = (Block.rank(), Block.size());
        let (mut a, mut b) = (load(i), load(i + size));
        for k in (Warp.id()..s.top).step_by(warps) {
            let (mut place, job) = (NONE, (source * s.tokens + token) * s.top + k);
            if came {
                let [to, weight] = message.slice(numbers + scales..lines).cast::<U32x2>().load(k).0;
                if (to >> 16) / local == me {
                    let expert = (to >> 16) % local;
                    let before = Warp.strided(source).map(|from| count(from, expert)).sum();
                    place = expert * room + Warp.sum::<u32>(before) + (to & 0xffff);
                }
                if Warp.leader() {
                    out.weight.store(job, f32::from_bits(weight));
                }
            }
            if Warp.leader() {
                places.store(k, place);
                out.place.store(job, place);
            }
        }
        Block.sync();
        let store = |i: u32, line: U32x4| {
            for k in 0..s.top {
                let place = places.load(k);
                if place != NONE && i < numbers {
                    out.rows.store(place * numbers + i, line);
                } else if place != NONE && i < numbers + scales {
                    out.scales.store(place * scales + i - numbers, line);
                }
            }
        };
        while came && i < numbers + scales {
            store(i, a);
            store(i + size, b);
            i += 2 * size;
            (a, b) = (load(i), load(i + size));
        }
        Block.sync();
    }
}

/// Sends this PE's tokens to their experts, and receives and packs what others send. `x` has a row for each token, `chosen` and `weight`
/// `[tokens][top]` experts, -1 for none, and weights. Dynamic shared memory: [`Config::dispatch_bytes`].
#[kernel(collective, max_block = 1024, for<false>, for<true>)]
pub fn dispatch<const FP8: bool>(
    _all: Collective,
    s: Shape,
    x: Global<Bf16x8>,
    chosen: Global<i32>,
    weight: Global<f32>,
    inbox: Inbox,
    out: Packed,
) {
    send::<FP8>(s, x, chosen, weight, inbox);
    receive::<FP8>(s, inbox, out);
}

/// The first half of [`dispatch`]: waits for nothing.
#[kernel(max_block = 1024, for<false>, for<true>)]
pub fn dispatch_send<const FP8: bool>(
    s: Shape,
    x: Global<Bf16x8>,
    chosen: Global<i32>,
    weight: Global<f32>,
    inbox: Inbox,
) {
    send::<FP8>(s, x, chosen, weight, inbox);
}

/// The second half of [`dispatch`].
#[kernel(collective, max_block = 1024, for<false>, for<true>)]
pub fn dispatch_receive<const FP8: bool>(_all: Collective, s: Shape, inbox: Inbox, out: Packed) {
    receive::<FP8>(s, inbox, out);
}
