//! Tensor cores: where each lane's elements are, by ldmatrix with and without a transposition, and out of swizzled panels; a
//! block's tile.
use shmem::async_copy::{commit, wait_group};
use shmem::matrix::{self, Halves, Panel, Strip, block};
use shmem::prelude::*;
use shmem::vector::{Bf16x2, F16x2};

/// The first warp: 16 rows of x times 16 rows of y, which have 64 elements each. The second: the first 16 columns of x times z, 16
/// rows of 8 elements.
#[kernel(block = 64, for<Bf16x2>, for<F16x2>)]
pub fn products<T: Operand>(x: SymSlice<T>, y: Global<T>, z: Global<T>, by_panels: Global<f32>, by_lines: Global<f32>) {
    shared!(memory: [u128; 2 * 128 + 32 + 16]);
    let lines = memory.cast::<T::Line>();
    let lane = warp::lane_id();
    if Warp.id() == 0 {
        let (a, b) = (
            Panel::<T, 16>::new(lines.chunk(0, 128)),
            Panel::<T, 16>::new(lines.chunk(1, 128)),
        );
        a.copy_async::<32, _>(Warp, Strip::new(x.cast(), 64), 0);
        b.copy_async::<32, _>(Warp, Strip::new(y.cast(), 64), 0);
        commit();
        wait_group::<0>();
        Warp.sync();
        let mut c = [[0.0; 4]; 2];
        for k in 0..4 {
            let (a, [b0, b1]) = (a.a(0, k), b.b(0, k));
            c = [matrix::mma(a, b0, c[0]), matrix::mma(a, b1, c[1])];
        }
        store(by_panels, 16, 0, c[0]);
        store(by_panels, 16, 8, c[1]);
    } else {
        let (a, b) = (lines.slice(256..288), lines.slice(288..304));
        // Row r and half h of it at 2r + h.
        a.store(lane, x.cast::<T::Line>().load(lane / 2 * 8 + lane % 2));
        if lane < 16 {
            b.store(lane, z.cast::<T::Line>().load(lane));
        }
        Warp.sync();
        let all: [T; 4] = matrix::ldmatrix(a, lane % 16 * 2 + lane / 16);
        // The same in two calls.
        let left: [T; 2] = matrix::ldmatrix(a, lane % 16 * 2);
        let same = bytemuck_eq(left[0], all[0]) && bytemuck_eq(left[1], all[1]);
        let columns: [T; 2] = matrix::ldmatrix_trans(b, lane % 16);
        let [second] = matrix::ldmatrix_trans(b, 8 + lane % 8);
        let c = matrix::mma(all, [columns[0], second], [if same { 0.5 } else { 0.0 }; 4]);
        store(by_lines, 8, 0, c);
    }
}

fn bytemuck_eq<T: Pod>(a: T, b: T) -> bool {
    shmem::bytemuck::bytes_of(&a) == shmem::bytemuck::bytes_of(&b)
}

fn store(into: Global<f32>, width: u32, column: u32, c: [f32; 4]) {
    let mut i = 0;
    while i < 4 {
        let (row, at) = matrix::place(warp::lane_id(), i);
        into.store(row * width + column + at, c[i as usize]);
        i += 1;
    }
}

/// A block's tile.
#[kernel(block = 256)]
pub fn tile(a: SymSlice<bf16>, b: SymSlice<bf16>, c: Global<f32>, k: u32) {
    let (a, b) = (Strip::<Bf16x2, 128>::new(a.cast(), k), Strip::new(b.cast(), k));
    block::multiply(a, b, shmem::shared::dynamic()).for_each(|row, column, pair| {
        c.chunk(row, block::COLUMNS).store(column, pair[0]);
        c.chunk(row, block::COLUMNS).store(column + 1, pair[1]);
    });
}

pub trait Operand: Halves + KernelArg {
    fn from_f32(pair: [f32; 2]) -> Self;
}
impl Operand for Bf16x2 {
    fn from_f32(pair: [f32; 2]) -> Self {
        Self::from_f32(pair)
    }
}
impl Operand for F16x2 {
    fn from_f32(pair: [f32; 2]) -> Self {
        Self::from_f32(pair)
    }
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::suite::{Case, full_or_little, noise};
    use anyhow::ensure;
    use shmem_host::{Pe, collective_launch};

    pub const CASES: &[Case] = &[
        Case {
            name: "matrix products of warps",
            run: warps,
        },
        Case {
            name: "matrix product of a block",
            run: blocks,
        },
    ];

    /// Whole numbers, whose sums are exact.
    fn numbers(seed: u64, len: usize) -> Vec<f32> {
        (0..len as u64).map(|i| (noise(seed, i) % 9) as f32 - 4.0).collect()
    }

    fn warps(pe: &Pe) -> anyhow::Result<()> {
        of::<Bf16x2>(pe)?;
        of::<F16x2>(pe)
    }

    fn of<T: Operand>(pe: &Pe) -> anyhow::Result<()>
    where
        products<T>: shmem::Kernel<Args = (SymSlice<T>, Global<T>, Global<T>, Global<f32>, Global<f32>)>,
    {
        let (xs, ys, zs) = (numbers(1, 16 * 64), numbers(2, 16 * 64), numbers(3, 16 * 8));
        let pairs = |numbers: &[f32]| {
            numbers
                .chunks(2)
                .map(|pair| T::from_f32([pair[0], pair[1]]))
                .collect::<Vec<_>>()
        };
        let (x, y, z) = (pe.alloc(16 * 32)?, pe.buffer(16 * 32)?, pe.buffer(16 * 4)?);
        let (by_panels, by_lines) = (pe.buffer(16 * 16)?, pe.buffer(16 * 8)?);
        x.write(&pairs(&xs))?;
        y.write(&pairs(&ys))?;
        z.write(&pairs(&zs))?;
        collective_launch!(pe, products::<T><<<1, 64>>>(&x, &y, &z, &by_panels, &by_lines))?;
        for (i, got) in by_panels.to_vec()?.into_iter().enumerate() {
            let (row, column) = (i / 16, i % 16);
            let expected: f32 = (0..64).map(|k| xs[64 * row + k] * ys[64 * column + k]).sum();
            ensure!(
                got == expected,
                "panels, row {row}, column {column}: {got}, expected {expected}"
            );
        }
        for (i, got) in by_lines.to_vec()?.into_iter().enumerate() {
            let (row, column) = (i / 8, i % 8);
            let expected = (0..16).map(|k| xs[64 * row + k] * zs[8 * k + column]).sum::<f32>() + 0.5;
            ensure!(
                got == expected,
                "lines, row {row}, column {column}: {got}, expected {expected}"
            );
        }
        Ok(())
    }

    fn blocks(pe: &Pe) -> anyhow::Result<()> {
        let k: usize = 64 * full_or_little(5, 2);
        let limit = pe.max_collective_grid::<tile>(block::THREADS, block::SHARED_BYTES);
        if limit.is_err() {
            // Before sm_90 a block has less shared memory.
            return Ok(());
        }
        let (rows, columns) = (block::ROWS as usize, block::COLUMNS as usize);
        let (xs, ys) = (numbers(4, rows * k), numbers(5, columns * k));
        let halves = |numbers: &[f32]| numbers.iter().map(|&x| bf16::from_f32(x)).collect::<Vec<_>>();
        let (a, b, c) = (pe.alloc(rows * k)?, pe.alloc(columns * k)?, pe.buffer(rows * columns)?);
        a.write(&halves(&xs))?;
        b.write(&halves(&ys))?;
        collective_launch!(pe, tile<<<1, block::THREADS, block::SHARED_BYTES>>>(&a, &b, &c, k as u32))?;
        for (i, got) in c.to_vec()?.into_iter().enumerate() {
            let (row, column) = (i / columns, i % columns);
            let expected: f32 = (0..k).map(|i| xs[k * row + i] * ys[k * column + i]).sum();
            ensure!(
                got == expected,
                "row {row}, column {column}: {got}, expected {expected}"
            );
        }
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
