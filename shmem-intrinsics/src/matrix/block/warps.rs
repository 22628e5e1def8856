//! By warps: each has the next 16 columns' operands on their way to its registers while it multiplies.

use super::{By, COLUMNS, Product, ROWS, STAGES, Stages};
use crate::async_copy::{commit, wait_group};
use crate::matrix::{Halves, Strip, mma};
use crate::registers::unroll;
use crate::tile::{Block, Tile};
use crate::{Shared, warp};

/// Steps of 16 columns that a panel has. With each goes a part of the copies, so that they don't come all at once.
const STEPS: usize = 4;

/// A warp's operands of one step: of A 64 rows, of B 64 columns.
type Operands<T> = ([[T; 4]; 4], [[T; 2]; 8]);

/// As [`block::multiply`](super::multiply), in any image.
///
/// PTX `cp.async`, `ldmatrix`, `mma.sync`.
#[inline(always)]
#[track_caller]
pub fn multiply<T: Halves>(a: Strip<T, ROWS>, b: Strip<T, COLUMNS>, lines: Shared<T::Line>) -> Product {
    let stages = Stages::new(a, b, lines);
    let (row, column) = (warp::warp_id() % 2 * 64, warp::warp_id() / 2 % 4 * 64);
    let load = |k: u32, step: u32| {
        let (a, b) = stages.stage(k);
        let mut operands: Operands<T> = ([[T::zeroed(); 4]; 4], [[T::zeroed(); 2]; 8]);
        unroll::<4>(|i| {
            let at = 16 * i as u32;
            operands.0[i] = a.a(row + at, step);
            [operands.1[2 * i], operands.1[2 * i + 1]] = b.b(column + at, step);
        });
        operands
    };
    for k in 0..STAGES - 1 {
        stages.copy(k);
        commit();
    }
    wait_group::<{ STAGES - 2 }>();
    Block.sync();
    let mut sums = [[0.0; 4]; 32];
    let mut operands = load(0, 0);
    let mut k = 0;
    while k < stages.panels {
        unroll::<STEPS>(|step| {
            let last = step + 1 == STEPS;
            if last {
                // The next panel is here, and everyone has read this one.
                wait_group::<{ STAGES - 3 }>();
                Block.sync();
            }
            // After the last panel, that one again: nobody uses it.
            let k_next = (k + u32::from(last)).min(stages.panels - 1);
            let next = load(k_next, (step as u32 + 1) % STEPS as u32);
            // To where the panel before this one was.
            stages.copy_quarter(k + STAGES - 1, step as u32);
            products(&mut sums, &operands);
            operands = next;
        });
        commit();
        k += 1;
    }
    Product { sums, by: By::Warps }
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
