//! Tensor cores: each lane computes its four numbers of the product from what all lanes give.

use super::{Space, Strength, exchange_wide, lane_id, load};
use crate::warp::FULL;
use half::{bf16, f16};

/// In f64 and rounded once; a GPU has some order of its own.
#[track_caller]
fn mma(a: [u32; 4], b: [u32; 2], c: [f32; 4], number: fn(u16) -> f64) -> [f32; 4] {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let all = [
        exchange_wide(FULL, pair(a[0], a[1])),
        exchange_wide(FULL, pair(a[2], a[3])),
        exchange_wide(FULL, pair(b[0], b[1])),
    ];
    let word = |words: [u64; 32], lane: u32, high: u32| (words[lane as usize] >> (32 * high)) as u32;
    let half = |word: u32, k: u32| number((word >> (16 * (k % 2))) as u16);
    let a = |row: u32, k: u32| half(word(all[k as usize / 8], row % 8 * 4 + k % 8 / 2, row / 8), k);
    let b = |k: u32, column: u32| half(word(all[2], column * 4 + k % 8 / 2, k / 8), k);
    core::array::from_fn(|i| {
        let (row, column) = crate::matrix::place(lane_id(), i as u32);
        (0..16).fold(f64::from(c[i]), |sum, k| sum + a(row, k) * b(k, column)) as f32
    })
}

#[track_caller]
pub(crate) fn mma_bf16(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
    mma(a, b, c, |bits| bf16::from_bits(bits).to_f64())
}

#[track_caller]
pub(crate) fn mma_f16(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
    mma(a, b, c, |bits| f16::from_bits(bits).to_f64())
}

/// # Safety
/// Each lane's is the shared address of a live line of 16 bytes; all lanes call it.
#[track_caller]
pub(crate) unsafe fn ldmatrix<const N: usize>(line: u64) -> [u32; N] {
    let (lines, lane) = (exchange_wide(FULL, line), lane_id() as usize);
    let mut matrices = [0; N];
    for (i, matrix) in matrices.iter_mut().enumerate() {
        // SAFETY: a word of the line that lane lane / 4 named for this matrix.
        *matrix = unsafe { load(lines[8 * i + lane / 4] + lane as u64 % 4 * 4, Space::Shared, Strength::Weak) };
    }
    matrices
}

/// # Safety
/// As [`ldmatrix`].
#[track_caller]
pub(crate) unsafe fn ldmatrix_trans<const N: usize>(line: u64) -> [u32; N] {
    let (lines, lane) = (exchange_wide(FULL, line), lane_id() as usize);
    let mut matrices = [0; N];
    for (i, matrix) in matrices.iter_mut().enumerate() {
        for half in 0..2 {
            let row = lines[8 * i + lane % 4 * 2 + half];
            // SAFETY: a half of the line that a lane named for this matrix.
            let bits: u16 = unsafe { load(row + lane as u64 / 4 * 2, Space::Shared, Strength::Weak) };
            *matrix |= u32::from(bits) << (16 * half);
        }
    }
    matrices
}
