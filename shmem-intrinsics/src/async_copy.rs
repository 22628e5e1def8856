//! Copies into shared memory that go on while the thread computes (`cp.async`).
//!
//! | call | PTX | afterwards |
//! |---|---|---|
//! | [`copy_async`] | `cp.async.ca` of 4 or 8 bytes, `cp.async.cg` of 16 | nothing is in place yet |
//! | [`commit`] | `cp.async.commit_group` | this thread's copies since the last one are a group |
//! | [`wait_group::<N>`](wait_group) | `cp.async.wait_group N` | all but this thread's newest N groups are in place, for this thread |
//!
//! A thread waits for its own copies; a sync of the tile then shows them to the others. The simulator places nothing before
//! the wait, so that a missing wait or commit shows.
//!
//! ```
//! use shmem::async_copy::{commit, copy_async, wait_group};
//! use shmem::prelude::*;
//! shmem_sim::run(1, 1, 32, || {
//!     shared!(stage: [u32; 128]);
//!     let x = shmem_sim::symmetric_with::<u32>(256, |_, i| i as u32);
//!     let half = |k: u32| (stage.chunk(k, 64), x.chunk(k, 64));
//!     for k in 0..2 {
//!         let (dst, src) = half(k);
//!         copy_async(Block, dst, src);
//!         commit();
//!     }
//!     wait_group::<1>(); // the first half is in place, the second may be on its way
//!     Block.sync();
//!     assert_eq!(stage.load(63 - thread::index()), 63 - thread::index());
//!     wait_group::<0>();
//! }).unwrap();
//! ```

use crate::arch::{self, Span};
use crate::fault::{FaultKind, check};
use crate::rma::Source;
use crate::tile::InBlock;
use crate::{Global, Pod, Shared, SymSlice};

/// Where an asynchronous copy reads: [`SymSlice`] (this PE's own copy), [`Global`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be copied to shared memory asynchronously",
    note = "cp.async reads device memory: SymSlice or Global, of the destination's element"
)]
pub trait DeviceMemory<T: Pod, G: InBlock>: Source<T, G> {}
impl<T: Pod, G: InBlock> DeviceMemory<T, G> for SymSlice<T> {}
impl<T: Pod, G: InBlock> DeviceMemory<T, G> for Global<T> {}

/// Begins to copy `src` to `dst`, both of the same length in elements of 4, 8 or 16 bytes: the members share them out, rank,
/// rank + size, .. All members call it. `dst` must not be touched, nor `src` written, before [`wait_group`] and then a sync.
///
/// PTX `cp.async`, CUDA `__pipeline_memcpy_async`. Faults with `FaultKind::Length`.
#[inline(always)]
#[track_caller]
pub fn copy_async<G: InBlock, T: Pod>(tile: G, dst: Shared<T>, src: impl DeviceMemory<T, G>) {
    const {
        assert!(
            matches!(size_of::<T>(), 4 | 8 | 16) && align_of::<T>() == size_of::<T>(),
            "an element that is copied asynchronously has 4, 8 or 16 bytes and the alignment of its size: cast() to a vector"
        )
    };
    check(dst.len() == src.__len(), FaultKind::Length, dst.len(), src.__len());
    let Span { address, space } = src.__span();
    let (size, step) = (size_of::<T>() as u64, u64::from(tile.size()));
    let mut i = u64::from(tile.rank());
    while i < dst.len() {
        // SAFETY: element i of both objects.
        unsafe { arch::copy_async::<T>(dst.start() + i * size, address + i * size, space) };
        i += step;
    }
}

/// Makes a group of what this thread has begun to copy since its last commit. One thread's own.
///
/// PTX `cp.async.commit_group`.
#[inline(always)]
#[track_caller]
pub fn commit() {
    arch::commit_async();
}

/// Waits until all but the newest N of this thread's groups are in place. One thread's own: a sync shows them to others.
/// What isn't committed isn't waited for.
///
/// PTX `cp.async.wait_group`.
#[inline(always)]
#[track_caller]
pub fn wait_group<const N: u32>() {
    arch::wait_async::<N>();
}
