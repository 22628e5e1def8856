//! Rows in fp8 on their way: each 128 numbers with a scale.
use crate::Shape;
use shmem::fp8::{E4m3x8, MAX};
use shmem::prelude::*;
use shmem::vector::{Bf16x8, U32x4};

/// What 128 numbers, the largest of this size, are divided by.
#[inline(always)]
pub(crate) fn scale(largest: f32) -> f32 {
    // Of zeros too, and of numbers whose scale were no number any more.
    largest.max(1e-30) / MAX
}

/// Makes a message's numbers and scales of a row in shared memory. All threads of the block call it, and meet.
#[inline(always)]
pub(crate) fn to_fp8(s: Shape, row: Shared<U32x4>, message: Shared<U32x4>) {
    let (numbers, scales) = s.lines::<true>();
    let (codes, row) = (message.slice(0..numbers).cast::<E4m3x8>(), row.cast::<Bf16x8>());
    let scales = message.slice(numbers..numbers + scales).cast::<f32>();
    // 16 lanes have 128 numbers: all of them or none are in the row.
    for i in Block.strided(s.hidden / 8) {
        let x = row.load(i).f32();
        let mut largest = 0.0f32;
        for j in 0..8 {
            largest = largest.max(x[j].abs());
        }
        let scale = scale(SubWarp::<16>.max(largest));
        let (inverse, mut scaled) = (1.0 / scale, [0.0; 8]);
        for j in 0..8 {
            scaled[j] = x[j] * inverse;
        }
        codes.store(i, E4m3x8::from_f32(scaled));
        if i % 16 == 0 {
            scales.store(i / 16, scale);
        }
    }
    for i in Block.strided(scales.len() as u32) {
        if i >= s.hidden / 128 {
            scales.store(i, 0.0);
        }
    }
    Block.sync();
}
