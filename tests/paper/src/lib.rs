//! Kernels as papers and frameworks have them, in this project's API: what it must be good for.
//!
//! | file | kernel | what it leans on |
//! |---|---|---|
//! | [`ring`] | ring all-reduce, and its form with the sum computed on the way | `put_signal`, `computed` |
//! | [`norm`] | one-shot all-reduce, residual add and RMSNorm of bf16 | `read`, `write`, `Block.sum`, halves |
//! | [`halo`] | Jacobi iteration, rows split among PEs | counters, nested chunks |
//! | [`moe`] | mixture of experts: dispatch of tokens, combine of results | `Word`, one fence for many warps' puts, values in signals |
//! | [`hash`] | hash table over all PEs: insert, find | `compare_swap`, `field!` |
//!
//! Each file has its kernels and a host side that runs them and compares with plain CPU code. The tests do so on the
//! simulator, this package's program on whatever `SHMEM_BACKEND` names, GPUs first.
#![allow(
    clippy::must_use_candidate,
    clippy::missing_errors_doc,
    clippy::float_cmp,
    missing_docs,
    reason = "a test suite: the names say what is tested"
)]
#![allow(
    clippy::needless_range_loop,
    reason = "on a GPU, arrays under counted loops stay in registers; under iterators they go to local memory"
)]

pub mod halo;
pub mod hash;
pub mod moe;
pub mod norm;
pub mod ring;

#[cfg(not(target_arch = "nvptx64"))]
pub mod numbers;
