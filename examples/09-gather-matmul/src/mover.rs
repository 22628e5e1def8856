//! The communication: a few blocks put this PE's rows to the others, the first columns of all rows first.
//!
//! So a tile of another PE's rows is multiplied while they come, and waits for the last columns alone: no whole tiles are left
//! when everything has come. Lines go through registers, 16 bytes each: over an adapter every one is a work queue entry.
use crate::Job;
use shmem::matrix::PANEL_COLUMNS;
use shmem::matrix::block::{self, Ahead};
use shmem::prelude::*;
use shmem::registers::unroll;
use shmem::vector::Bf16x8;

/// Rows of a strip, whose columns a warp puts one after the other.
pub const ROWS: u32 = 16;
/// Strips of a tile's rows.
const STRIPS: u32 = block::ROWS / ROWS;
/// Columns that are put with one signal.
const COLUMNS: u32 = 512;
/// A signal's value is the launch's number times this and the number of puts.
const PUTS: u64 = 1 << 16;
/// The same in lines of eight numbers, and those that a lane holds of a row.
const LINES: u32 = COLUMNS / 8;
const EACH: usize = LINES as usize / 32;
/// Rows that a warp holds in registers, and how often it does for a strip. With more of them the loop spills, and what is loaded again
/// waits behind all stores.
const HELD: u32 = 8;
const PARTS: u32 = ROWS / HELD;
const WARPS: u32 = block::THREADS / 32;

/// Puts the share of each of this block's warps. Blocks below `job.movers` call it.
#[inline(always)]
pub fn send(job: Job, epoch: u64) {
    let (me, n) = (shmem::my_pe(), shmem::n_pes());
    let (first, warps) = (Block.id() * WARPS + Warp.id(), job.movers * WARPS);
    let (strips, columns, row) = (
        (job.strips() + warps - 1 - first) / warps,
        puts(job),
        u64::from(job.k / 8),
    );
    let (src, dst) = (
        job.a.cast::<Bf16x8>(),
        job.half(epoch).chunk(me, job.a.len()).cast::<Bf16x8>(),
    );
    if strips == 0 {
        return;
    }
    let strip = |i: u32| first + i * warps;
    // First to the PE that multiplies these rows first, and of all strips the first columns first.
    let to = |put: u32| (me + n - 1 - put / columns) % n;
    let signal = |put: u32| {
        Warp.sync();
        if Warp.leader() {
            // Behind all that the warp has put.
            shmem::fence(Thread);
            for i in 0..strips {
                let word = job.ready.at(me * job.strips() + strip(i));
                shmem::relaxed::signal_op(word.set(epoch * PUTS + u64::from(put % columns + 1)), to(put));
            }
        }
    };
    let end = (n - 1) * columns;
    for put in 0..end {
        let (line, to) = (u64::from(put % columns * LINES), to(put));
        let whole = line + u64::from(LINES) <= row;
        for part in 0..strips * PARTS {
            let at = u64::from(strip(part / PARTS) * ROWS + part % PARTS * HELD) * row + line;
            // From the first row's columns to the last one's, in 64 bits: one check, from which the compiler has those of each row.
            let span = at..at + u64::from(HELD - 1) * row + u64::from(LINES);
            let run = |j: usize| j as u64 * row..j as u64 * row + u64::from(LINES);
            let mut lines = [[Bf16x8::zeroed(); EACH]; HELD as usize];
            if whole {
                let src = src.slice(span.clone());
                unroll::<{ HELD as usize }>(|j| lines[j] = shmem::read(Warp, src.slice(run(j))));
            }
            // Those before, while these are on their way.
            if part == 0 && put > 0 {
                signal(put - 1);
            }
            if whole {
                let dst = dst.slice(span);
                unroll::<{ HELD as usize }>(|j| shmem::write_to(Warp, dst.slice(run(j)), lines[j], to));
            } else {
                few(dst, src, at, row, to);
            }
        }
    }
    if end > 0 {
        signal(end - 1);
    }
}

/// The last columns of some rows, from line `at` on, where they are fewer. Apart: its registers would be spilled in the loop of the others.
#[inline(never)]
fn few(dst: SymSlice<Bf16x8>, src: SymSlice<Bf16x8>, at: u64, row: u64, to: u32) {
    for j in 0..u64::from(HELD) {
        let run = at + j * row..(at / row + j + 1) * row;
        shmem::put_nbi(Warp, dst.slice(run.clone()), src.slice(run), to);
    }
}

/// Rows that are multiplied, and how many panels of them are here.
pub struct Arriving {
    /// Their strips' signals.
    words: SymSlice<SignalWord>,
    /// The signals' value ahead of the launch, and puts of a whole row.
    before: u64,
    puts: u32,
    here: u32,
    /// The first panel that is multiplied.
    first: u32,
}

impl Arriving {
    /// Rows that are here.
    #[inline(always)]
    pub fn own(job: Job) -> Self {
        Self {
            words: job.ready.slice(0..0),
            before: 0,
            puts: 0,
            here: u32::MAX,
            first: 0,
        }
    }

    /// A PE's run of rows, from a panel on.
    #[inline(always)]
    pub fn from(job: Job, epoch: u64, pe: u32, run: u32, first: u32) -> Self {
        Self {
            words: job.ready.chunk(pe * job.runs() + run, STRIPS),
            before: epoch * PUTS,
            puts: puts(job),
            here: 0,
            first,
        }
    }
}

impl Ahead for Arriving {
    #[inline(always)]
    fn ahead(&mut self, k: u32) {
        let k = self.first + k;
        if k >= self.here {
            let least = self.before + u64::from(k * PANEL_COLUMNS / COLUMNS + 1);
            // A peer that is ahead may have begun with the next launch already, whose rows are in the other half.
            let mut seen = self.before + u64::from(self.puts);
            if Block.rank() < STRIPS {
                seen = seen.min(shmem::wait_until(Thread, self.words.at(Block.rank()), ge(least)));
            }
            self.here = (Block.min(seen) - self.before) as u32 * (COLUMNS / PANEL_COLUMNS);
        }
    }
}

/// Waits until all rows of all others are here. The block calls it.
#[inline(always)]
pub fn wait_all(job: Job, epoch: u64) {
    let strips = u64::from(job.strips());
    let others = job.ready.except(|i| i / strips == u64::from(shmem::my_pe()));
    shmem::wait_until_all(Block, others, ge(epoch * PUTS + u64::from(puts(job))));
}

/// Puts for a row.
#[inline(always)]
fn puts(job: Job) -> u32 {
    job.k.div_ceil(COLUMNS)
}
