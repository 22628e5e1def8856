//! Mixture of experts, one token at a time: `dispatch` takes each token's row to the PEs of the experts that were chosen for
//! it and packs what arrives by expert; `combine` brings the experts' results back and adds them up, weighted.
//!
//! PE p has the experts `p * local..(p + 1) * local`. A *job* is a token's row for one of its `top` experts.
use shmem::prelude::*;
use shmem::scope::Gpu;
use shmem::vector::Bf16x8;

/// No expert: the token has fewer than `top`.
pub const NONE: u32 = u32::MAX;

#[repr(C)]
#[derive(Clone, Copy, Debug, KernelArg)]
pub struct Shape {
    pub tokens: u32,
    /// Experts of a token, all different.
    pub top: u32,
    /// Of all PEs together.
    pub experts: u32,
    /// Vectors of eight numbers in a row.
    pub row: u32,
}

/// What comes from PE to PE. It is used in turns: a PE that dispatches for the second time after `epoch` has heard from all
/// PEs that they had dispatched once more, and so had read all of `epoch`.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Inbox {
    /// `[2][local expert][source PE][tokens]` rows.
    pub rows: SymSlice<Bf16x8>,
    /// The same of numbers: which job of which PE the row is, `PE * jobs + job`.
    pub jobs: SymSlice<u32>,
    /// `[2][local expert][source PE]`: the epoch, and below it in 32 bits how many rows came.
    pub count: SymSlice<SignalWord>,
}

/// What a PE's experts work on.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Packed {
    /// `[local expert][PEs * tokens]` rows.
    pub rows: Global<Bf16x8>,
    /// The same of numbers, as in the inbox.
    pub jobs: Global<u32>,
    /// Rows of each local expert.
    pub len: Global<u32>,
}

/// This warp's number in the grid, and how many there are.
#[inline(always)]
fn grid_warps() -> (u32, usize) {
    let warps = thread::block_size() / 32;
    (Block.id() * warps + Warp.id(), (thread::grid_size() * warps) as usize)
}

/// `x` has a row for each token, `chosen` `[tokens][top]` experts. `next` and `sent` have a zero for each expert, and again
/// at the end. `epoch` grows by one with each call, from 1.
#[kernel(collective, max_block = 512)]
pub fn dispatch(
    _all: Collective,
    s: Shape,
    x: Global<Bf16x8>,
    chosen: Global<u32>,
    next: Global<u32>,
    sent: Global<u32>,
    inbox: Inbox,
    out: Packed,
    epoch: u64,
) {
    let (me, n) = (shmem::my_pe(), shmem::n_pes());
    let (local, jobs) = (s.experts / n, s.tokens * s.top);
    let (warp, warps) = grid_warps();
    let part = |expert: u32, source: u32| ((epoch % 2) as u32 * local + expert % local) * n + source;
    let row_of = |part: u32, slot: u32| inbox.rows.chunk(part, s.tokens * s.row).chunk(slot, s.row);
    let job_of = |part: u32, slot: u32| inbox.jobs.chunk(part, s.tokens).at(slot);

    // A warp for each job.
    for job in (warp..jobs).step_by(warps) {
        let expert = chosen.load(job);
        if expert != NONE {
            let slot = if Warp.leader() {
                next.word::<Gpu>(expert).fetch_add(1)
            } else {
                0
            };
            let slot = Warp.broadcast(slot.into()) as u32;
            let (pe, part) = (expert / local, part(expert, me));
            shmem::put(Warp, row_of(part, slot), x.chunk(job / s.top, s.row), pe);
            // Every lane's share of the row is before the leader's release, and with it before the fence below.
            Warp.sync();
            if Warp.leader() {
                shmem::p(job_of(part, slot), me * jobs + job, pe);
                sent.word::<Gpu>(expert).add_release(1);
            }
        }
    }

    // A warp for each expert tells its PE how many came, be it none: every PE waits for all others.
    for expert in (warp..s.experts).step_by(warps) {
        let mine = Warp.strided(jobs).filter(|&job| chosen.load(job) == expert).count();
        let all = Warp.sum(mine as u32);
        // Acquires what the warps above released.
        shmem::wait_until(Warp, sent.word::<Gpu>(expert), eq(all));
        if Warp.leader() {
            // A signal alone says nothing of earlier puts. One fence serves all warps' puts: they are before it.
            shmem::fence(Thread);
            let count = inbox.count.at(part(expert, me));
            shmem::signal_op(count.set(epoch << 32 | u64::from(all)), expert / local);
            // Nobody in this kernel looks at these any more, and the next kernel comes after.
            next.store(expert, 0);
            sent.store(expert, 0);
        }
    }

    // A block for each local expert and source. The wait acquires for the whole block.
    for i in (Block.id()..local * n).step_by(thread::grid_size() as usize) {
        let (expert, source) = (i / n, i % n);
        let count = |source| shmem::wait_until(Block, inbox.count.at(part(expert, source)), ge(epoch << 32)) as u32;
        let mut begin = 0;
        for source in 0..source {
            begin += count(source);
        }
        let len = count(source);
        if source == n - 1 && Block.leader() {
            out.len.store(expert, begin + len);
        }
        let rows = out.rows.chunk(expert, n * s.tokens * s.row);
        let numbers = out.jobs.chunk(expert, n * s.tokens);
        for slot in (Warp.id()..len).step_by((thread::block_size() / 32) as usize) {
            let (to, from) = (rows.chunk(begin + slot, s.row), row_of(part(expert, source), slot));
            for i in Warp.strided(s.row) {
                to.store(i, from.load(i));
            }
            if Warp.leader() {
                numbers.store(begin + slot, job_of(part(expert, source), slot).load());
            }
        }
    }
}

/// `out` is what `dispatch` packed, with the experts' results for rows. `back` has a row and `ready` a signal for each of
/// this PE's jobs, `weight` `[tokens][top]` numbers. `z` takes the sum for each token. `epoch` is that of `dispatch`.
#[kernel(collective, max_block = 512)]
pub fn combine(
    _all: Collective,
    s: Shape,
    out: Packed,
    chosen: Global<u32>,
    weight: Global<f32>,
    back: SymSlice<Bf16x8>,
    ready: SymSlice<SignalWord>,
    z: Global<Bf16x8>,
    epoch: u64,
) {
    let n = shmem::n_pes();
    let (local, jobs) = (s.experts / n, s.tokens * s.top);
    let (warp, warps) = grid_warps();
    // The row and its signal are one call, so that no fence is needed. Nobody reads an older row there: its owner has read
    // all before it dispatched what we now answer.
    for expert in 0..local {
        for i in (warp..out.len.load(expert)).step_by(warps) {
            let at = expert * n * s.tokens + i;
            let (from, row) = (out.jobs.load(at), out.rows.chunk(at, s.row));
            let (pe, job) = (from / jobs, from % jobs);
            shmem::put_signal(Warp, back.chunk(job, s.row), row, ready.at(job).set(epoch), pe);
        }
    }
    for token in (warp..s.tokens).step_by(warps) {
        let row_jobs = token * s.top..(token + 1) * s.top;
        for job in row_jobs.clone() {
            if chosen.load(job) != NONE {
                shmem::wait_until(Warp, ready.at(job), ge(epoch));
            }
        }
        for i in Warp.strided(s.row) {
            let mut sum = [0f32; 8];
            for job in row_jobs.clone() {
                if chosen.load(job) != NONE {
                    let (w, y) = (weight.load(job), back.chunk(job, s.row).load(i).f32());
                    for j in 0..8 {
                        sum[j] = y[j].mul_add(w, sum[j]);
                    }
                }
            }
            z.chunk(token, s.row).store(i, Bf16x8::from_f32(sum));
        }
    }
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::numbers::small;
    use anyhow::ensure;
    use shmem::bytemuck::{cast_slice, cast_slice_mut};
    use shmem_host::{Buf, Pe, collective_launch};

    const LOCAL: u32 = 3;
    const TOP: u32 = 3;

    /// Rows and tokens of odd numbers, one of each, and more jobs than warps.
    pub fn check(pe: &Pe) -> anyhow::Result<()> {
        for (tokens, row) in [(7, 5), (1, 1), (23, 33)] {
            check_shape(
                pe,
                Shape {
                    tokens,
                    top: TOP,
                    experts: pe.n() * LOCAL,
                    row,
                },
            )?;
        }
        Ok(())
    }

    /// Little data, for runs of many seeds.
    pub fn check_small(pe: &Pe) -> anyhow::Result<()> {
        let shape = Shape {
            tokens: 3,
            top: TOP,
            experts: pe.n() * LOCAL,
            row: 2,
        };
        check_shape(pe, shape)
    }

    /// The expert of a job: in epoch 3 all go to the same ones.
    fn choice(s: Shape, epoch: u64, pe: u32, job: u32) -> u32 {
        let (token, k) = (job / TOP, job % TOP);
        if (token + k) % 5 == 4 {
            return NONE;
        }
        let first = if epoch == 3 {
            0
        } else {
            7 * token + 5 * pe + epoch as u32
        };
        (first + k) % s.experts
    }

    fn number(epoch: u64, pe: u32, i: usize) -> bf16 {
        bf16::from_f32(small(epoch as u32, pe, i))
    }

    /// What an expert makes of a number.
    fn work(expert: u32, x: bf16) -> bf16 {
        bf16::from_f32(x.to_f32() * (expert + 1) as f32)
    }

    fn weight(pe: u32, job: u32) -> f32 {
        small(77, pe, job as usize)
    }

    /// Several calls without a barrier between.
    fn check_shape(pe: &Pe, s: Shape) -> anyhow::Result<()> {
        let (n, jobs) = (pe.n() as usize, (s.tokens * s.top) as usize);
        let (tokens, row) = (s.tokens as usize, s.row as usize);
        let slots = LOCAL as usize * n * tokens;
        let (x, z) = (pe.buffer::<Bf16x8>(tokens * row)?, pe.buffer::<Bf16x8>(tokens * row)?);
        let (chosen, weights) = (pe.buffer::<u32>(jobs)?, pe.buffer::<f32>(jobs)?);
        let (next, sent) = (
            pe.buffer::<u32>(LOCAL as usize * n)?,
            pe.buffer::<u32>(LOCAL as usize * n)?,
        );
        let (rows, numbers) = (pe.alloc::<Bf16x8>(2 * slots * row)?, pe.alloc::<u32>(2 * slots)?);
        let count = pe.signals(2 * LOCAL as usize * n)?;
        let (packed, packed_jobs) = (pe.buffer::<Bf16x8>(slots * row)?, pe.buffer::<u32>(slots)?);
        let packed_len = pe.buffer::<u32>(LOCAL as usize)?;
        let (back, ready) = (pe.alloc::<Bf16x8>(jobs * row)?, pe.signals(jobs)?);
        let inbox = Inbox {
            rows: rows.handle(),
            jobs: numbers.handle(),
            count: count.handle(),
        };
        let out = Packed {
            rows: packed.handle(),
            jobs: packed_jobs.handle(),
            len: packed_len.handle(),
        };
        let all_jobs = || 0..s.tokens * s.top;
        weights.write(&all_jobs().map(|job| weight(pe.id(), job)).collect::<Vec<_>>())?;
        for epoch in 1..=4 {
            let input: Vec<bf16> = (0..tokens * row * 8).map(|i| number(epoch, pe.id(), i)).collect();
            x.write(cast_slice(&input))?;
            chosen.write(&all_jobs().map(|job| choice(s, epoch, pe.id(), job)).collect::<Vec<_>>())?;
            collective_launch!(pe, dispatch<<<3, 96>>>(s, &x, &chosen, &next, &sent, inbox, out, epoch))?;
            experts(pe, s, epoch, [&packed_jobs, &packed_len], &packed)?;
            collective_launch!(pe, combine<<<3, 96>>>(s, out, &chosen, &weights, &back, &ready, &z, epoch))?;
            let got = z.to_vec()?;
            for (i, &got) in cast_slice::<Bf16x8, bf16>(&got).iter().enumerate() {
                let token = (i / (row * 8)) as u32;
                let expected = (token * TOP..(token + 1) * TOP)
                    .map(|job| (job, choice(s, epoch, pe.id(), job)))
                    .filter(|&(_, expert)| expert != NONE)
                    .fold(0f32, |sum, (job, expert)| {
                        work(expert, input[i]).to_f32().mul_add(weight(pe.id(), job), sum)
                    });
                let expected = bf16::from_f32(expected);
                ensure!(
                    got == expected,
                    "call {epoch}: {i} of {s:?} is {got}, expected {expected}"
                );
            }
        }
        // Many at once, and no combine between: only the turns of the inbox keep these apart.
        let calls = (5..=8).map(|epoch| -> anyhow::Result<_> {
            let (x, chosen) = (pe.buffer::<Bf16x8>(tokens * row)?, pe.buffer::<u32>(jobs)?);
            let (rows, numbers) = (pe.buffer::<Bf16x8>(slots * row)?, pe.buffer::<u32>(slots)?);
            let len = pe.buffer::<u32>(LOCAL as usize)?;
            let input: Vec<bf16> = (0..tokens * row * 8).map(|i| number(epoch, pe.id(), i)).collect();
            x.write(cast_slice(&input))?;
            chosen.write(&all_jobs().map(|job| choice(s, epoch, pe.id(), job)).collect::<Vec<_>>())?;
            Ok((epoch, x, chosen, rows, numbers, len))
        });
        let calls = calls.collect::<anyhow::Result<Vec<_>>>()?;
        for (epoch, x, chosen, rows, numbers, len) in &calls {
            let out = Packed {
                rows: rows.handle(),
                jobs: numbers.handle(),
                len: len.handle(),
            };
            collective_launch!(pe, dispatch<<<3, 96>>>(s, x, chosen, &next, &sent, inbox, out, *epoch))?;
        }
        for (epoch, _, _, rows, numbers, len) in &calls {
            experts(pe, s, *epoch, [numbers, len], rows)?;
        }
        // Nobody frees memory that another PE still writes to.
        Ok(pe.barrier_all()?)
    }

    /// Checks what was packed, and does the experts' work on it.
    fn experts(pe: &Pe, s: Shape, epoch: u64, [jobs, len]: [&Buf<u32>; 2], packed: &Buf<Bf16x8>) -> anyhow::Result<()> {
        let numbers = s.row as usize * 8;
        let each = (pe.n() * s.tokens) as usize;
        let (all, len, mut rows) = (jobs.to_vec()?, len.to_vec()?, packed.to_vec()?);
        let rows: &mut [bf16] = cast_slice_mut(&mut rows);
        for (l, &len) in len.iter().enumerate() {
            let expert = pe.id() * LOCAL + l as u32;
            let expected: Vec<u32> = (0..pe.n() * s.tokens * TOP)
                .filter(|i| choice(s, epoch, i / (s.tokens * TOP), i % (s.tokens * TOP)) == expert)
                .collect();
            let got = &all[l * each..][..len as usize];
            // By PE; one PE's rows come in any order.
            ensure!(
                got.is_sorted_by_key(|i| i / (s.tokens * TOP)),
                "call {epoch}, expert {expert}: {got:?}"
            );
            let mut sorted = got.to_vec();
            sorted.sort_unstable();
            ensure!(
                sorted == expected,
                "call {epoch}, expert {expert}: {sorted:?}, expected {expected:?}"
            );
            for (i, &job) in got.iter().enumerate() {
                let (from, token) = (job / (s.tokens * TOP), job % (s.tokens * TOP) / TOP);
                for (j, y) in rows[(l * each + i) * numbers..][..numbers].iter_mut().enumerate() {
                    let x = number(epoch, from, token as usize * numbers + j);
                    ensure!(
                        *y == x,
                        "call {epoch}, expert {expert}, job {job}: {j} is {y}, expected {x}"
                    );
                    *y = work(expert, x);
                }
            }
        }
        Ok(packed.write(cast_slice(rows))?)
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::{check, check_small};
