//! Host memory that every device has mapped, where the host has it.

use crate::NetworkError;
use crate::backend::cuda::driver::{Address, out};
use crate::backend::cuda::error::CudaError;
use crate::backend::cuda::gpu::{Context, Gpu};
use std::ffi::c_void;
use std::ptr::{self, NonNull};

/// Visible to every context, and mapped for devices.
const FLAGS: u32 = cudarc::driver::sys::CU_MEMHOSTALLOC_PORTABLE | cudarc::driver::sys::CU_MEMHOSTALLOC_DEVICEMAP;

/// Pinned memory, zero at first, aligned to a page. Devices and the host have it at the same address. The device that it was made
/// for lives longer.
pub(crate) struct HostMemory {
    context: Context,
    start: NonNull<u8>,
}

// SAFETY: whoever uses the memory through `start` says how it is shared.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    pub(crate) fn new(gpu: &Gpu, bytes: u64) -> Result<Self, HostMemoryError> {
        let (context, _current) = (gpu.context(), gpu.enter()?);
        let (mut host, bytes): (*mut c_void, _) = (ptr::null_mut(), bytes.max(1) as usize);
        // SAFETY: a context is current; `drop` frees it.
        unsafe { gpu.driver.cuMemHostAlloc(out(&mut host), bytes, FLAGS) }?;
        let Some(start) = NonNull::new(host.cast::<u8>()) else {
            return Err(HostMemoryError::Null);
        };
        let memory = Self { context, start };
        // SAFETY: fresh memory of that size.
        unsafe { ptr::write_bytes(start.as_ptr(), 0, bytes) };
        let mut device = Address(0);
        // SAFETY: the start of what was just allocated with DEVICEMAP.
        unsafe { gpu.driver.cuMemHostGetDevicePointer_v2(out(&mut device), host, 0) }?;
        if device.0 != memory.address() {
            return Err(HostMemoryError::Elsewhere(NetworkError::Address {
                host: memory.address(),
                device: device.0,
            }));
        }
        Ok(memory)
    }

    /// For the host and for devices.
    pub(crate) fn address(&self) -> u64 {
        self.start.as_ptr().expose_provenance() as u64
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // Refusals mean that the context is lost.
        if let Ok(_current) = self.context.enter() {
            // SAFETY: allocated in `new`; nothing uses it any more.
            let _ = unsafe { self.context.driver.cuMemFreeHost(self.start.as_ptr().cast()) };
        }
    }
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HostMemoryError {
    #[error(transparent)]
    Cuda(#[from] CudaError),
    #[error(transparent)]
    Elsewhere(NetworkError),
    #[error("the driver gave no address")]
    Null,
}
