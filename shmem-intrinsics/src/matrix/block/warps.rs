//! By warps: each has the next 16 columns' operands on their way to its registers while it multiplies.

use super::{Ahead, By, COLUMNS, Product, ROWS, STAGES, Stages};
use crate::async_copy::{commit, wait_group};
use crate::matrix::{Halves, Strip, mma};
use crate::registers::unroll;
use crate::tile::{Block, Tile};
use crate::{Shared, warp};

/// Steps of 16 columns that a panel has. With each goes a part of the copies, so that they don't come all at once.
const STEPS: u32 = 4;

/// A warp's operands of one step: of A 64 rows, of B 64 columns.
type Operands<T> = ([[T; 4]; 4], [[T; 2]; 8]);

/// As [`block::multiply_with`](super::multiply_with), in any image.
///
/// PTX `cp.async`, `ldmatrix`, `mma.sync`.
#[inline(always)]
#[track_caller]
pub fn multiply<T: Halves>(
    a: Strip<T, ROWS>,
    b: Strip<T, COLUMNS>,
    lines: Shared<T::Line>,
    with: &mut impl Ahead,
) -> Product {
    let stages = Stages::new(a, b, lines);
    for k in 0..STAGES - 1 {
        if k < stages.panels {
            with.ahead(k);
        }
        stages.copy(k);
        commit();
    }
    wait_group::<{ STAGES - 2 }>();
    Block.sync();
    let mut work = Work {
        operands: load(&stages, 0, 0),
        stages,
        sums: [[0.0; 4]; 32],
    };
    let mut k = 0;
    while k < work.stages.panels {
        if k + STAGES - 1 < work.stages.panels {
            with.ahead(k + STAGES - 1);
        }
        work.step(k, 0);
        work.step(k, 1);
        work.step(k, 2);
        work.step(k, 3);
        commit();
        k += 1;
    }
    Product {
        sums: work.sums,
        by: By::Warps,
    }
}

struct Work<T: Halves> {
    stages: Stages<T>,
    operands: Operands<T>,
    sums: [[f32; 4]; 32],
}

impl<T: Halves> Work<T> {
    /// Not a closure: those that are called often are not always inlined, and the sums must stay in registers.
    #[inline(always)]
    #[track_caller]
    fn step(&mut self, k: u32, step: u32) {
        let last = step + 1 == STEPS;
        if last {
            // The next panel is here, and everyone has read this one.
            wait_group::<{ STAGES - 3 }>();
            Block.sync();
        }
        // After the last panel, that one again: nobody uses it.
        let k_next = (k + u32::from(last)).min(self.stages.panels - 1);
        let next = load(&self.stages, k_next, (step + 1) % STEPS);
        // To where the panel before this one was.
        self.stages.copy_quarter(k + STAGES - 1, step);
        products(&mut self.sums, &self.operands);
        self.operands = next;
    }
}

/// This warp's operands of a panel's step.
#[inline(always)]
#[track_caller]
fn load<T: Halves>(stages: &Stages<T>, k: u32, step: u32) -> Operands<T> {
    let (row, column) = (warp::warp_id() % 2 * 64, warp::warp_id() / 2 % 4 * 64);
    let (a, b) = stages.stage(k);
    let mut operands: Operands<T> = ([[T::zeroed(); 4]; 4], [[T::zeroed(); 2]; 8]);
    unroll::<4>(|i| {
        let at = 16 * i as u32;
        operands.0[i] = a.a(row + at, step);
        [operands.1[2 * i], operands.1[2 * i + 1]] = b.b(column + at, step);
    });
    operands
}

/// 32 of them, row by row there and back: neighbours have one operand in common.
#[inline(always)]
#[track_caller]
fn products<T: Halves>(sums: &mut [[f32; 4]; 32], (a, b): &Operands<T>) {
    unroll::<4>(|i| {
        unroll::<8>(|j| {
            let j = if i % 2 == 0 { j } else { 7 - j };
            sums[8 * i + j] = mma(a[i], b[j], sums[8 * i + j]);
        });
    });
}
