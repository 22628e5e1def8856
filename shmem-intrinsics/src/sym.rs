//! Symmetric objects: the same bits name the same object on every PE.

use crate::arch::{self, Space, Strength};
use crate::slice::slice_methods;
use crate::{Index, KernelArg, Pod, Serial};
use core::marker::PhantomData;

/// A run of elements in the symmetric heap, present on every PE. A handle: Copy, 24 bytes, safe to pass to kernels.
///
/// `load` and `store` reach this PE's own copy; `put`, `get`, `p`, `g` and atomics any PE's. The host makes it with
/// `pe.alloc(n)`; at launch it checks that the object is live, and still the one that the handle was made for ([`Serial`]).
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 1, || {
///     let x = shmem_sim::symmetric::<u32>(12);
///     let row = x.chunk(2, 4); // elements 8..12
///     row.store(1, 7);
///     assert_eq!(x.load(9), 7);
/// }).unwrap();
/// ```
#[repr(C)]
pub struct SymSlice<T> {
    offset: u64,
    len: u64,
    serial: Serial,
    element: PhantomData<fn() -> T>,
}

slice_methods!(SymSlice, offset, Space::Symmetric, Serial::NONE);

/// One element in the symmetric heap, present on every PE: `slice.at(i)`.
#[repr(C)]
pub struct Sym<T> {
    offset: u64,
    serial: Serial,
    element: PhantomData<fn() -> T>,
}

impl<T> Clone for Sym<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Sym<T> {}
impl<T> core::fmt::Debug for Sym<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Sym({:#x})", self.offset)
    }
}

// SAFETY: an offset and a length; every access through it is checked or opaque.
unsafe impl<T: 'static> KernelArg for SymSlice<T> {
    #[cfg(not(target_arch = "nvptx64"))]
    fn regions(&self, visit: &mut dyn FnMut(crate::Region)) {
        visit(crate::Region::Symmetric {
            offset: self.offset,
            bytes: self.len.saturating_mul(size_of::<T>() as u64),
            serial: self.serial,
        });
    }
}

// SAFETY: an offset; the launch checks it.
unsafe impl<T: 'static> KernelArg for Sym<T> {
    #[cfg(not(target_arch = "nvptx64"))]
    fn regions(&self, visit: &mut dyn FnMut(crate::Region)) {
        visit(crate::Region::Symmetric {
            offset: self.offset,
            bytes: size_of::<T>() as u64,
            serial: self.serial,
        });
    }
}

impl<T> SymSlice<T> {
    /// The handle as one of an allocation's.
    #[doc(hidden)]
    #[must_use]
    pub const fn __of(self, serial: Serial) -> Self {
        Self { serial, ..self }
    }

    /// Element i. Faults with `FaultKind::Index` where i is outside.
    #[inline(always)]
    #[track_caller]
    pub fn at(self, i: impl Index) -> Sym<T> {
        Sym {
            offset: self.position(i),
            serial: self.serial,
            element: PhantomData,
        }
    }

    /// Byte offset in the heap.
    #[inline(always)]
    pub(crate) fn offset(self) -> u64 {
        self.offset
    }

    #[inline(always)]
    fn address(offset: u64) -> u64 {
        arch::heap_base() + offset
    }
}

impl<T> Sym<T> {
    /// Byte offset in the heap.
    #[inline(always)]
    pub(crate) fn offset(self) -> u64 {
        self.offset
    }

    /// The allocation that it was made for.
    #[inline(always)]
    pub(crate) fn serial(self) -> Serial {
        self.serial
    }

    /// Address of this PE's own copy.
    #[inline(always)]
    pub(crate) fn address(self) -> u64 {
        arch::heap_base() + self.offset
    }
}

impl<T> Sym<T> {
    /// What lies some bytes inside the element.
    #[inline(always)]
    pub(crate) fn inside<F>(self, bytes: u64) -> Sym<F> {
        Sym {
            offset: self.offset + bytes,
            serial: self.serial,
            element: PhantomData,
        }
    }
}

impl<T: Pod> Sym<T> {
    /// Loads this PE's own copy.
    #[inline(always)]
    #[track_caller]
    pub fn load(self) -> T {
        // SAFETY: `at` found it inside a live object.
        unsafe { arch::load(self.address(), Space::Symmetric, Strength::Weak) }
    }

    /// Stores to this PE's own copy.
    #[inline(always)]
    #[track_caller]
    pub fn store(self, value: T) {
        // SAFETY: as in `load`.
        unsafe { arch::store(self.address(), value, Space::Symmetric, Strength::Weak) }
    }
}
