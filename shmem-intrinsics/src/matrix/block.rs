//! A tile of a product by a block.

use super::{Halves, Panel, Strip, mma, place};
use crate::async_copy::{commit, wait_group};
use crate::fault::{FaultKind, check};
use crate::registers::unroll;
use crate::tile::{Block, Tile};
use crate::{Shared, warp};

/// Threads of the block that calls [`multiply`].
pub const THREADS: u32 = 256;
/// Rows of its tile.
pub const ROWS: u32 = 128;
/// Columns of its tile.
pub const COLUMNS: u32 = 256;
/// Panels in shared memory: one that is multiplied, the others under way.
const STAGES: u32 = 4;
/// Steps of 16 columns that a panel has. With each goes a part of the copies, so that they don't come all at once.
const STEPS: usize = 4;
const STAGE_LINES: u32 = (ROWS + COLUMNS) * super::ROW_LINES;
/// Bytes of shared memory that [`multiply`] takes: 192 KiB.
pub const SHARED_BYTES: u32 = STAGES * STAGE_LINES * super::LINE_BYTES as u32;

/// A warp's operands of one step: of A 64 rows, of B 64 columns.
type Operands<T> = ([[T; 4]; 4], [[T; 2]; 8]);

/// [`ROWS`] x [`COLUMNS`] numbers that the threads of a block hold among them, 128 each.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    /// Of 4 runs of 16 rows 8 runs of 8 columns, as `mma` has them.
    sums: [[[f32; 4]; 8]; 4],
}

/// `a * b^T`: the product of [`ROWS`] rows by [`COLUMNS`] columns, each of which is a row of `b`, as weights are stored. A
/// block of [`THREADS`] threads calls it, all of them, with [`SHARED_BYTES`] of shared memory in `lines`, which it may use again
/// after a sync.
///
/// Panels stream through shared memory, three ahead of the one that is multiplied; each warp multiplies 64 x 64, with the
/// next step's operands on their way to its registers. Takes all of a thread's 255 registers. Sums as [`mma`] has them.
///
/// PTX `cp.async`, `ldmatrix`, `mma.sync`. Faults with `FaultKind::Length` where strips differ in their columns, which are
/// `a`'s and `b`'s in panels, or have none; `FaultKind::Tile` for another block size, `FaultKind::Range` for too little memory.
///
/// ```
/// use shmem::matrix::{Strip, block};
/// use shmem::prelude::*;
/// use shmem::vector::Bf16x2;
/// shmem_sim::Sim::new(1).block(block::THREADS).shared_bytes(block::SHARED_BYTES as usize).run(|| {
///     // Rows of A hold their number, rows of B ones: 64 times the row.
///     let a = shmem_sim::symmetric_with::<bf16>(128 * 64, |_, i| bf16::from_f32((i / 64) as f32));
///     let b = shmem_sim::symmetric_with::<bf16>(256 * 64, |_, _| bf16::ONE);
///     let c = shmem_sim::global::<f32>(128 * 256);
///     let (a, b) = (Strip::<Bf16x2, 128>::new(a.cast(), 64), Strip::new(b.cast(), 64));
///     block::multiply(a, b, shmem::shared::dynamic()).for_each(|row, column, pair| {
///         c.chunk(row, 256).store(column, pair[0]);
///         c.chunk(row, 256).store(column + 1, pair[1]);
///     });
///     Block.sync();
///     assert_eq!(c.load(100 * 256 + thread::index()), 6400.0);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn multiply<T: Halves>(a: Strip<T, ROWS>, b: Strip<T, COLUMNS>, lines: Shared<T::Line>) -> Product {
    let panels = a.panels();
    check(
        panels == b.panels() && panels != 0,
        FaultKind::Length,
        panels.into(),
        b.panels().into(),
    );
    let lines = lines.slice(0..STAGES * STAGE_LINES);
    let stage = |k: u32| {
        let lines = lines.chunk(k % STAGES, STAGE_LINES);
        let (a, b) = (Panel::<T, ROWS>::LINES, STAGE_LINES);
        (
            Panel::<T, ROWS>::new(lines.slice(0..a)),
            Panel::<T, COLUMNS>::new(lines.slice(a..b)),
        )
    };
    let copy = |k: u32, part: u32| {
        const A: u32 = ROWS / STEPS as u32;
        const B: u32 = COLUMNS / STEPS as u32;
        let (to_a, to_b) = stage(k);
        to_a.rows::<A>(part)
            .copy_async::<THREADS, _>(Block, a.rows::<A>(part), k);
        to_b.rows::<B>(part)
            .copy_async::<THREADS, _>(Block, b.rows::<B>(part), k);
    };
    let (row, column) = corner();
    let load = |k: u32, step: u32| {
        let (from_a, from_b) = stage(k);
        let mut operands: Operands<T> = ([[T::zeroed(); 4]; 4], [[T::zeroed(); 2]; 8]);
        unroll::<4>(|i| {
            let at = 16 * i as u32;
            operands.0[i] = from_a.a(row + at, step);
            [operands.1[2 * i], operands.1[2 * i + 1]] = from_b.b(column + at, step);
        });
        operands
    };

    for k in 0..STAGES - 1 {
        if k < panels {
            unroll::<STEPS>(|part| copy(k, part as u32));
        }
        commit();
    }
    wait_group::<{ STAGES - 2 }>();
    Block.sync();
    let mut sums = [[[0.0; 4]; 8]; 4];
    let mut operands = load(0, 0);
    let mut k = 0;
    while k < panels {
        unroll::<STEPS>(|step| {
            let last = step + 1 == STEPS;
            if last {
                // The next panel is here, and everyone has read this one.
                wait_group::<{ STAGES - 3 }>();
                Block.sync();
            }
            // After the last panel, that one again: nobody uses it.
            let next = load((k + u32::from(last)).min(panels - 1), (step as u32 + 1) % STEPS as u32);
            // To where the panel before this one was.
            if k + STAGES - 1 < panels {
                copy(k + STAGES - 1, step as u32);
            }
            step_of(&mut sums, &operands);
            operands = next;
        });
        commit();
        k += 1;
    }
    Product { sums }
}

/// 32 products, row by row there and back: neighbours have one operand in common.
#[inline(always)]
#[track_caller]
fn step_of<T: Halves>(sums: &mut [[[f32; 4]; 8]; 4], (a, b): &Operands<T>) {
    unroll::<4>(|i| {
        unroll::<8>(|j| {
            let j = if i % 2 == 0 { j } else { 7 - j };
            sums[i][j] = mma(a[i], b[j], sums[i][j]);
        });
    });
}

/// Row and column of the tile where this warp's part of it begins.
#[inline(always)]
#[track_caller]
fn corner() -> (u32, u32) {
    (warp::warp_id() % 2 * 64, warp::warp_id() / 2 % 4 * 64)
}

impl Product {
    /// Calls `f` with row, column and the numbers there and in the next column, for each pair that this thread holds. One
    /// thread's own.
    #[inline(always)]
    #[track_caller]
    pub fn for_each(self, mut f: impl FnMut(u32, u32, [f32; 2])) {
        let ((row, column), (row_in, column_in)) = (corner(), place(warp::lane_id(), 0));
        // Few calls in one closure, which is inlined then, and the numbers stay in registers.
        unroll::<16>(|i| {
            unroll::<4>(|q| {
                let (i, j, half) = (i / 4, i % 4 * 2 + q / 2, q % 2);
                let (row, column) = (
                    row + (16 * i + 8 * half) as u32 + row_in,
                    column + 8 * j as u32 + column_in,
                );
                let sum = self.sums[i][j];
                f(row, column, [sum[2 * half], sum[2 * half + 1]]);
            });
        });
    }
}
