//! The host side: makes PEs, gives them symmetric memory and streams, launches kernels on them, and returns their errors.
//!
//! | file | what it holds | NVSHMEM |
//! |---|---|---|
//! | `world`, `config` | [`World`]: how many PEs, where, with which settings | `nvshmem_init` |
//! | `pe` | [`Pe`]: what a PE's closure works with | `nvshmem_my_pe`, `nvshmem_barrier_all` |
//! | `buffer`, `alloc`, `heap`, `heap_stats` | [`SymBuf`], [`Buf`]: memory | `nvshmem_malloc`, `nvshmem_free` |
//! | `register` | memory of the program's own as a symmetric object | `nvshmemx_buffer_register_symmetric` |
//! | `team`, `blocks`, `meetings` | [`Team`]: some of the PEs, numbered anew | `nvshmem_team_split_strided` |
//! | `contexts` | [`Contexts`]: operations that are completed apart | `nvshmem_ctx_t` |
//! | `launch`, `macros` | [`collective_launch!`], [`launch!`]: kernels | `nvshmemx_collective_launch` |
//! | `stream` | [`Stream`]: order on one PE, barriers on a stream | `nvshmemx_barrier_all_on_stream` |
//! | `processes`, `job`, `layout`, `fds`, `board`, `post`, `wire` | PEs in several processes | bootstrap |
//! | `stream`, `on_stream` | [`Stream`]: order on one PE, communication on a stream | `nvshmemx_putmem_on_stream`, .. |
//! | `stream_collective` | [`Stream`]: collectives on a stream | `nvshmemx_TYPE_sum_reduce_on_stream`, .. |
//! | `graph` | [`Graph`]: a stream's work, recorded and replayed | |
//! | `foreign` | streams and memory of other libraries | |
//! | `info`, `thread_level`, `logging` | versions, settings, devices; which threads may call; log lines | `nvshmem-info` |
//! | `error`, `fault` | [`Error`], [`DeviceFault`]: what went wrong, where | |
//! | `backend` | GPUs through the CUDA driver; the simulator | |
//!
//! Kernels are written with the crate `shmem`; this crate runs them on GPUs, or where there are none on the simulator.
//!
//! ```
//! use shmem::prelude::*;
//! use shmem_host::{Backend, World, collective_launch};
//!
//! #[kernel]
//! pub fn simple_shift(dst: SymSlice<i32>) {
//!     let me = shmem::my_pe();
//!     let peer = (me + 1) % shmem::n_pes();
//!     shmem::p(dst.at(0), me as i32, peer);
//! }
//!
//! // `World::from_env()?` in a program; the kernels of these examples have no PTX.
//! World::builder().backend(Backend::Sim).build()?.run(|pe| {
//!     let dst = pe.alloc::<i32>(1)?;
//!     collective_launch!(pe, simple_shift<<<1, 1>>>(&dst))?;
//!     pe.stream().barrier_all()?;
//!     println!("PE {}/{} received {}", pe.id(), pe.n(), dst.read(0)?);
//!     Ok::<(), shmem_host::Error>(())
//! })?;
//! # Ok::<(), shmem_host::Error>(())
//! ```

mod alloc;
mod allocator;
mod backend;
mod blocks;
mod board;
mod buffer;
mod collective;
mod config;
mod contexts;
mod device_use;
mod error;
mod fault;
mod fds;
mod foreign;
mod graph;
mod handles;
mod heap;
mod heap_stats;
mod images;
mod info;
mod job;
mod launch;
mod layout;
#[cfg(feature = "logging")]
mod logging;
mod macros;
mod meetings;
mod module;
mod network;
mod on_stream;
mod pe;
mod pinned;
mod post;
mod processes;
mod register;
mod rendezvous;
mod session;
mod shared;
mod site;
mod stream;
mod stream_collective;
mod team;
mod thread_level;
mod wire;
mod world;

pub use backend::cuda::CudaError;
pub use buffer::{Buf, RangeError, SymBuf};
pub use collective::CollectiveError;
pub use config::{Backend, ConfigError, MemoryHandles, Path};
pub use contexts::Contexts;
pub use error::Error;
pub use fault::DeviceFault;
pub use graph::{Graph, GraphError};
pub use heap::{AllocRequest, HeapError};
pub use heap_stats::{Backed, HeapStats};
pub use images::ImageError;
pub use info::{Info, Setting, Source, info, name, version};
pub use launch::{Dim3, LaunchConfig, LaunchError, Stale};
#[cfg(feature = "logging")]
pub use logging::init_logging;
pub use module::Module;
pub use network::{NetworkCounters, NetworkError};
pub use on_stream::{Here, StreamAction, StreamError, StreamWait};
pub use pe::Pe;
pub use pinned::{Copying, Pinned};
pub use processes::ProcessError;
pub use register::{RegisterError, UserMemory};
pub use shmem_bootstrap::BootstrapError;
pub use shmem_sim::Path as SimPath;
pub use site::Site;
pub use stream::Stream;
pub use stream_collective::StreamReduce;
pub use team::{Team, TeamError};
pub use thread_level::{ThreadLevel, thread_level};
pub use world::{Builder, World};
