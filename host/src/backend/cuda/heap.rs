//! The symmetric heaps: one reservation of addresses, backed in chunks as they are needed.
//!
//! PE i's heap starts at `base + i * stride`, for every device of this process: a location has one address, so no fence for
//! aliases is ever needed. Chunks stay mapped while the World lives. Where memory is mapped beside kernels that run, the
//! driver may wait for them; so chunks are large, and the first is there before any kernel.

use super::driver::{Address, Driver, out};
use super::error::CudaError;
use super::gpu::Gpu;
use crate::Error;
use crate::config::ConfigError;
use cudarc::driver::sys::{CUdevice, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationGranularity_flags};
use cudarc::driver::sys::{CUmemAllocationHandleType, CUmemAllocationProp, CUmemAllocationProp_st__bindgen_ty_1};
use cudarc::driver::sys::{CUmemAllocationType, CUmemGenericAllocationHandle, CUmemLocation, CUmemLocationType};
use std::ptr;
use std::sync::{Mutex, PoisonError};

/// The least that is backed at once.
const CHUNK: u64 = 32 << 20;

pub(super) struct Heap {
    driver: &'static Driver,
    base: Address,
    stride: u64,
    granularity: u64,
    parts: Vec<Part>,
}

/// One PE's heap.
struct Part {
    prop: CUmemAllocationProp,
    /// Who may use it: every device that reaches this one.
    access: Vec<CUmemAccessDesc>,
    chunks: Mutex<Vec<Chunk>>,
}

// SAFETY: the only pointer in it is the prop's Windows security descriptor, which is null.
unsafe impl Send for Part {}
// SAFETY: as above.
unsafe impl Sync for Part {}

impl Heap {
    /// Reserves addresses for the PEs' heaps, `bytes` each; PE i's memory will be on `gpus[owners[i]]`.
    pub(super) fn reserve(gpus: &[Gpu], owners: &[usize], bytes: u64) -> Result<Self, Error> {
        let driver = gpus[0].driver;
        let mut granularity = 1;
        for gpu in gpus {
            granularity = granularity.max(granularity_of(driver, &prop_of(gpu))?);
        }
        let parts = owners
            .iter()
            .map(|&owner| Part::new(gpus, owner))
            .collect::<Result<_, _>>()?;
        let pes = owners.len() as u32;
        let refused = |cause: String| ConfigError::HeapAddresses {
            pes,
            per_pe: bytes,
            cause,
        };
        let stride = bytes.checked_next_multiple_of(granularity);
        let Some((stride, size)) = stride.and_then(|stride| Some((stride, stride.checked_mul(pes.into())?))) else {
            return Err(refused("more than 64 bits can count".to_owned()).into());
        };
        let mut base = Address(0);
        // SAFETY: the size is a multiple of the granularity, which is one of the page size.
        unsafe { driver.cuMemAddressReserve(out(&mut base), size as usize, granularity as usize, Address(0), 0) }
            .map_err(|e| refused(e.to_string()))?;
        Ok(Self {
            driver,
            base,
            stride,
            granularity,
            parts,
        })
    }

    pub(super) fn stride(&self) -> u64 {
        self.stride
    }

    /// Where the PE's heap begins.
    pub(super) fn start(&self, pe: u32) -> Address {
        Address(self.base.0 + u64::from(pe) * self.stride)
    }

    /// Backs the PE's heap up to offset `end`; returns start and length of what is fresh. Its contents are not specified.
    pub(super) fn back(&self, pe: u32, end: u64) -> Result<Option<(Address, u64)>, Refused> {
        let part = &self.parts[pe as usize];
        let mut chunks = part.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        let backed: u64 = chunks.iter().map(|chunk| chunk.size as u64).sum();
        if end <= backed {
            return Ok(None);
        }
        // The stride is a multiple of the granularity, and no block lies beyond it.
        let size = (end - backed)
            .max(CHUNK)
            .next_multiple_of(self.granularity)
            .min(self.stride - backed);
        let address = Address(self.start(pe).0 + backed);
        let chunk = Chunk::map(self.driver, part, address, size as usize).map_err(|cause| Refused { size, cause })?;
        chunks.push(chunk);
        Ok(Some((address, size)))
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        for part in &mut self.parts {
            part.chunks.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
        }
        // SAFETY: what `reserve` was given; nothing is mapped there any more.
        let _ = unsafe {
            self.driver
                .cuMemAddressFree(self.base, self.stride as usize * self.parts.len())
        };
    }
}

/// A chunk that was not to be had.
pub(super) struct Refused {
    pub(super) size: u64,
    pub(super) cause: CudaError,
}

impl Part {
    fn new(gpus: &[Gpu], owner: usize) -> Result<Self, CudaError> {
        let mut access = vec![];
        for gpu in gpus {
            if gpu.reaches(&gpus[owner])? {
                let flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
                access.push(CUmemAccessDesc {
                    location: location_of(gpu.device),
                    flags,
                });
            }
        }
        Ok(Self {
            prop: prop_of(&gpus[owner]),
            access,
            chunks: Mutex::default(),
        })
    }
}

/// Memory that is mapped.
struct Chunk {
    driver: &'static Driver,
    address: Address,
    size: usize,
    handle: CUmemGenericAllocationHandle,
    mapped: bool,
}

impl Chunk {
    fn map(driver: &'static Driver, part: &Part, address: Address, size: usize) -> Result<Self, CudaError> {
        let mut handle = 0;
        // SAFETY: the size is a multiple of the granularity.
        unsafe { driver.cuMemCreate(out(&mut handle), size, &part.prop, 0) }?;
        let mut chunk = Self {
            driver,
            address,
            size,
            handle,
            mapped: false,
        };
        // SAFETY: the range is reserved, and nothing is mapped there.
        unsafe { driver.cuMemMap(address, size, 0, handle, 0) }?;
        chunk.mapped = true;
        // SAFETY: the range is mapped as a whole.
        unsafe { driver.cuMemSetAccess(address, size, part.access.as_ptr(), part.access.len()) }?;
        Ok(chunk)
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if self.mapped {
            // SAFETY: mapped as a whole, and nothing uses it any more.
            let _ = unsafe { self.driver.cuMemUnmap(self.address, self.size) };
        }
        // SAFETY: created in `map`, released once.
        let _ = unsafe { self.driver.cuMemRelease(self.handle) };
    }
}

fn location_of(device: CUdevice) -> CUmemLocation {
    CUmemLocation {
        type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
        id: device,
    }
}

/// Handle types and the flag for NICs can only be set when memory is made, so they are set wherever the device has them.
fn prop_of(gpu: &Gpu) -> CUmemAllocationProp {
    CUmemAllocationProp {
        type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: if gpu.shareable {
            CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        } else {
            CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE
        },
        location: location_of(gpu.device),
        win32HandleMetaData: ptr::null_mut(),
        allocFlags: CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: gpu.rdma.into(),
            usage: 0,
            reserved: [0; 4],
        },
    }
}

fn granularity_of(driver: &Driver, prop: &CUmemAllocationProp) -> Result<u64, CudaError> {
    let mut granularity = 0;
    let option = CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
    // SAFETY: the prop names a device that exists.
    unsafe { driver.cuMemGetAllocationGranularity(out(&mut granularity), prop, option) }?;
    Ok(granularity as u64)
}
