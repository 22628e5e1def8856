//! All-gather and matrix multiplication in one kernel: C = A * B^T, where every PE has some rows of A, and a B and C of its own.
//!
//! | file | |
//! |---|---|
//! | [`mover`] | the communication |
//! | [`split`] | the last tiles |
//! | here | tiles of C, and the kernels |
pub mod mover;
#[cfg(not(target_arch = "nvptx64"))]
pub mod problem;
pub mod split;

use mover::Arriving;
use shmem::matrix::{PANEL_COLUMNS, Strip, block};
use shmem::prelude::*;
use shmem::scope::Gpu;
use shmem::vector::{Bf16x2, F32x4};
use split::Split;

/// What a launch works on. Row-major; of each PE's rows, B's rows and k multiples of 128, 256 and 64.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Job {
    /// This PE's rows of A.
    pub a: SymSlice<bf16>,
    /// Every PE's rows, twice: launches use the halves by turns.
    pub gathered: SymSlice<bf16>,
    /// One for each PE and strip of its rows: the launch's epoch, and how many of the columns are here.
    pub ready: SymSlice<SignalWord>,
    /// Rows of k, as weights are stored.
    pub b: Global<bf16>,
    /// All PEs' rows, of as many columns as B has rows.
    pub c: Global<bf16>,
    /// [`WORK`] words that only these kernels write, zero before the first launch.
    pub work: Global<u32>,
    /// [`split::LINES`] that only these kernels use.
    pub parts: Global<F32x4>,
    /// Columns of A and B.
    pub k: u32,
    /// Blocks that begin with sending this PE's rows, at least one.
    pub movers: u32,
}

/// Words of [`Job::work`]: the next tile, blocks that are done, launches that communicated; of each tile that is split, how many of its
/// parts are made.
pub const WORK: usize = (SPLIT + split::TILES) as usize;
const NEXT: u32 = 0;
const DONE: u32 = 1;
const EPOCH: u32 = 2;
const SPLIT: u32 = 3;

/// A few blocks send this PE's rows; then all blocks multiply, this PE's own rows first.
#[kernel(collective, block = 256)]
pub fn gather_matmul(_all: Collective, job: Job) {
    let (epoch, me, n) = (job.epoch(), shmem::my_pe(), shmem::n_pes());
    if Block.id() < job.movers {
        mover::send(job, epoch);
    }
    let senders = if n > 1 { job.movers } else { 0 };
    job.tiles(me, n, epoch, thread::grid_size() - senders);
    job.finish(epoch);
}

/// The multiplication alone, of rows that all are in `a`.
#[kernel(collective, block = 256)]
pub fn matmul(_all: Collective, job: Job) {
    // It waits for nobody, and so is none of the launches that the halves' rule counts.
    let before = job.epoch() - 1;
    job.tiles(0, 1, before, thread::grid_size());
    job.finish(before);
}

/// The communication alone.
#[kernel(collective, block = 256)]
pub fn gather(_all: Collective, job: Job) {
    let epoch = job.epoch();
    mover::send(job, epoch);
    if Block.id() == 0 {
        mover::wait_all(job, epoch);
    }
    job.finish(epoch);
}

impl Job {
    /// Runs of rows that each PE has: a tile's.
    #[inline(always)]
    fn runs(self) -> u32 {
        (self.a.len() / u64::from(block::ROWS * self.k)) as u32
    }

    /// Strips of them, which come apart.
    #[inline(always)]
    fn strips(self) -> u32 {
        self.runs() * (block::ROWS / mover::ROWS)
    }

    /// The half of the gathered rows that this launch uses. Who sends for the launch after the next one has received all
    /// that this PE sends for the next, and so this PE is done with this one.
    #[inline(always)]
    fn half(self, epoch: u64) -> SymSlice<bf16> {
        self.gathered.chunk(epoch % 2, self.gathered.len() / 2)
    }

    /// Numbers the launches, from 1.
    #[inline(always)]
    fn epoch(self) -> u64 {
        let done = if Block.leader() {
            self.work.word::<Gpu>(EPOCH).load()
        } else {
            0
        };
        Block.broadcast(u64::from(done) + 1)
    }

    /// Multiplies tile after tile, each block whichever comes next, one PE's rows after the other, of `n` from `me` on. The
    /// first are in `a`, the others come by the movers. `blocks` begin with it, the movers come later.
    #[inline(always)]
    fn tiles(self, me: u32, n: u32, epoch: u64, blocks: u32) {
        let (runs, width) = (self.runs(), (self.b.len() / u64::from(self.k)) as u32);
        let (columns, panels) = (width / block::COLUMNS, self.k / PANEL_COLUMNS);
        let split = Split::new(self, n * runs * columns, blocks);
        loop {
            let next = if Block.leader() {
                self.work.word::<Gpu>(NEXT).fetch_add(1)
            } else {
                0
            };
            let Some((tile, part)) = split.item(Block.broadcast(next.into()) as u32) else {
                return;
            };
            let (shard, tile) = (tile / (runs * columns), tile % (runs * columns));
            let (pe, (run, column)) = ((me + shard) % n, place(tile, runs, columns));
            let panels = part.map_or(0..panels, |part| part.panels(panels));
            let (rows, mut arriving) = if shard == 0 {
                (self.a, Arriving::own(self))
            } else {
                let rows = self.half(epoch).chunk(pe, self.a.len());
                (rows, Arriving::from(self, epoch, pe, run, panels.start))
            };
            let a = Strip::<Bf16x2, { block::ROWS }>::new(rows.chunk(run, block::ROWS * self.k).cast(), self.k);
            let b = Strip::new(self.b.chunk(column, block::COLUMNS * self.k).cast(), self.k);
            let (a, b) = (a.part(panels.clone()), b.part(panels));
            let (c, column) = (
                self.c.chunk(pe * runs + run, block::ROWS * width),
                column * block::COLUMNS,
            );
            let product = block::multiply_with(a, b, shmem::shared::dynamic(), &mut arriving);
            match part {
                None => split::store(product, c, width, column),
                Some(part) => part.add_up(self, product, c, width, column),
            }
        }
    }

    /// The block that is done last makes the words ready for the next launch.
    #[inline(always)]
    fn finish(self, epoch: u64) {
        let word = |i: u32| self.work.word::<Gpu>(i);
        if Block.leader() && word(DONE).fetch_add_acqrel(1) + 1 == thread::grid_size() {
            word(NEXT).store(0);
            word(DONE).store(0);
            for i in 0..split::TILES {
                word(SPLIT + i).store(0);
            }
            word(EPOCH).store(epoch as u32);
        }
    }
}

/// Run and column of a shard's i-th tile: some runs at a time, column by column, so that most of what the blocks read at one
/// time is in the L2 cache.
#[inline(always)]
fn place(i: u32, runs: u32, columns: u32) -> (u32, u32) {
    const GROUP: u32 = 16;
    let (first, i) = (i / (GROUP * columns) * GROUP, i % (GROUP * columns));
    let height = GROUP.min(runs - first);
    (first + i % height, i / height)
}
