//! Many tokens: block b of each PE works with block b of every other, as fast as memory allows. No grid syncs.
use crate::{Norm, row};
use shmem::prelude::*;
use shmem::vector::Bf16x8;

/// Lines that a thread holds.
pub const LINES: usize = 2;

/// Token t's row of the residual and of every PE, added up.
#[inline(always)]
fn add_up(a: &Norm, t: u32) -> [Bf16x8; LINES] {
    let (x, residual) = (a.x.chunk(t, a.lines), a.residual.chunk(t, a.lines));
    let (mut sum, mut next) = ([[0.0; 8]; LINES], row::load(a.lines, |i| residual.load(i)));
    for pe in 0..=a.team.n_pes() {
        let part = next;
        // The next one is under way while this one is added.
        if pe < a.team.n_pes() {
            next = row::load(a.lines, |i| shmem::g(x.at(i), a.team.pe(pe)));
        }
        row::add(&mut sum, &part);
    }
    sum.map(Bf16x8::from_f32)
}

/// `TWO` false: every PE adds up every token. True: of n tokens each adds up one and puts the sum to
/// all, who normalise it: half of what `residual` and `out` would be on the link.
///
/// Blocks tell each other how far they are. Step 1: `x` may be read, and `residual` written. Then one
/// shot has a step 2: `x` has been read. Two shots have step 2 + r: the sums of round r are there.
/// `steps` counts those of all calls, in memory, so that graphs may be replayed.
#[kernel(collective, max_block = 1024, for<false>, for<true>)]
pub fn by_passes<const TWO: bool>(_all: Collective, a: Norm, told: SymSlice<SignalWord>, steps: Global<u64>) {
    let (me, n, block) = (a.team.my_pe(), a.team.n_pes(), Block.id());
    let (told, before) = (told.chunk(block, n), steps.load(block));
    let tell = |step: u32| {
        // One shot's threads have met in the sum of the last row, behind their reads.
        if TWO {
            shmem::quiet(Block);
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
    // Two shots have a round more: in each they take what the others made in the one before.
    let end = if TWO { a.tokens + stride } else { a.tokens };
    while first < end {
        let (t, mut sum) = (first + own, [Bf16x8::zeroed(); LINES]);
        if t < a.tokens {
            sum = add_up(&a, t);
            let residual = a.residual.chunk(t, a.lines);
            row::each::<LINES>(a.lines, |j, i| {
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
                    let sum: [_; LINES] = row::load(a.lines, |i| residual.load(i));
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
