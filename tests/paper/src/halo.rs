//! Jacobi iteration in two dimensions, rows split among PEs: the block that computes part of a boundary row puts it.
use shmem::prelude::*;

/// Columns that a block computes.
pub const WIDTH: u32 = 64;

/// One iteration from `u` to `v`: `rows` own rows of `nx` numbers, and above and below them one of the neighbours'. The
/// grid is `(nx / WIDTH, rows)`; the first and the last column stay as they are, and the rows of all PEs form a ring.
///
/// `halo` counts the parts of rows that have come from above and from below, in all iterations.
#[kernel(collective, block = 64)]
pub fn jacobi(
    _all: Collective,
    u: SymSlice<f32>,
    v: SymSlice<f32>,
    nx: u32,
    halo: SymSlice<CounterWord>,
    iteration: u64,
) {
    let (me, n) = (shmem::my_pe(), shmem::n_pes());
    let (above, below) = ((me + n - 1) % n, (me + 1) % n);
    let (tile, tiles) = (thread::block_idx_x(), thread::grid_dim_x());
    let (y, rows) = (thread::block_idx_y() + 1, thread::grid_dim_y());
    let (from_above, from_below) = (halo.at(0), halo.at(1));
    let arrived = iteration * u64::from(tiles);
    if y == 1 {
        shmem::wait_until(Block, from_above, ge(arrived));
    }
    if y == rows {
        shmem::wait_until(Block, from_below, ge(arrived));
    }

    let x = tile * WIDTH + thread::index();
    let (up, row, down) = (u.chunk(y - 1, nx), u.chunk(y, nx), u.chunk(y + 1, nx));
    if x > 0 && x + 1 < nx {
        let sum = row.load(x - 1) + row.load(x + 1) + up.load(x) + down.load(x);
        v.chunk(y, nx).store(x, 0.25 * sum);
    }

    // A neighbour's next iteration waits for all our parts, so that it overwrites nothing that we still read.
    let part = |y: u32| v.chunk(y, nx).chunk(tile, WIDTH);
    Block.sync();
    if y == 1 {
        shmem::put_signal(Block, part(rows + 1), part(y), from_below.add(1), above);
    }
    if y == rows {
        shmem::put_signal(Block, part(0), part(y), from_above.add(1), below);
    }
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::numbers::small;
    use anyhow::ensure;
    use shmem_host::{Pe, collective_launch};

    /// Some iterations; PEs with one row and with several.
    pub fn check(pe: &Pe) -> anyhow::Result<()> {
        check_rows(pe, 1, 6)?;
        check_rows(pe, 3, 6)
    }

    /// Little data, for runs of many seeds.
    pub fn check_small(pe: &Pe) -> anyhow::Result<()> {
        check_rows(pe, 1, 4)
    }

    fn check_rows(pe: &Pe, rows: usize, iterations: u64) -> anyhow::Result<()> {
        const NX: usize = 2 * WIDTH as usize;
        let all = pe.n() as usize * rows;
        let mut expected: Vec<Vec<f32>> = (0..all)
            .map(|y| (0..NX).map(|x| small(7, y as u32, x)).collect())
            .collect();
        let first = pe.id() as usize * rows;
        // Our rows, and those around them.
        let own: Vec<f32> = (0..rows + 2)
            .flat_map(|y| expected[(first + y + all - 1) % all].clone())
            .collect();
        let (mut u, mut v) = (pe.alloc::<f32>(own.len())?, pe.alloc::<f32>(own.len())?);
        let halo = pe.counters(2)?;
        u.write(&own)?;
        v.write(&own)?;
        pe.barrier_all()?;
        for iteration in 0..iterations {
            let grid = (NX as u32 / WIDTH, rows as u32);
            collective_launch!(pe, jacobi<<<grid, 64>>>(&u, &v, NX as u32, &halo, iteration))?;
            std::mem::swap(&mut u, &mut v);
            expected = step(&expected);
        }
        // Neighbours may not have put what is around our rows in the last iteration.
        let mut got = vec![0.0; rows * NX];
        u.read_into(NX, &mut got)?;
        for (y, row) in got.chunks(NX).enumerate() {
            ensure!(
                row == expected[first + y],
                "{rows} rows per PE, row {y}: {row:?}, expected {:?}",
                expected[first + y]
            );
        }
        Ok(pe.barrier_all()?)
    }

    fn step(u: &[Vec<f32>]) -> Vec<Vec<f32>> {
        let n = u.len();
        let mut v = u.to_vec();
        for y in 0..n {
            let (up, row, down) = (&u[(y + n - 1) % n], &u[y], &u[(y + 1) % n]);
            for x in 1..row.len() - 1 {
                v[y][x] = 0.25 * (row[x - 1] + row[x + 1] + up[x] + down[x]);
            }
        }
        v
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::{check, check_small};
