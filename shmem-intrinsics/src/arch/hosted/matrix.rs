//! Tensor cores: each lane computes its four numbers of the product from what all lanes give.

use super::{Space, Strength, exchange_wide, lane_id, load};
use crate::matrix::place;
use crate::warp::FULL;
use half::f16;

/// In f64 and rounded once; a GPU has some order of its own.
#[track_caller]
fn mma(a: [u32; 4], b: [u32; 2], c: [f32; 4], number: fn(u16) -> f32) -> [f32; 4] {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let give = |words| exchange_wide(FULL, words);
    let (a_left, a_right, b) = (give(pair(a[0], a[1])), give(pair(a[2], a[3])), give(pair(b[0], b[1])));
    // 16 numbers of a row of A or a column of B: four lanes have two words of two each, for k up to 8 and above.
    let run = |left: &[u64; 32], right: &[u64; 32], shift: [u32; 2], first: u32| -> [f64; 16] {
        let word = |k: usize| {
            let (words, shift) = if k < 8 { (left, shift[0]) } else { (right, shift[1]) };
            (words[first as usize * 4 + k % 8 / 2] >> shift) as u32
        };
        core::array::from_fn(|k| f64::from(number((word(k) >> (16 * (k % 2))) as u16)))
    };
    let (row, column) = place(lane_id(), 0);
    let rows = [0, 32].map(|shift| run(&a_left, &a_right, [shift; 2], row));
    let columns = [0, 1].map(|i| run(&b, &b, [0, 32], column + i));
    core::array::from_fn(|i| {
        let products = rows[i / 2].iter().zip(&columns[i % 2]).map(|(x, y)| x * y);
        (f64::from(c[i]) + products.sum::<f64>()) as f32
    })
}

#[track_caller]
pub(crate) fn mma_bf16(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
    mma(a, b, c, |bits| f32::from_bits(u32::from(bits) << 16))
}

#[track_caller]
pub(crate) fn mma_f16(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
    mma(a, b, c, |bits| f16::from_bits(bits).to_f32())
}

/// # Safety
/// Each lane's is the shared address of a live line of 16 bytes; all lanes call it.
#[track_caller]
pub(crate) unsafe fn ldmatrix<const N: usize>(line: u64) -> [u32; N] {
    let (lines, lane) = (exchange_wide(FULL, line), lane_id() as usize);
    let mut matrices = [0; N];
    for (i, matrix) in matrices.iter_mut().enumerate() {
        // SAFETY: a word of the line that lane lane / 4 named for this matrix.
        *matrix = unsafe {
            load(
                lines[8 * i + lane / 4] + lane as u64 % 4 * 4,
                Space::Shared,
                Strength::Weak,
            )
        };
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
