//! One tile of C by a block: panels of A and B stream through shared memory, and each of eight warps multiplies 64 x 64.
use shmem::async_copy::{commit, wait_group};
use shmem::matrix::{self, Panel, Strip};
use shmem::prelude::*;
use shmem::registers::unroll;
use shmem::vector::{Bf16x2, Bf16x8};

pub const TILE_ROWS: u32 = 128;
pub const TILE_COLUMNS: u32 = 256;
pub const THREADS: u32 = 256;
/// Panels in shared memory: one that is multiplied, the others under way.
const STAGES: u32 = 4;
/// Steps of 16 columns that a panel has. With each goes a part of the copies, so that they don't come all at once.
const STEPS: usize = 4;
const LINES: u32 = PanelA::LINES + PanelB::LINES;
/// Bytes of dynamic shared memory.
pub const SHARED_BYTES: u32 = STAGES * LINES * 16;

pub type Rows<const R: u32> = Strip<Bf16x2, R>;
type PanelA = Panel<Bf16x2, TILE_ROWS>;
type PanelB = Panel<Bf16x2, TILE_COLUMNS>;

/// A warp's operands of one step, and its part of C.
type Operands = ([[Bf16x2; 4]; 4], [[Bf16x2; 2]; 8]);
type Sums = [[[f32; 4]; 8]; 4];

/// Column `column` of tiles of `c`, which has all of its rows: `width` columns, in pairs.
#[inline(always)]
pub fn tile(a: Rows<TILE_ROWS>, b: Rows<TILE_COLUMNS>, c: Global<Bf16x2>, width: u32, column: u32) {
    let lines = shmem::shared::dynamic::<Bf16x8>().slice(0..STAGES * LINES);
    let stage = |k: u32| {
        let lines = lines.chunk(k % STAGES, LINES);
        (PanelA::new(lines.slice(0..PanelA::LINES)), PanelB::new(lines.slice(PanelA::LINES..LINES)))
    };
    let copy = |k: u32, part: u32| {
        const A: u32 = TILE_ROWS / STEPS as u32;
        const B: u32 = TILE_COLUMNS / STEPS as u32;
        let (to_a, to_b) = stage(k);
        to_a.rows::<A>(part).copy_async::<THREADS, _>(Block, a.rows::<A>(part), k);
        to_b.rows::<B>(part).copy_async::<THREADS, _>(Block, b.rows::<B>(part), k);
    };
    let (row_in, column_in) = (warp::warp_id() % 2 * 64, warp::warp_id() / 2 % 4 * 64);
    let load = |k: u32, step: u32| {
        let (from_a, from_b) = stage(k);
        let mut operands: Operands = Zeroable::zeroed();
        unroll::<4>(|i| {
            let at = 16 * i as u32;
            operands.0[i] = from_a.a(row_in + at, step);
            [operands.1[2 * i], operands.1[2 * i + 1]] = from_b.b(column_in + at, step);
        });
        operands
    };

    for k in 0..STAGES - 1 {
        if k < a.panels() {
            unroll::<STEPS>(|part| copy(k, part as u32));
        }
        commit();
    }
    wait_group::<{ STAGES - 2 }>();
    Block.sync();
    let mut sums: Sums = [[[0.0; 4]; 8]; 4];
    let mut operands = load(0, 0);
    let mut k = 0;
    while k < a.panels() {
        unroll::<STEPS>(|step| {
            let last = step + 1 == STEPS;
            if last {
                // The next panel is here, and everyone has read this one.
                wait_group::<{ STAGES - 3 }>();
                Block.sync();
            }
            // After the last panel, that one again: nobody uses it.
            let next = load((k + u32::from(last)).min(a.panels() - 1), (step as u32 + 1) % 4);
            // To where the panel before this one was.
            if k + STAGES - 1 < a.panels() {
                copy(k + STAGES - 1, step as u32);
            }
            multiply(&mut sums, &operands);
            operands = next;
        });
        commit();
        k += 1;
    }
    store(&sums, c, width, column * TILE_COLUMNS + column_in, row_in);
}

/// 32 products, row by row there and back: neighbours have one operand in common.
#[inline(always)]
fn multiply(sums: &mut Sums, (a, b): &Operands) {
    unroll::<4>(|i| {
        unroll::<8>(|j| {
            let j = if i % 2 == 0 { j } else { 7 - j };
            sums[i][j] = matrix::mma(a[i], b[j], sums[i][j]);
        });
    });
}

/// A warp's part of C, from this row and column on.
#[inline(always)]
fn store(sums: &Sums, c: Global<Bf16x2>, width: u32, column: u32, row: u32) {
    let (row_in, column_in) = matrix::place(warp::lane_id(), 0);
    unroll::<4>(|i| {
        unroll::<2>(|half| {
            let row = c.chunk(row + (16 * i + 8 * half) as u32 + row_in, width / 2);
            let pairs = row.slice((column + column_in) / 2..width / 2);
            unroll::<8>(|j| {
                let sum = sums[i][j];
                pairs.store(4 * j, Bf16x2::from_f32([sum[2 * half], sum[2 * half + 1]]));
            });
        });
    });
}
