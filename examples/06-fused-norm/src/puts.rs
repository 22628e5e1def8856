//! Many tokens among few PEs: block b of each PE puts its row to block b of every other while the one before is added up and
//! normalised, so that the link has work all the time. No meeting: nobody reads another's `x`.
use crate::{Norm, row};
use shmem::prelude::*;
use shmem::vector::Bf16x8;

/// Lines that a thread holds.
pub const LINES: usize = 2;
/// The most PEs: each takes in n - 1 rows for each token, and has places for them.
pub const PES: u32 = 4;
/// Places for a block's rows of one sender: see the rule below.
pub const SLOTS: u32 = 4;

/// `inbox`: `[block][slot][sender][line]`. `told`: `[block][sender]`, the last row that has come from there. `steps` counts each
/// block's rows over all calls, in memory, so that graphs may be replayed.
///
/// For row r a block puts row r + 1, waits for row r of every other, tells them of its row r + 1, and then reads row r. So whoever
/// is told of row j knows that its sender has read the rows up to j - 2. Row k is put by who has been told of row k - 2: the rows
/// up to k - 4 have been read, and their slots may be written again. Calls of any number of tokens go on with the numbers; those
/// by passes count theirs in between, and end when everyone has been told of the last.
#[kernel(collective, max_block = 1024)]
pub fn by_puts(_all: Collective, a: Norm, inbox: SymSlice<Bf16x8>, told: SymSlice<SignalWord>, steps: Global<u64>) {
    let (me, n, block) = (a.team.my_pe(), a.team.n_pes(), Block.id());
    let (told, before) = (told.chunk(block, n), steps.load(block));
    let inbox = inbox.chunk(block, SLOTS * n * a.lines);
    // Numbers within this call: one of 64 bits would cost registers.
    let slot = |r: u32, from: u32| inbox.chunk((before as u32 + r) % SLOTS * n + from, a.lines);
    let number = |r: u32| before + u64::from(r);
    let put = |t: u32, r: u32| {
        let x = a.x.chunk(t, a.lines);
        let own: [_; LINES] = row::load(a.lines, |i| x.load(i));
        for k in 1..n {
            let (slot, pe) = (slot(r, me), a.team.pe((me + k) % n));
            row::each::<LINES>(a.lines, |j, i| shmem::p(slot.at(i), own[j], pe));
        }
    };
    // The block has met since it put the row.
    let tell = |r: u32| {
        for pe in Block.strided(n) {
            shmem::fence(Thread);
            shmem::relaxed::signal_op(told.at(me).set(number(r)), a.team.pe(pe));
        }
    };
    let (mut t, mut r) = (block, 1);
    put(t, r);
    Block.sync();
    tell(r);
    while t < a.tokens {
        let (next, residual) = (t + thread::grid_size(), a.residual.chunk(t, a.lines));
        if next < a.tokens {
            put(next, r + 1);
        }
        let rest = row::load(a.lines, |i| residual.load(i));
        shmem::wait_until_all(Block, told, ge(number(r)));
        if next < a.tokens {
            tell(r + 1);
        }
        let (x, mut sum) = (a.x.chunk(t, a.lines), [[0.0; 8]; LINES]);
        row::add(&mut sum, &rest);
        for pe in 0..n {
            let from = if pe == me { x } else { slot(r, pe) };
            row::add(&mut sum, &row::load(a.lines, |i| from.load(i)));
        }
        let sum = sum.map(Bf16x8::from_f32);
        row::each::<LINES>(a.lines, |j, i| residual.store(i, sum[j]));
        row::norm(&a, t, &sum, |_, i| a.weight.load(i));
        (t, r) = (next, r + 1);
    }
    if Block.leader() {
        steps.store(block, number(r - 1));
    }
}
