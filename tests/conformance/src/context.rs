//! Contexts: operations, fences and quiets in them, from one thread, a block and a grid; batches.
use shmem::prelude::*;
use shmem::{BlockShared, CtxSet, GridShared, Private};

/// The contexts of a kernel, as a struct of arguments.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Contexts {
    threads: CtxSet<Private>,
    blocks: CtxSet<BlockShared>,
    grid: CtxSet<GridShared>,
}

/// Each block puts a chunk in its context, each thread one word in its own, the grid the rest; each orders its own.
#[kernel(collective)]
pub fn in_contexts(
    all: Collective,
    ctx: Contexts,
    dst: SymSlice<u32>,
    src: SymSlice<u32>,
    there: SymSlice<CounterWord>,
    got: Global<u32>,
) {
    let (me, n, t) = (shmem::my_pe(), shmem::n_pes(), thread::index());
    let (right, grid, team) = ((me + 1) % n, all.grid(), shmem::world());
    let (b, size) = (Block.id(), thread::block_size());
    let own = ctx.blocks.get(b);
    // A block's part: a chunk by all of it, then one word by each thread.
    let (row, from) = (dst.chunk(b, 2 * size), src.chunk(b, 2 * size));
    from.store(t, me * 1000 + b * 100 + t);
    Block.sync();
    shmem::put_nbi(Block, row.chunk(0, size), from.chunk(0, size), own.to(right));
    own.flush(Block);
    own.fence(Block);
    let mine = ctx.threads.get(grid.rank());
    shmem::p(row.at(size + t), me * 1000 + b * 100 + t + 50, mine.to(team.pe(right)));
    mine.fence(Thread);
    shmem::signal_op(there.at(0).add(1), mine.to(right));
    mine.quiet(Thread);
    shmem::wait_until(Block, there.at(0), ge(u64::from(grid.size())));
    own.quiet(Block);
    ctx.grid.get(0).quiet(grid);
    all.barrier(grid, team);
    for i in grid.strided(dst.len() as u32) {
        got.store(i, dst.load(i));
    }
    // Nobody's row is put to again while it is read.
    all.sync(grid, team);
}

/// Each thread puts its own array in batches, with a flush between and a quiet at the end.
#[kernel(collective)]
pub fn batches(all: Collective, dst: SymSlice<u32>, rounds: u32, got: Global<u32>) {
    let (me, n, t) = (shmem::my_pe(), shmem::n_pes(), thread::index());
    let right = (me + 1) % n;
    let rows = dst.chunk(t, rounds * 3);
    let mut row = [0; 3];
    for round in 0..rounds {
        row[0] = me;
        row[1] = t * 100 + round;
        row[2] = 7;
        let batch = shmem::batch(Thread);
        batch.put(rows.chunk(round, 3), &row, right);
        let _ = batch.flush();
    }
    // Row 0 is put once more, behind the first time.
    shmem::fence(Thread);
    let batch = shmem::batch(Thread);
    batch.put(rows.chunk(0, 3), &row, shmem::world().pe(right));
    let batch = batch.flush();
    row[0] += 40;
    shmem::fence(Thread);
    batch.put(rows.chunk(0, 3), &row, right);
    batch.quiet();
    all.barrier(Block, shmem::world());
    for i in Block.strided(dst.len() as u32) {
        got.store(i, dst.load(i));
    }
    all.sync(Block, shmem::world());
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::suite::Case;
    use anyhow::ensure;
    use shmem_host::{Pe, collective_launch};

    pub const CASES: &[Case] = &[
        Case {
            name: "contexts of threads, blocks and the grid",
            run: contexts,
        },
        Case {
            name: "batches of a thread's own arrays",
            run: batching,
        },
    ];

    fn contexts(pe: &Pe) -> anyhow::Result<()> {
        let (grid, block) = (2, 64);
        let len = 2 * (grid * block) as usize;
        let (dst, src, there) = (pe.alloc::<u32>(len)?, pe.alloc::<u32>(len)?, pe.counters(1)?);
        let got = pe.buffer::<u32>(len)?;
        let (threads, blocks, whole) = (pe.contexts(grid * block)?, pe.contexts(grid)?, pe.contexts(1)?);
        let ctx = Contexts {
            threads: threads.handle(),
            blocks: blocks.handle(),
            grid: whole.handle(),
        };
        collective_launch!(pe, in_contexts<<<grid, block>>>(ctx, &dst, &src, &there, &got))?;
        let left = (pe.id() + pe.n() - 1) % pe.n();
        for (i, got) in (0..).zip(got.to_vec()?) {
            let (b, j) = (i / 128, i % 128);
            let expected = left * 1000 + b * 100 + if j < 64 { j } else { j - 64 + 50 };
            ensure!(got == expected, "element {i}: {got}, expected {expected}");
        }
        Ok(())
    }

    fn batching(pe: &Pe) -> anyhow::Result<()> {
        let (dst, got) = (pe.alloc::<u32>(48 * 15)?, pe.buffer::<u32>(48 * 15)?);
        collective_launch!(pe, batches<<<1, 48>>>(&dst, 5, &got))?;
        let left = (pe.id() + pe.n() - 1) % pe.n();
        for (i, got) in got.to_vec()?.chunks(3).enumerate() {
            let (t, round) = (i as u32 / 5, i as u32 % 5);
            let expected = match round {
                0 => [left + 40, t * 100 + 4, 7],
                _ => [left, t * 100 + round, 7],
            };
            ensure!(
                got == expected,
                "thread {t}, round {round}: {got:?}, expected {expected:?}"
            );
        }
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
