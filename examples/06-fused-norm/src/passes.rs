//! Many tokens: block b of each PE works with block b of every other, as fast as memory allows. No grid syncs.
use crate::{Norm, row};
use shmem::prelude::*;
use shmem::vector::Bf16x8;

/// Threads of a block at most: more would leave each too few registers for the rows under way.
pub const THREADS: usize = 512;

/// The rows of a token that are under way while the one before it is normalised: the residual's and those of two PEs.
type Ahead<const L: usize> = [[Bf16x8; L]; 3];

/// Row t of `part`: 0 is the residual's, 1 + i that of the team's PE i. Beyond the last token and PE it is 0.
#[inline(always)]
fn part<const L: usize>(a: &Norm, t: u32, part: u32) -> [Bf16x8; L] {
    if t >= a.tokens || part > a.team.n_pes() {
        return [Bf16x8::zeroed(); L];
    }
    let (x, residual) = (a.x.chunk(t, a.lines), a.residual.chunk(t, a.lines));
    row::load(a.lines, |i| match part {
        0 => residual.load(i),
        _ => shmem::g(x.at(i), a.team.pe(part - 1)),
    })
}

#[inline(always)]
fn ahead<const L: usize>(a: &Norm, t: u32) -> Ahead<L> {
    [part(a, t, 0), part(a, t, 1), part(a, t, 2)]
}

/// Token t's row of the residual and of every PE, added up.
#[inline(always)]
fn add_up<const L: usize>(a: &Norm, t: u32, [first, second, third]: Ahead<L>) -> [Bf16x8; L] {
    let (mut sum, mut next) = ([[0.0; 8]; L], part(a, t, 3));
    row::add(&mut sum, &first);
    row::add(&mut sum, &second);
    row::add(&mut sum, &third);
    for i in 4..=a.team.n_pes() + 1 {
        let this = next;
        // The next one is under way while this one is added.
        next = part(a, t, i);
        row::add(&mut sum, &this);
    }
    sum.map(Bf16x8::from_f32)
}

/// A thread holds `L` lines of a row. `TWO` false: every PE adds up every token. True: of n tokens each adds up one and puts the sum to
/// all, who normalise it: half of what `residual` and `out` would be on the link.
///
/// Blocks tell each other how far they are. Step 1: `x` may be read, and `residual` written. Then one
/// shot has a step 2: `x` has been read. Two shots have step 2 + r: the sums of round r are there.
/// `steps` counts those of all calls, in memory, so that graphs may be replayed.
#[kernel(collective, max_block = 512, for<false, 2>, for<true, 2>, for<false, 4>, for<true, 4>)]
pub fn by_passes<const TWO: bool, const L: usize>(
    _all: Collective,
    a: Norm,
    told: SymSlice<SignalWord>,
    steps: Global<u64>,
) {
    let (me, n, block) = (a.team.my_pe(), a.team.n_pes(), Block.id());
    let (told, before) = (told.chunk(block, n), steps.load(block));
    let tell = |step: u32| {
        if TWO {
            shmem::quiet(Block);
        } else {
            Block.sync();
        }
        for pe in Block.strided(n) {
            // Behind what the block did, and the step before: all that the fence is for.
            shmem::fence(Thread);
            shmem::relaxed::signal_op(told.at(me).set(before + u64::from(step)), a.team.pe(pe));
        }
    };
    let wait = |step: u32| shmem::wait_until_all(Block, told, ge(before + u64::from(step)));
    tell(1);
    wait(1);
    let (each, own) = if TWO { (n, me) } else { (1, 0) };
    let (mut first, mut step, stride) = (block * each, 1, thread::grid_size() * each);
    let mut rows = ahead(&a, first + own);
    // Two shots have a round more: in each they take what the others made in the one before.
    let end = if TWO { a.tokens + stride } else { a.tokens };
    while first < end {
        let (t, mut sum) = (first + own, [Bf16x8::zeroed(); L]);
        if t < a.tokens {
            sum = add_up(&a, t, rows);
            rows = ahead(&a, t + stride);
            let residual = a.residual.chunk(t, a.lines);
            row::each::<L>(a.lines, |j, i| {
                if TWO {
                    (0..n).for_each(|pe| shmem::p(residual.at(i), sum[j], a.team.pe(pe)));
                } else {
                    residual.store(i, sum[j]);
                }
            });
        }
        if first < a.tokens && (TWO || first + stride >= a.tokens) {
            tell(step + 1);
        }
        if t < a.tokens {
            row::norm(&a, t, &sum, |_, i| a.weight.load(i));
        }
        if TWO && step > 1 {
            wait(step);
            for other in first - stride..(first - stride + n).min(a.tokens) {
                if other != t - stride {
                    let residual = a.residual.chunk(other, a.lines);
                    let sum: [_; L] = row::load(a.lines, |i| residual.load(i));
                    row::norm(&a, other, &sum, |_, i| a.weight.load(i));
                }
            }
        }
        step += u32::from(TWO);
        first += stride;
    }
    let last = if TWO { step - 1 } else { 2 };
    wait(last);
    if Block.leader() {
        steps.store(block, before + u64::from(last));
    }
}
