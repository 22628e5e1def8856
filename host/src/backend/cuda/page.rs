//! Host memory that a PE's kernels write: its fault record.

use super::driver::{Address, Driver, out};
use super::error::CudaError;
use shmem::state::FaultRecord;
use std::ffi::c_void;
use std::ptr;

/// Visible to every context, and mapped for devices.
const FLAGS: u32 = cudarc::driver::sys::CU_MEMHOSTALLOC_PORTABLE | cudarc::driver::sys::CU_MEMHOSTALLOC_DEVICEMAP;

#[repr(C)]
struct Contents {
    record: FaultRecord,
    /// What is copied over the abort word. Pinned, so that the copy needs no staging.
    one: u32,
}

pub(super) struct Page {
    driver: &'static Driver,
    host: *mut Contents,
    /// The record, as kernels see it.
    pub(super) record: Address,
}

// SAFETY: the host only reads the page once it is made, volatile or through the driver.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    /// A page for kernels of the current context.
    pub(super) fn new(driver: &'static Driver) -> Result<Self, CudaError> {
        let mut host: *mut c_void = ptr::null_mut();
        // SAFETY: a context is current; `drop` frees it.
        unsafe { driver.cuMemHostAlloc(out(&mut host), size_of::<Contents>(), FLAGS) }?;
        let contents = Contents {
            record: FaultRecord::EMPTY,
            one: 1,
        };
        let mut page = Self {
            driver,
            host: host.cast(),
            record: Address(0),
        };
        // SAFETY: fresh memory of that size, aligned to a page.
        unsafe { page.host.write(contents) };
        // SAFETY: the start of what was just allocated with DEVICEMAP.
        unsafe { driver.cuMemHostGetDevicePointer_v2(out(&mut page.record), host, 0) }?;
        Ok(page)
    }

    /// The record, once a kernel has completed it.
    pub(super) fn fault(&self) -> Option<FaultRecord> {
        let record = self.host.cast::<FaultRecord>();
        // SAFETY: the page is live, and the record's first field; kernels write it, so it is read as volatile.
        let ready = unsafe { (&raw const (*record).ready).read_volatile() };
        if ready == 0 {
            return None;
        }
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        // SAFETY: as above; whoever set `ready` had written everything else, and nobody writes it again.
        Some(unsafe { record.read_volatile() })
    }

    pub(super) fn one(&self) -> *const c_void {
        // SAFETY: the page is live.
        unsafe { (&raw const (*self.host).one).cast() }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: allocated in `new`; no kernel runs any more.
        let _ = unsafe { self.driver.cuMemFreeHost(self.host.cast()) };
    }
}
