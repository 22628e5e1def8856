//! The grid as a tile: its barrier, its broadcast, put and world barrier by all blocks, and grids side by side.
use shmem::prelude::*;

/// In each round every thread writes its cell and reads those of another block, through this PE's ordinary memory.
#[kernel(collective)]
pub fn grid_rounds(all: Collective, cells: Global<u32>, rounds: u32, wrong: Global<u32>) {
    let grid = all.grid();
    let (rank, size) = (grid.rank(), grid.size());
    // Another block's, where there is one.
    let other = (rank + thread::block_size()) % size;
    for round in 1..=rounds {
        cells.store(rank, round * 1000 + rank);
        grid.sync();
        if cells.load(other) != round * 1000 + other {
            wrong.store(0, round);
        }
        let said = grid.broadcast(u64::from(round) << 32 | u64::from(rank));
        if said != u64::from(round) << 32 {
            wrong.store(0, round);
        }
        grid.sync();
    }
}

/// put and put_signal by the whole grid, round by round, to the right; ended by barriers of the world that the grid calls.
#[kernel(collective)]
pub fn grid_put(
    all: Collective,
    dst: SymSlice<u16>,
    src: SymSlice<u16>,
    ready: SymSlice<SignalWord>,
    rounds: u32,
    wrong: Global<u32>,
) {
    let (me, n, grid) = (shmem::my_pe(), shmem::n_pes(), all.grid());
    let (right, left) = ((me + 1) % n, (me + n - 1) % n);
    let value = |pe: u32, round: u32, i: u32| (pe * 40_503 + round * 9973 + i) as u16;
    let len = src.len() as u32;
    for round in 1..=rounds {
        for i in grid.strided(len) {
            src.store(i, value(me, round, i));
        }
        grid.sync();
        if round % 2 == 0 {
            shmem::put(grid, dst, src, right);
            all.barrier(grid, shmem::world().slot(1));
        } else {
            shmem::put_signal(grid, dst, src, ready.at(0).set(u64::from(round)), right);
            shmem::wait_until(grid, ready.at(0), ge(u64::from(round)));
        }
        for i in grid.strided(len) {
            if dst.load(i) != value(left, round, i) {
                wrong.store(0, round);
            }
        }
        // Nobody puts again before everybody has looked.
        all.barrier(grid, shmem::world().slot(2));
    }
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::suite::{Case, full_or_little};
    use anyhow::ensure;
    use shmem_host::{Pe, collective_launch};

    pub const CASES: &[Case] = &[
        Case {
            name: "grid: rounds of sync and broadcast",
            run: in_rounds,
        },
        Case {
            name: "grid: put, put_signal and barrier by the whole grid",
            run: putting,
        },
        Case {
            name: "grids side by side on two streams",
            run: side_by_side,
        },
    ];

    fn in_rounds(pe: &Pe) -> anyhow::Result<()> {
        let (cells, wrong) = (pe.buffer::<u32>(8 * 96)?, pe.buffer::<u32>(1)?);
        let shapes = [(1, 32), (2, 64), (5, 96), (8, 33), (3, 1)];
        for &(grid, block) in full_or_little(&shapes[..], &shapes[1..2]) {
            // One after the other on a stream: each leaves the barrier as the next one needs it.
            for rounds in [1, 2, 7] {
                collective_launch!(pe, grid_rounds<<<grid, block>>>(&cells, rounds, &wrong))?;
            }
            ensure!(wrong.read(0)? == 0, "{grid} x {block}: round {}", wrong.read(0)?);
        }
        Ok(())
    }

    fn putting(pe: &Pe) -> anyhow::Result<()> {
        for &len in full_or_little(&[1, 777, 40_000][..], &[777]) {
            let (dst, src) = (pe.alloc::<u16>(len)?, pe.alloc::<u16>(len)?);
            let (ready, wrong) = (pe.signals(1)?, pe.buffer::<u32>(1)?);
            collective_launch!(pe, grid_put<<<4, 64>>>(&dst, &src, &ready, full_or_little(6, 3), &wrong))?;
            ensure!(wrong.read(0)? == 0, "{len} elements: round {}", wrong.read(0)?);
        }
        Ok(())
    }

    fn side_by_side(pe: &Pe) -> anyhow::Result<()> {
        let streams = [pe.new_stream()?, pe.new_stream()?];
        let cells = [pe.buffer::<u32>(4 * 64)?, pe.buffer::<u32>(3 * 32)?];
        let wrong = [pe.buffer::<u32>(1)?, pe.buffer::<u32>(1)?];
        for _ in 0..full_or_little(4, 2) {
            collective_launch!(pe, grid_rounds<<<4, 64, 0, &streams[0]>>>(&cells[0], full_or_little(20, 4), &wrong[0]))?;
            collective_launch!(pe, grid_rounds<<<3, 32, 0, &streams[1]>>>(&cells[1], full_or_little(20, 4), &wrong[1]))?;
        }
        for (stream, wrong) in streams.iter().zip(&wrong) {
            stream.synchronize()?;
            ensure!(wrong.read(0)? == 0, "round {}", wrong.read(0)?);
        }
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
