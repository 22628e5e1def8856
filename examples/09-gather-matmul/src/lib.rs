//! All-gather and matrix multiplication in one kernel: C = A * B^T, where every PE has some rows of A, and a B and C of its own.
pub mod multiply;
#[cfg(not(target_arch = "nvptx64"))]
pub mod problem;
use multiply::Rows;
pub use multiply::{THREADS, TILE_COLUMNS, TILE_ROWS};
use shmem::bulk::Engine;
use shmem::prelude::*;
use shmem::scope::Gpu;

/// What a launch works on. Row-major, of multiples of [`TILE_ROWS`] rows, [`TILE_COLUMNS`] columns of C, and 64 columns of A.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Job {
    /// This PE's rows of A.
    pub a: SymSlice<bf16>,
    /// Every PE's rows, twice: launches use the halves by turns.
    pub gathered: SymSlice<bf16>,
    /// One for each PE and [`TILE_ROWS`] of its rows, set to the launch's epoch when they are here.
    pub ready: SymSlice<SignalWord>,
    /// N rows of K, as weights are stored.
    pub b: Global<bf16>,
    /// All PEs' rows by N.
    pub c: Global<bf16>,
    /// [`WORK`] words that only these kernels write, zero before the first launch.
    pub work: Global<u32>,
    /// Columns of A and B.
    pub k: u32,
    /// Blocks that begin with sending this PE's rows, at least one.
    pub movers: u32,
}

/// Words of [`Job::work`]: the next tile, blocks that are done, launches that are done.
pub const WORK: usize = 3;
const NEXT: u32 = 0;
const DONE: u32 = 1;
const EPOCH: u32 = 2;

/// A few blocks send this PE's rows to the others, each run of rows with a signal; all blocks multiply, this PE's own rows first.
#[kernel(collective, block = 256)]
pub fn gather_matmul(_all: Collective, job: Job) {
    let epoch = job.epoch();
    if Block.id() < job.movers {
        job.send(epoch);
    }
    let (me, n) = (shmem::my_pe(), shmem::n_pes());
    job.tiles(n, |shard, row| {
        let pe = (me + shard) % n;
        if pe == me {
            return job.rows(job.a, row);
        }
        // A peer that is ahead may have set the next epoch already, whose rows are in the other half.
        shmem::wait_until(Block, job.ready.at(pe * job.runs() + row), ge(epoch));
        job.rows(job.half(epoch).chunk(pe, job.a.len()), row)
    });
    job.finish(epoch);
}

/// The multiplication alone, of rows that all are in `a`.
#[kernel(collective, block = 256)]
pub fn matmul(_all: Collective, job: Job) {
    let epoch = job.epoch();
    job.tiles(1, |_, row| job.rows(job.a, row));
    job.finish(epoch);
}

/// The communication alone.
#[kernel(collective, block = 256)]
pub fn gather(_all: Collective, job: Job) {
    let (epoch, me, runs) = (job.epoch(), shmem::my_pe(), job.runs());
    if Block.id() < job.movers {
        job.send(epoch);
    }
    for i in (Block.id()..shmem::n_pes() * runs).step_by(thread::grid_size() as usize) {
        if i / runs != me {
            shmem::wait_until(Block, job.ready.at(i), ge(epoch));
        }
    }
    job.finish(epoch);
}

impl Job {
    /// Runs of [`TILE_ROWS`] rows that each PE has.
    #[inline(always)]
    fn runs(self) -> u32 {
        (self.a.len() / u64::from(TILE_ROWS * self.k)) as u32
    }

    /// The half of the gathered rows that this launch uses. Who sends for the launch after the next one has received all
    /// that this PE sends for the next, and so this PE is done with this one.
    #[inline(always)]
    fn half(self, epoch: u64) -> SymSlice<bf16> {
        self.gathered.chunk(epoch % 2, self.gathered.len() / 2)
    }

    #[inline(always)]
    fn rows(self, of: SymSlice<bf16>, run: u32) -> Rows<TILE_ROWS> {
        Rows::new(of.chunk(run, TILE_ROWS * self.k).cast(), self.k)
    }

    /// Numbers the launches, from 1.
    #[inline(always)]
    fn epoch(self) -> u64 {
        let epoch = if Block.leader() { self.work.word::<Gpu>(EPOCH).load() } else { 0 };
        Block.broadcast(u64::from(epoch) + 1)
    }

    /// Puts this PE's rows, first to the one whose turn they are first. The movers share the runs out.
    #[inline(always)]
    fn send(self, epoch: u64) {
        let (me, n, runs) = (shmem::my_pe(), shmem::n_pes(), self.runs());
        let dst = self.half(epoch).chunk(me, self.a.len());
        let mut engine = Engine::new(Block, shmem::shared::dynamic::<u8>());
        for i in (Block.id()..(n - 1) * runs).step_by(self.movers as usize) {
            let (to, run) = ((me + n - 1 - i / runs) % n, i % runs);
            let of = |all: SymSlice<bf16>| all.chunk(run, TILE_ROWS * self.k);
            engine.put_signal(of(dst), of(self.a), self.ready.at(me * runs + run).set(epoch), to);
        }
    }

    /// Multiplies tile after tile, each block whichever comes next: all of one shard's before those of the following one.
    #[inline(always)]
    fn tiles(self, shards: u32, rows: impl Fn(u32, u32) -> Rows<TILE_ROWS>) {
        let (runs, n) = (self.runs(), (self.b.len() / u64::from(self.k)) as u32);
        let columns = n / TILE_COLUMNS;
        let next = || {
            let tile = if Block.leader() { self.work.word::<Gpu>(NEXT).fetch_add(1) } else { 0 };
            Block.broadcast(tile.into()) as u32
        };
        let mut tile = next();
        while tile < shards * runs * columns {
            let (shard, (row, column)) = (tile / (runs * columns), place(tile % (runs * columns), runs, columns));
            let b = Rows::new(self.b.chunk(column, TILE_COLUMNS * self.k).cast(), self.k);
            let c = self.c.chunk(shard_of(shard, shards) * runs + row, TILE_ROWS * n);
            multiply::tile(rows(shard, row), b, c.cast(), n, column);
            tile = next();
        }
    }

    /// The block that is done last makes the words ready for the next launch.
    #[inline(always)]
    fn finish(self, epoch: u64) {
        let word = |i: u32| self.work.word::<Gpu>(i);
        if Block.leader() && word(DONE).fetch_add_acqrel(1) + 1 == thread::grid_size() {
            word(NEXT).store(0);
            word(DONE).store(0);
            word(EPOCH).store(epoch as u32);
        }
    }
}

/// The shard that is multiplied as the i-th: those of the PEs from this one on.
#[inline(always)]
fn shard_of(i: u32, shards: u32) -> u32 {
    if shards == 1 { 0 } else { (shmem::my_pe() + i) % shards }
}

/// Row and column of a shard's i-th tile: column by column of some rows at a time, so that what blocks read at the same
/// time is in the L2 cache for most of them.
#[inline(always)]
fn place(i: u32, rows: u32, columns: u32) -> (u32, u32) {
    const GROUP: u32 = 16;
    let (first, i) = (i / (GROUP * columns) * GROUP, i % (GROUP * columns));
    let height = GROUP.min(rows - first);
    (first + i % height, i / height)
}
