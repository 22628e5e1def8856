//! Does every barrier, shuffle and vote of the source stand in the PTX exactly once?
//!
//! Lanes that wait for each other must wait at one instruction. An optimiser that doesn't know this copies it into both
//! arms of a branch, and then lanes wait at different copies. `shmem` calls LLVM's convergent intrinsics, and the builder
//! switches one MIR pass off; this package is what notices when a compiler, a flag or a line of `asm!` breaks that.
//!
//! | file | what it holds | test |
//! |---|---|---|
//! | [`shapes`], [`mma`] | kernels in shapes that optimisers like to duplicate | `tests/shapes.rs` |
//! | [`bare`] | the same in `asm!`: the counter-examples | `tests/shapes.rs` |
//! | `ptx`, `flow` | counting in PTX; which copies are harmless | unit tests |
//! | `fuzz` | random kernels | `tests/fuzz.rs` |
//! | `lint` | refuses such instructions in `asm!` anywhere in the workspace | `tests/lint.rs` |

#![cfg_attr(
    target_arch = "nvptx64",
    feature(link_llvm_intrinsics, abi_unadjusted),
    allow(internal_features)
)]

pub mod bare;
pub mod mma;
pub mod shapes;

#[cfg(not(target_arch = "nvptx64"))]
pub mod flow;
#[cfg(not(target_arch = "nvptx64"))]
pub mod fuzz;
#[cfg(not(target_arch = "nvptx64"))]
pub mod lint;
#[cfg(not(target_arch = "nvptx64"))]
pub mod ptx;
