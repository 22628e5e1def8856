//! All-reduce, residual add and RMSNorm in one kernel: what follows each half of a transformer layer under tensor parallelism.
//!
//! `s`, the sum of `x` over the team and of the residual, is rounded to bf16 and becomes the new residual; `out` is
//! `s / rms(s) * weight`. All is added up in f32, in the order of the PEs' indices, so that every PE gets the same bits.
//!
//! | file | kernel | flights |
//! |---|---|---|
//! | [`packets`] | few tokens: partial rows travel in packets | 1 |
//! | [`passes`] | many tokens: one shot reads every partial of the others, two shots share out the tokens | 2 or 3, and the pass |
//! | [`row`] | one row: what both share | |
//!
//! [`FusedNorm`] has the words and boxes of the kernels, and chooses among them.
#![allow(
    clippy::needless_range_loop,
    reason = "on a GPU, arrays under counted loops stay in registers; under iterators they go to local memory"
)]

pub mod packets;
pub mod passes;
pub mod row;

#[cfg(not(target_arch = "nvptx64"))]
pub mod host;
#[cfg(not(target_arch = "nvptx64"))]
pub mod reference;
#[cfg(not(target_arch = "nvptx64"))]
pub use host::{Algorithm, FusedNorm};
