//! Shared memory: arrays of one block.

use crate::arch::{self, Space};
use crate::slice::slice_methods;
use core::marker::PhantomData;

/// An array in the block's shared memory, made by [`shared!`](crate::shared!) or [`dynamic`]. What it holds at the
/// kernel's start is unspecified.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(1, 1, 64, || {
///     shared!(tile: [u32; 64]);
///     tile.store(thread::index(), 3);
///     Block.sync();
///     assert_eq!(tile.load(63 - thread::index()), 3);
/// }).unwrap();
/// ```
pub struct Shared<T> {
    start: u64,
    len: u64,
    /// An array ends with its block: no launch looks for it.
    serial: (),
    element: PhantomData<fn() -> T>,
}

slice_methods!(Shared, start, Space::Shared, ());

impl<T> Shared<T> {
    #[inline(always)]
    fn address(start: u64) -> u64 {
        start
    }

    #[inline(always)]
    pub(crate) fn start(self) -> u64 {
        self.start
    }
}

/// The launch's dynamic shared memory (`<<<grid, block, shared_bytes>>>`) as one array of `T`, as many as fit.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::Sim::new(1).block(32).shared_bytes(256).run(|| {
///     let all = shmem::shared::dynamic::<u64>();
///     assert_eq!(all.len(), 32);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn dynamic<T: crate::Pod>() -> Shared<T> {
    const { assert!(size_of::<T>() != 0, "elements of shared memory have bytes") };
    let (start, bytes) = arch::dynamic_shared();
    Shared::__new(start, bytes / size_of::<T>() as u64)
}

/// Two words for broadcasts, of the block and of its cluster.
#[inline(always)]
#[track_caller]
pub(crate) fn scratch() -> Shared<u64> {
    Shared::__new(arch::scratch(), 2)
}

/// What a block may declare; more is dynamic.
#[doc(hidden)]
pub const fn __check_array<T>(len: usize) {
    assert!(
        len != 0 && size_of::<T>() != 0,
        "a shared array has at least one element, and elements have bytes"
    );
    assert!(
        len <= (48 << 10) / size_of::<T>(),
        "a block declares at most 48 KiB of shared memory: take more as dynamic shared memory (shmem::shared::dynamic)"
    );
}

/// The array of `shared!` where there is no GPU.
#[doc(hidden)]
#[cfg(not(target_arch = "nvptx64"))]
#[track_caller]
pub fn __hosted<T>(id: u64, len: usize) -> Shared<T> {
    Shared::__new(arch::shared(id, len * size_of::<T>()), len as u64)
}
