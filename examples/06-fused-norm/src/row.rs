//! One row in the registers of a block: each thread holds `L` lines of eight numbers.
use crate::Norm;
use shmem::prelude::*;
use shmem::vector::Bf16x8;

/// Calls `line(j, i)` for this thread's lines: the j-th of its own is line i of the row.
#[inline(always)]
pub fn each<const L: usize>(lines: u32, mut line: impl FnMut(usize, u32)) {
    for j in 0..L {
        let i = Block.rank() + j as u32 * Block.size();
        if i < lines {
            line(j, i);
        }
    }
}

/// This thread's lines. Those behind the row's end are 0.
#[inline(always)]
pub fn load<const L: usize>(lines: u32, line: impl Fn(u32) -> Bf16x8) -> [Bf16x8; L] {
    let mut row = [Bf16x8::zeroed(); L];
    each::<L>(lines, |j, i| row[j] = line(i));
    row
}

/// Adds a row to a sum.
#[inline(always)]
pub fn add<const L: usize>(sum: &mut [[f32; 8]; L], part: &[Bf16x8; L]) {
    for j in 0..L {
        let part = part[j].f32();
        for i in 0..8 {
            sum[j][i] += part[i];
        }
    }
}

/// Normalises row t and stores it; `weight` has the arguments of [`each`]. The block meets.
#[inline(always)]
pub fn norm<const L: usize>(a: &Norm, t: u32, row: &[Bf16x8; L], weight: impl Fn(usize, u32) -> Bf16x8) {
    let mut squares = 0.0;
    for j in 0..L {
        let s = row[j].f32();
        for i in 0..8 {
            squares = s[i].mul_add(s[i], squares);
        }
    }
    let scale = Block.sum(squares).mul_add(a.mean, a.eps).fast_rsqrt();
    let out = a.out.chunk(t, a.lines);
    each::<L>(a.lines, |j, i| {
        let (mut s, w) = (row[j].f32(), weight(j, i).f32());
        for k in 0..8 {
            s[k] *= scale * w[k];
        }
        out.store(i, Bf16x8::from_f32(s));
    });
}
