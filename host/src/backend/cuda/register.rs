//! Memory of the program's own, looked at and held until it is mapped.

use super::Cuda;
use super::driver::{Address, Driver, out};
use super::error::CudaError;
use crate::Error;
use crate::backend::Watch;
use crate::heap::Placed;
use crate::processes::Group;
use crate::register::{RegisterError, UserMemory};
use cudarc::driver::sys::{CUmemAllocationHandleType, CUmemAllocationProp, CUmemGenericAllocationHandle};
use std::mem::MaybeUninit;
use std::sync::PoisonError;

/// A handle of memory, which keeps it.
pub(super) struct Retained {
    driver: &'static Driver,
    pub(super) handle: CUmemGenericAllocationHandle,
}

impl Retained {
    /// Takes the handle over.
    pub(super) fn new(driver: &'static Driver, handle: CUmemGenericAllocationHandle) -> Self {
        Self { driver, handle }
    }

    /// Gives the handle away, to be released.
    pub(super) fn into_raw(self) -> CUmemGenericAllocationHandle {
        let handle = self.handle;
        std::mem::forget(self);
        handle
    }
}

impl Drop for Retained {
    fn drop(&mut self) {
        // SAFETY: this one's to release.
        let _ = unsafe { self.driver.cuMemRelease(self.handle) };
    }
}

impl Cuda {
    /// On the PE's thread, where its device's context is current.
    pub(super) fn hold_device(&self, pe: u32, memory: UserMemory<'_>, bytes: u64) -> Result<(), RegisterError> {
        let UserMemory::Device { address } = memory else {
            return Err(RegisterError::OtherKind {
                pe,
                given: "a file",
                backend: "cuda",
                takes: "device memory: UserMemory::Device, of cuMemCreate",
            });
        };
        if self.heap.is_pinned() {
            return Err(RegisterError::OtherKind {
                pe,
                given: "device memory",
                backend: "cuda with emulated adapters",
                takes: "nothing: they reach host memory that Pe::alloc gives",
            });
        }
        let no_handle = |cause: &dyn std::fmt::Display| RegisterError::NoHandle {
            pe,
            cause: cause.to_string(),
        };
        let gpu = self.gpu(pe);
        let refused = |cause: CudaError| no_handle(&cause);
        let mut handle = 0;
        // SAFETY: any address may be asked for.
        unsafe {
            gpu.driver
                .cuMemRetainAllocationHandle(out(&mut handle), Address(address))
        }
        .map_err(refused)?;
        let retained = Retained::new(gpu.driver, handle);
        let mut prop = MaybeUninit::<CUmemAllocationProp>::zeroed();
        // SAFETY: the handle is live; zeros are a prop, which the driver fills in.
        let prop = unsafe {
            gpu.driver
                .cuMemGetAllocationPropertiesFromHandle(out(prop.assume_init_mut()), handle)
                .map(|()| prop.assume_init())
        }
        .map_err(refused)?;
        let descriptor = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.0;
        if prop.requestedHandleTypes.0 & descriptor == 0 {
            return Err(no_handle(&"it was made without a handle type that can be exported"));
        }
        if prop.location.id != gpu.device {
            let cause = format!("it is on device {}, the PE on device {}", prop.location.id, gpu.device);
            return Err(no_handle(&cause));
        }
        let (mut base, mut there) = (Address(0), 0);
        // SAFETY: something is mapped at the address.
        unsafe {
            gpu.driver
                .cuMemGetAddressRange_v2(out(&mut base), out(&mut there), Address(address))
        }
        .map_err(refused)?;
        if base.0 != address {
            let cause = format!("its mapping begins at {base:?}, not at {address:#x}: an object begins there");
            return Err(no_handle(&cause));
        }
        if (there as u64) < bytes {
            return Err(RegisterError::TooShort {
                pe,
                asked: bytes,
                there: there as u64,
                page: self.heap.granularity(),
            });
        }
        self.held().insert(pe, retained);
        Ok(())
    }

    pub(super) fn map_device(&self, group: &Group, pe: u32, at: &Placed) -> Result<(), Error> {
        let local = group.layout.local();
        if pe != local.start {
            return Ok(());
        }
        let mine = {
            let mut held = self.held();
            local.filter_map(|pe| Some((pe, held.remove(&pe)?))).collect()
        };
        let failed = || group.failure().is_some();
        let watch = Watch {
            failed: &failed,
            limit: self.time_limit,
        };
        self.heap.map_registered(&self.gpus, mine, at, &watch)
    }

    pub(super) fn held(&self) -> std::sync::MutexGuard<'_, std::collections::HashMap<u32, Retained>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
