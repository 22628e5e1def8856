//! Kernels of the benchmarks. What they measure is said in the program's table, `main.rs`.
//!
//! | file | kernels |
//! |---|---|
//! | `data` | what is moved, and whether it has arrived |
//! | `rma_bw`, `words` | put, get; p, g, stores |
//! | `pingpongs`, `packets` | half round trips |
//! | `latencies`, `ordering`, `atomics` | one operation at a time |
//! | `meetings`, `collectives`, `reductions` | barriers, collectives |
//! | `empty`, `board` | launches; what the suite itself needs |

mod kernels;

pub use kernels::*;
