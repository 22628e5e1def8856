//! What every backend must do: kernels, and the host side that runs them and checks the result.
//!
//! A file per operation. Each has `#[kernel]`s and a list `CASES`; the tests run all of them on the simulator, and the
//! program of this package runs them on whatever `SHMEM_BACKEND` names, GPUs first.
#![allow(
    clippy::must_use_candidate,
    clippy::missing_errors_doc,
    clippy::precedence,
    clippy::float_cmp,
    missing_docs,
    reason = "a test suite: the names say what is tested"
)]

pub mod async_copy;
pub mod atomic;
pub mod barrier;
pub mod bulk;
pub mod cluster;
pub mod collective;
pub mod collective_reduce;
pub mod context;
pub mod fault;
pub mod fp8;
pub mod generic;
pub mod get;
pub mod grid;
pub mod litmus;
pub mod made_team;
pub mod math;
pub mod matrix;
pub mod mbarrier;
pub mod order;
pub mod packet;
pub mod print;
pub mod program;
pub mod ptr;
pub mod put;
pub mod reduce;
pub mod refused;
pub mod registers;
pub mod scalar;
pub mod shared;
pub mod signal;
pub mod stream;
pub mod stream_collective;
pub mod team;
pub mod thread;
pub mod vector;
pub mod wait_many;
pub mod warp;
pub mod warp_group;
pub mod word;

#[cfg(not(target_arch = "nvptx64"))]
pub mod suite;
