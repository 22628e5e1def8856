//! All-reduce, residual add and RMSNorm in one kernel: what follows each half of a transformer layer under tensor parallelism.
//!
//! `s`, the sum of `x` over the team and of the residual, is rounded to bf16 and becomes the new residual; `out` is
//! `s / rms(s) * weight`. All is added up in f32, in the order of the PEs' indices, so that every PE gets the same bits.
//!
//! | file | kernel | flights |
//! |---|---|---|
//! | [`packets`] | few tokens: partial rows travel in packets | 1 |
//! | [`passes`] | many tokens: one shot reads every partial of the others, two shots share out the tokens | 2 or 3, and the pass |
//! | [`puts`] | some tokens among up to four PEs: rows are put one ahead of the one that is normalised | 1, and the rows |
//! | [`row`] | one row: what both share | |
//!
//! [`FusedNorm`] has the words and boxes of the kernels, and chooses among them.
#![allow(
    clippy::needless_range_loop,
    reason = "on a GPU, arrays under counted loops stay in registers; under iterators they go to local memory"
)]

use shmem::prelude::*;
use shmem::vector::Bf16x8;

pub mod packets;
pub mod passes;
pub mod puts;
pub mod row;

#[cfg(not(target_arch = "nvptx64"))]
pub mod host;
#[cfg(not(target_arch = "nvptx64"))]
pub mod reference;
#[cfg(not(target_arch = "nvptx64"))]
pub use host::{Algorithm, FusedNorm};

/// What the kernels work on. Rows are of tokens.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Norm {
    /// Who adds up.
    pub team: Team,
    /// Rows of this PE's part of the sum.
    pub x: SymSlice<Bf16x8>,
    /// Rows to add, the same on every PE; they take the sum.
    pub residual: SymSlice<Bf16x8>,
    /// One row.
    pub weight: Global<Bf16x8>,
    /// Normalised rows.
    pub out: Global<Bf16x8>,
    /// How many rows.
    pub tokens: u32,
    /// Lines of a row, of eight numbers.
    pub lines: u32,
    /// One over the numbers of a row.
    pub mean: f32,
    /// Is added to the mean of the squares.
    pub eps: f32,
}
