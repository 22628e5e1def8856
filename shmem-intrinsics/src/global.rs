//! Ordinary device memory of one PE.

use crate::arch::Space;
use crate::slice::slice_methods;
use crate::{KernelArg, Pod, Serial};
use core::marker::PhantomData;

/// A run of elements in this PE's device memory, which no other PE reaches. The host makes it with `pe.buffer(n)`.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(1, 1, 32, || {
///     let x = shmem_sim::global::<f32>(32);
///     x.store(thread::index(), 0.5);
///     assert_eq!(x.load(thread::index()), 0.5);
/// }).unwrap();
/// ```
#[repr(C)]
pub struct Global<T> {
    address: u64,
    len: u64,
    serial: Serial,
    element: PhantomData<fn() -> T>,
}

slice_methods!(Global, address, Space::Global, Serial::NONE);

impl<T> Global<T> {
    /// The handle as one of an allocation's.
    #[doc(hidden)]
    #[must_use]
    pub const fn __of(self, serial: Serial) -> Self {
        Self { serial, ..self }
    }

    #[inline(always)]
    pub(crate) fn address(address: u64) -> u64 {
        address
    }

    #[inline(always)]
    pub(crate) fn start(self) -> u64 {
        self.address
    }

    /// What lies some bytes inside the first element.
    #[inline(always)]
    pub(crate) fn inside<F>(self, bytes: u64) -> Global<F> {
        Global {
            address: self.address + bytes,
            len: 1,
            serial: self.serial,
            element: PhantomData,
        }
    }
}

// SAFETY: an address and a length; every access through it is checked and opaque, and the launch checks that it is live.
unsafe impl<T: Pod> KernelArg for Global<T> {
    #[cfg(not(target_arch = "nvptx64"))]
    fn regions(&self, visit: &mut dyn FnMut(crate::Region)) {
        visit(crate::Region::Global {
            address: self.address,
            bytes: self.len.saturating_mul(size_of::<T>() as u64),
            serial: self.serial,
        });
    }
}
