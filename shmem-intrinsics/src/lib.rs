//! Communication between GPUs from inside a kernel: what NVSHMEM's device API does, in Rust.
//!
//! | file | what it holds | NVSHMEM |
//! |---|---|---|
//! | [`team`], [`membership`] | [`my_pe`], [`n_pes`], [`Team`], [`Membership`], [`Target`]: who | `nvshmem_my_pe`, `nvshmem_team_t` |
//! | [`tile`] | [`Thread`], [`SubWarp`], [`Warp`](type@Warp), [`WarpGroup`], [`Block`], [`Cluster`], [`Grid`]: how many threads call together | suffixes `_warp`, `_block` |
//! | [`sym`] | [`SymSlice`], [`Sym`]: the same object on every PE | pointers into the symmetric heap |
//! | [`global`], [`mod@shared`] | [`Global`], [`Shared`]: memory of one device, of one block | device pointers, `__shared__` |
//! | [`rma`] | [`p`], [`g`], [`put`], [`put_nbi`], [`put_signal`] | `nvshmem_p`, `nvshmem_putmem` .. |
//! | [`get`](mod@get), [`strided`] | [`get`](fn@get), [`get_nbi`], [`iput`], [`iget`] | `nvshmem_getmem`, `nvshmem_iput` .. |
//! | [`signal`] | [`Signal`], [`Counter`], [`signal_op`] | `nvshmemx_signal_op` |
//! | [`wait`] | [`wait_until`], [`spin_until`] | `nvshmem_signal_wait_until` |
//! | [`relaxed`] | signals and waits that order nothing | |
//! | [`atomic`] | [`fetch_add`], [`compare_swap`], [`swap`], ..: words at any PE | `nvshmem_TYPE_atomic_..` |
//! | [`mod@ptr`] | [`fn@ptr`], [`PeerPtr`]: a peer's memory, mapped | `nvshmem_ptr` |
//! | [`wait_many`], [`mod@test`], [`words`] | [`wait_until_all`], [`wait_until_any`], [`fn@test`], ..: several words, without waiting | `nvshmem_TYPE_wait_until_any` .. |
//! | [`order`] | [`fence`], [`quiet`], [`flush`] | `nvshmem_fence`, `nvshmem_quiet` |
//! | [`mod@batch`] | [`batch()`]: puts that are completed together | |
//! | [`context`] | [`Ctx`], [`CtxSet`]: operations ordered and completed apart from others | `nvshmem_ctx_t` |
//! | [`collective`] | [`Collective`]: barrier, sync, broadcast, fcollect, alltoall, reduce, .. | `nvshmem_barrier_all`, `nvshmem_sum_reduce` .. |
//! | [`packet`] | [`Packet`]: messages whose flag travels with the data | |
//! | [`word`], [`scope`] | [`Word`], [`scope::fence`]: atomics on ordinary memory, by scope | `cuda::atomic_ref` |
//! | [`thread`], [`warp`] | indices, shuffles, votes | CUDA |
//! | [`reduce`] | `tile.sum(x)`, `max`, `min` | CUB, `cooperative_groups::reduce` |
//! | [`registers`] | [`read`], [`write()`]: runs of elements in registers | |
//! | [`computed`](mod@computed), [`field`](mod@field), [`hint`] | sources computed on the way; fields of elements; cache hints | |
//! | [`async_copy`] | copies into shared memory that go on meanwhile | CUDA `__pipeline_memcpy_async` |
//! | [`bulk`] | put and get by bulk copies (TMA) through shared memory | `cp.async.bulk` |
//! | [`matrix`] | products by the tensor cores, panels of matrices in shared memory | CUDA `mma.h` |
//! | [`mbarrier`] | barriers in shared memory, arrived at and waited for apart | CUDA `cuda::barrier` |
//! | [`print`](mod@print) | [`gpu_println!`] | CUDA `printf` |
//! | [`math`], [`vector`], [`time`] | float functions, vectors and halves, clocks | CUDA |
//! | [`fp8`] | numbers of 8 bits | `__nv_fp8x4_e4m3` |
//! | `network` | calls as work queue entries of a network adapter | IBGDA |
//! | [`timeline`] | records of calls on a GPU, for a timeline | |
//! | [`fault`], [`state`] | what happens on an error; what a kernel knows of its PE | |
//!
//! A call goes to a peer as stores over NVLink (`arch/ptx`), or to the simulator (`arch/hosted`, [`hook`]); everything
//! else in this crate is the same source on both.
//!
//! ```
//! use shmem::prelude::*;
//!
//! #[kernel]
//! pub fn simple_shift(dst: SymSlice<i32>) {
//!     let me = shmem::my_pe();
//!     let peer = (me + 1) % shmem::n_pes();
//!     shmem::p(dst.at(0), me as i32, peer);
//! }
//! ```
// For a GPU the builder adds `no_std` and the features that every kernel crate needs; these two only this crate does.
#![cfg_attr(
    target_arch = "nvptx64",
    feature(link_llvm_intrinsics, abi_unadjusted),
    allow(internal_features)
)]
// The macros name this crate as `::shmem`, also when they are used inside it.
extern crate self as shmem;

mod arch;
pub mod async_copy;
pub mod atomic;
pub mod batch;
pub mod bulk;
pub mod collective;
pub mod computed;
pub mod context;
pub mod fault;
pub mod field;
pub mod fp8;
pub mod get;
pub mod global;
pub mod hint;
#[cfg(not(target_arch = "nvptx64"))]
pub mod hook;
mod kernel;
pub mod math;
pub mod matrix;
pub mod mbarrier;
pub mod membership;
mod network;
pub mod order;
pub mod packet;
pub mod print;
pub mod ptr;
pub mod reduce;
pub mod registers;
pub mod relaxed;
pub mod rma;
pub mod scope;
pub mod serial;
pub mod shared;
pub mod signal;
mod slice;
pub mod state;
pub mod strided;
pub mod sym;
pub mod team;
pub mod test;
pub mod thread;
pub mod tile;
pub mod time;
pub mod timeline;
pub mod vector;
pub mod wait;
pub mod wait_many;
pub mod warp;
pub mod word;
pub mod words;

pub use atomic::*;
pub use batch::{Batch, batch};
pub use bytemuck::{self, Pod, Zeroable};
pub use collective::Collective;
pub use computed::computed;
pub use context::{BlockShared, Ctx, CtxSet, GridShared, Private, Sharing, default_context};
pub use get::{Destination, get, get_nbi};
pub use global::Global;
pub use half::{bf16, f16};
pub use kernel::*;
pub use mbarrier::{MBarrier, MBarrierWord};
pub use membership::Membership;
pub use order::{fence, flush, quiet, quiet_visible};
pub use packet::{Packet, Payload};
pub use print::gpu_println;
pub use ptr::{PeerPtr, ptr};
pub use reduce::Reduce;
pub use registers::{read, write, write_to};
pub use rma::{Source, g, p, put, put_nbi, put_signal, put_signal_nbi};
pub use serial::Serial;
pub use shared::Shared;
/// ```
/// use shmem::prelude::*;
///
/// #[repr(C)]
/// #[derive(Clone, Copy, KernelArg)]
/// pub struct Job {
///     data: SymSlice<f32>,
///     rounds: u32,
/// }
///
/// #[kernel]
/// pub fn work(job: Job) {
///     job.data.store(0, job.rounds as f32);
/// }
/// ```
pub use shmem_macros::KernelArg;
/// ```
/// use shmem::prelude::*;
///
/// #[kernel(block = 256)]
/// pub fn fill(x: SymSlice<f32>, value: f32) {
///     for i in Block.strided(x.len() as u32) {
///         x.store(i, value);
///     }
/// }
///
/// #[kernel(for<f32>, for<u64>)]
/// pub fn send<T: Pod>(dst: SymSlice<T>, value: T, pe: u32) where T: KernelArg {
///     shmem::p(dst.at(0), value, pe);
/// }
/// ```
pub use shmem_macros::kernel;
/// ```
/// use shmem::prelude::*;
///
/// const ROWS: usize = 4;
/// shmem_sim::run(1, 1, 32, || {
///     shared!(tile: [f32; 32 * ROWS]);
///     tile.chunk(3, 32).store(thread::index(), 1.5);
/// }).unwrap();
/// ```
pub use shmem_macros::shared;
pub use signal::{Action, Counter, CounterWord, Signal, SignalWord, signal_fetch, signal_op, signal_reset};
pub use slice::Index;
pub use strided::{iget, iget_nbi, iput, iput_nbi};
pub use sym::{Sym, SymSlice};
pub use team::{Target, Team, my_pe, n_pes, node, world};
pub use test::{test, test_all, test_any, test_some};
pub use tile::{Block, Cluster, Grid, InBlock, SubWarp, Thread, Tile, Warp, WarpGroup};
pub use vector::{Bf16x2, F16x2};
pub use wait::{eq, ge, gt, le, lt, ne, spin_until, wait_until};
pub use wait_many::{wait_until_all, wait_until_any, wait_until_some};
pub use word::Word;
pub use words::{Against, Except, Found, Words};

/// What a kernel's source usually needs: `use shmem::prelude::*`.
pub mod prelude {
    pub use crate::collective::Collective;
    pub use crate::math::{F32Ext, FloatExt};
    pub use crate::reduce::Reduce;
    pub use crate::tile::{Block, Cluster, Grid, InBlock, SubWarp, Thread, Tile, Warp, WarpGroup};
    pub use crate::wait::{eq, ge, gt, le, lt, ne};
    pub use crate::{
        Counter, CounterWord, Global, KernelArg, Membership, Pod, Shared, Signal, SignalWord, Sym, SymSlice, Target,
        Team, Zeroable, bf16, f16, kernel, shared, thread, warp,
    };
}
