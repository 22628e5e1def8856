//! Compiles the GPU kernels of a package to PTX, from its build script, with a stock `rustc`.
//!
//! A package with kernels in its library needs one line:
//!
//! ```no_run
//! // build.rs
//! fn main() {
//!     shmem_build::kernels().build();
//! }
//! ```
//!
//! `cargo build`, `check`, `test`, `doc` and rust-analyzer then compile the library a second time, for
//! `nvptx64-nvidia-cuda`, and leave the PTX where `#[kernel]` embeds it. A build script that wants a PTX file of
//! another package uses [`CudaBuilder`].
//!
//! | step | where | how long (2 cores) |
//! |---|---|---|
//! | find a compiler, 1.96.0 or newer, with its library source | [`toolchain`] | 0.1 s |
//! | build `core` for the GPU, once per user and compiler | [`sysroot`] | 22 s, 42 MB |
//! | compile the kernels and what they depend on, in a nested cargo | `nested` | 1 s, then 0.4 s per change |
//! | write launch bounds into the PTX, refuse what can't be linked or loaded | `ptx`, `limits` | |
//!
//! # Environment
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `SHMEM_DEVICE_RUSTC` | the compiler for the GPU side, or `none` | the first that fits, see [`toolchain::find`] |
//! | `SHMEM_PTX` | `auto`: without a compiler, build the host side only; `require`: fail then; `off`: don't try | `auto` |
//! | `SHMEM_ARCH` | architectures, as in `sm_80,sm_90`; goes before what the build script says | `sm_80,sm_90` |
//! | `SHMEM_NETWORK` | `1`: a second image for Worlds with network peers, [`Kernels::network`]; goes before what the build script says | `0` |
//! | `SHMEM_CACHE` | where the compiled `core` lives, an absolute path | `$XDG_CACHE_HOME/shmem` or `~/.cache/shmem` |

#![expect(clippy::needless_doctest_main, reason = "a build script is a main function")]

mod advice;
mod arch;
mod before_90;
mod cuda_builder;
mod device;
mod diagnostics;
mod error;
mod files;
mod images;
mod inputs;
mod kernels;
mod limits;
mod manifest;
mod nested;
mod ptx;
mod ptx_version;
mod scrub;
mod settings;
pub mod sysroot;
#[cfg(all(test, unix))]
mod testing;
pub mod toolchain;
pub mod tools;

pub use arch::{Arch, ParseArchError};
pub use cuda_builder::CudaBuilder;
pub use error::Error;
pub use kernels::{Kernels, kernels};

/// The only target that kernels are compiled for.
const TARGET: &str = "nvptx64-nvidia-cuda";
