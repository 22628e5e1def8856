//! Many tokens: block b of each PE works with block b of every other, as fast as memory allows. No grid syncs.
use crate::row::{self, Norm};
use shmem::prelude::*;
use shmem::vector::Bf16x8;

/// Lines that a thread holds.
pub const LINES: usize = 2;
type Row = [Bf16x8; LINES];

/// Token t's row of the residual and of every PE, added up.
#[inline(always)]
fn add_up(a: &Norm, t: u32) -> Row {
    let (x, residual, n) = (a.x.chunk(t, a.lines), a.residual.chunk(t, a.lines), a.team.n_pes());
    let (mut sum, mut next): (_, Row) = ([[0f32; 8]; LINES], row::load(a.lines, |i| residual.load(i)));
    for pe in 0..=n {
        let part = next;
        // The next one is under way while this one is added.
        if pe < n {
            next = row::load(a.lines, |i| shmem::g(x.at(i), a.team.pe(pe)));
        }
        row::add(&mut sum, &part);
    }
    sum.map(Bf16x8::from_f32)
}

/// `TWO` false: every PE adds up every token. True: of n tokens each adds up one and puts the sum to all, who normalise it;
/// that is half of what `residual` and `out` would be on the link.
///
/// Blocks tell each other how far they are. Step 1: `x` may be read, and `residual` written. Then one shot has a step 2: `x` has
/// been read. Two shots have step 2 + r: the sums of round r are there. `steps`: those of all calls before, in memory, so that
/// graphs may be replayed.
#[kernel(collective, max_block = 1024, for<false>, for<true>)]
pub fn by_passes<const TWO: bool>(_all: Collective, a: Norm, told: SymSlice<SignalWord>, steps: Global<u64>) {
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
    // What the others have added up for tokens from `first` on.
    let take = |first: u32| {
        for k in 1..n {
            let t = first + if me + k < n { me + k } else { me + k - n };
            if t < a.tokens {
                let residual = a.residual.chunk(t, a.lines);
                let sum: Row = row::load(a.lines, |i| residual.load(i));
                row::norm(&a, t, &sum);
            }
        }
    };
    let (each, own) = if TWO { (n, me) } else { (1, 0) };
    let (mut first, mut step, stride) = (block * each, 1, thread::grid_size() * each);
    while first < a.tokens {
        let (t, mut sum) = (first + own, [Bf16x8::zeroed(); LINES]);
        if t < a.tokens {
            sum = add_up(&a, t);
            let residual = a.residual.chunk(t, a.lines);
            row::each::<LINES>(a.lines, |j, i| {
                if TWO {
                    for pe in 0..n {
                        shmem::p(residual.at(i), sum[j], a.team.pe(pe));
                    }
                } else {
                    residual.store(i, sum[j]);
                }
            });
        }
        if TWO || first + stride >= a.tokens {
            step += 1;
            tell(step);
        }
        if t < a.tokens {
            row::norm(&a, t, &sum);
        }
        if TWO && step > 2 {
            // They have had a round to come.
            wait(step - 1);
            take(first - stride);
        }
        first += stride;
    }
    wait(step);
    if TWO {
        take(first - stride);
    }
    if Block.leader() {
        steps.store(block, before + u64::from(step));
    }
}
