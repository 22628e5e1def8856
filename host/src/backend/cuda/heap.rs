//! The symmetric heaps: one reservation of addresses, backed in chunks as they are needed.
//!
//! PE i's heap starts at `base + i * stride`, for every device of this process: a location has one address, so no fence for
//! aliases is ever needed. Heaps of PEs of other processes are mapped there too. Chunks stay mapped while the World lives.
//! Where memory is mapped beside kernels that run, the driver may wait for them; so chunks are large, and the first is there
//! before any kernel.
//!
//! Where PEs talk through emulated adapters, the heaps are host memory that every device has mapped, all of it from the start.
//!
//! All heaps grow alike, since allocation is collective: the first PE of a process that comes to a growth makes the chunks of
//! all of them, and swaps with the other processes.

use super::driver::{Address, Driver, input, out};
use super::error::CudaError;
use super::gpu::Gpu;
use super::network::HostMemory;
use super::poll::poll;
use super::register::Retained;
use super::travel::{Kind, Travel};
use crate::backend::{Halt, Watch};
use crate::config::ConfigError;
use crate::heap::Placed;
use crate::heap_stats::Backed;
use crate::register::RegisterError;
use crate::{Error, HeapError, NetworkError};
use cudarc::driver::sys::{CUdevice, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationGranularity_flags};
use cudarc::driver::sys::{CUmemAllocationProp, CUmemAllocationProp_st__bindgen_ty_1};
use cudarc::driver::sys::{CUmemAllocationType, CUmemGenericAllocationHandle, CUmemLocation, CUmemLocationType};
use std::collections::HashMap;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The least that is backed at once.
const CHUNK: u64 = 32 << 20;

pub(super) struct Heap {
    driver: &'static Driver,
    base: Address,
    /// Where the heaps are host memory: that.
    host: Option<HostMemory>,
    stride: u64,
    granularity: u64,
    /// By PE of the World.
    parts: Vec<Part>,
    travel: Option<Travel>,
    growth: Mutex<Growth>,
    /// Memory of the program's own, above what the heap has grown to, by the object's serial.
    registered: Mutex<HashMap<u64, Registered>>,
}

/// Memory of every PE at one range of its heap.
struct Registered {
    offset: u64,
    _chunks: Vec<Chunk>,
}

/// One PE's heap.
pub(super) struct Part {
    /// The device that its memory is on, of this process's; None where another process makes it.
    pub(super) owner: Option<usize>,
    /// Devices of this process that may use it.
    pub(super) users: Vec<usize>,
}

#[derive(Default)]
struct Growth {
    chunks: Vec<Chunk>,
    /// How often heaps grew, by a chunk each.
    grown: u32,
    /// Bytes of each heap that are there.
    backed: u64,
    /// Calls of each PE that have been answered, and the last answer.
    calls: u64,
    answer: Option<Halt>,
}

impl Heap {
    /// Reserves addresses for the PEs' heaps, `bytes` each.
    pub(super) fn reserve(
        driver: &'static Driver,
        parts: Vec<Part>,
        bytes: u64,
        granularity: u64,
        travel: Option<Travel>,
    ) -> Result<Self, Error> {
        let pes = parts.len() as u32;
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
            host: None,
            stride,
            granularity,
            parts,
            travel,
            growth: Mutex::default(),
            registered: Mutex::default(),
        })
    }

    /// Heaps in host memory, `bytes` each, for PEs of this process alone.
    pub(super) fn pinned(gpu: &Gpu, parts: Vec<Part>, bytes: u64, granularity: u64) -> Result<Self, Error> {
        let pes = parts.len() as u32;
        let refused = |cause: String| NetworkError::HostMemory {
            what: "heaps",
            bytes,
            times: pes,
            cause,
        };
        let stride = bytes.checked_next_multiple_of(granularity);
        let size = stride.and_then(|stride| stride.checked_mul(pes.into()));
        let Some((stride, size)) = stride.zip(size) else {
            return Err(refused("more than 64 bits can count".to_owned()).into());
        };
        let memory = HostMemory::new(gpu, size).map_err(|e| refused(e.to_string()))?;
        let growth = Growth {
            backed: stride,
            ..Growth::default()
        };
        Ok(Self {
            driver: gpu.driver,
            base: Address(memory.address()),
            host: Some(memory),
            stride,
            granularity,
            parts,
            travel: None,
            growth: Mutex::new(growth),
            registered: Mutex::default(),
        })
    }

    /// Whether the heaps are host memory.
    pub(super) fn is_pinned(&self) -> bool {
        self.host.is_some()
    }

    pub(super) fn stride(&self) -> u64 {
        self.stride
    }

    /// Where the PE's heap begins.
    pub(super) fn start(&self, pe: u32) -> Address {
        Address(self.base.0 + u64::from(pe) * self.stride)
    }

    /// Whether the device, one of this process's, may use the PE's heap.
    pub(super) fn is_user(&self, device: usize, pe: u32) -> bool {
        self.parts[pe as usize].users.contains(&device)
    }

    /// Backs all heaps up to offset `end`, with zeros. Each PE of the World calls it as often and with the same `end`; this is
    /// its `call`-th call.
    pub(super) fn back(&self, gpus: &[Gpu], end: u64, call: u64, watch: &Watch<'_>) -> Result<(), Halt> {
        let mut growth = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        if growth.calls < call {
            growth.calls = call;
            growth.answer = self.grow(&mut growth, gpus, end, watch).err();
        }
        growth.answer.clone().map_or(Ok(()), Err)
    }

    fn grow(&self, growth: &mut Growth, gpus: &[Gpu], end: u64, watch: &Watch<'_>) -> Result<(), Halt> {
        if end <= growth.backed {
            return Ok(());
        }
        // No block lies beyond the stride, or above memory of the program's own; both are multiples of the granularity.
        let most = self
            .registered()
            .values()
            .map(|other| other.offset)
            .min()
            .unwrap_or(self.stride);
        let size = (end - growth.backed)
            .max(CHUNK)
            .next_multiple_of(self.granularity)
            .min(most - growth.backed);
        let place = |pe| Address(self.start(pe).0 + growth.backed);
        let (mut chunks, refused) = self.make(gpus, size, place);
        if let Some(travel) = &self.travel {
            let handles: Vec<_> = chunks.iter().map(|chunk| chunk.handle).collect();
            let mine = refused.is_none().then_some(&*handles);
            let Some(theirs) = travel.exchange(self.driver, mine, watch)? else {
                // What another process could not make, nobody has.
                return Err(refused.unwrap_or_else(elsewhere).into());
            };
            for (pe, handle) in theirs {
                chunks.push(Chunk::map(
                    self.driver,
                    handle,
                    &self.access(gpus, pe),
                    place(pe),
                    size as usize,
                )?);
            }
        }
        if let Some(refused) = refused {
            return Err(refused.into());
        }
        for (part, pe) in self.parts.iter().zip(0..) {
            if let Some(owner) = part.owner {
                zero(&gpus[owner], place(pe), size, watch)?;
            }
        }
        growth.backed += size;
        growth.grown += 1;
        growth.chunks.append(&mut chunks);
        Ok(())
    }

    /// A chunk for each PE of this process, or as many as there was memory for.
    fn make(&self, gpus: &[Gpu], size: u64, place: impl Fn(u32) -> Address) -> (Vec<Chunk>, Option<Error>) {
        let mut chunks = vec![];
        for (part, pe) in self.parts.iter().zip(0..) {
            let Some(gpu) = part.owner.map(|owner| &gpus[owner]) else {
                continue;
            };
            let kind = self.travel.as_ref().map_or(Kind::Nowhere, |travel| travel.kind);
            let made = create(gpu, size as usize, kind)
                .and_then(|handle| Chunk::map(self.driver, handle, &self.access(gpus, pe), place(pe), size as usize));
            match made {
                Ok(chunk) => chunks.push(chunk),
                Err(cause) => return (chunks, Some(gpu.out_of_memory(pe, size, cause))),
            }
        }
        (chunks, None)
    }

    pub(super) fn granularity(&self) -> u64 {
        self.granularity
    }

    /// Bytes of each heap that are there, and in how many chunks.
    pub(super) fn backed(&self) -> Backed {
        let growth = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        let chunks = if self.is_pinned() { 1 } else { growth.grown };
        Backed {
            bytes: growth.backed,
            chunks,
        }
    }

    fn registered(&self) -> MutexGuard<'_, HashMap<u64, Registered>> {
        self.registered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Maps one piece of memory for each PE of this process, and those of the others, at a range of every heap. Every process
    /// calls it, with the same place.
    pub(super) fn map_registered(
        &self,
        gpus: &[Gpu],
        mine: Vec<(u32, Retained)>,
        at: &Placed,
        watch: &Watch<'_>,
    ) -> Result<(), Error> {
        let theirs = match &self.travel {
            None => vec![],
            Some(travel) => {
                let handles: Vec<_> = mine.iter().map(|(_, retained)| retained.handle).collect();
                let theirs = travel.exchange(self.driver, Some(&handles), watch)?;
                theirs.ok_or_else(elsewhere)?
            }
        };
        let theirs = theirs
            .into_iter()
            .map(|(pe, handle)| (pe, Retained::new(self.driver, handle)));
        let mut chunks = vec![];
        for (owner, retained) in mine.into_iter().chain(theirs) {
            let (handle, address) = (retained.into_raw(), Address(self.start(owner).0 + at.offset));
            let chunk = Chunk::map(
                self.driver,
                handle,
                &self.access(gpus, owner),
                address,
                at.bytes as usize,
            );
            chunks.push(chunk.map_err(|cause| RegisterError::Map {
                owner,
                cause: cause.to_string(),
            })?);
        }
        let registered = Registered {
            offset: at.offset,
            _chunks: chunks,
        };
        self.registered().insert(at.serial, registered);
        Ok(())
    }

    /// Undoes [`map_registered`](Self::map_registered), unless that has been done.
    pub(super) fn unmap_registered(&self, serial: u64) {
        self.registered().remove(&serial);
    }

    fn access(&self, gpus: &[Gpu], pe: u32) -> Vec<CUmemAccessDesc> {
        let users = &self.parts[pe as usize].users;
        users
            .iter()
            .map(|user| CUmemAccessDesc {
                location: location_of(gpus[*user].device),
                flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
            })
            .collect()
    }
}

fn elsewhere() -> Error {
    let cause = "another process could not make its memory".to_owned();
    HeapError::Refused { cause }.into()
}

fn zero(gpu: &Gpu, address: Address, bytes: u64, watch: &Watch<'_>) -> Result<(), Halt> {
    let _current = gpu.enter()?;
    // SAFETY: fresh memory of that size.
    unsafe { gpu.driver.cuMemsetD8Async(address, 0, bytes as usize, gpu.control) }?;
    // SAFETY: the stream is live, and its context current.
    poll(watch, || unsafe { gpu.driver.stream_is_idle(gpu.control) })
}

impl Drop for Heap {
    fn drop(&mut self) {
        self.registered().clear();
        self.growth
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .chunks
            .clear();
        if self.is_pinned() {
            return;
        }
        // SAFETY: what `reserve` was given; nothing is mapped there any more.
        let _ = unsafe {
            self.driver
                .cuMemAddressFree(self.base, self.stride as usize * self.parts.len())
        };
    }
}

fn create(gpu: &Gpu, size: usize, kind: Kind) -> Result<CUmemGenericAllocationHandle, CudaError> {
    let mut handle = 0;
    // SAFETY: the size is a multiple of the granularity.
    unsafe {
        gpu.driver
            .cuMemCreate(out(&mut handle), size, input(&prop_of(gpu, kind)), 0)
    }?;
    Ok(handle)
}

/// Memory that is mapped.
pub(super) struct Chunk {
    driver: &'static Driver,
    address: Address,
    size: usize,
    handle: CUmemGenericAllocationHandle,
    mapped: bool,
}

impl Chunk {
    /// Maps the memory, which is released with the chunk. Where nobody may use it, it is only kept.
    fn map(
        driver: &'static Driver,
        handle: CUmemGenericAllocationHandle,
        access: &[CUmemAccessDesc],
        address: Address,
        size: usize,
    ) -> Result<Self, CudaError> {
        let mut chunk = Self {
            driver,
            address,
            size,
            handle,
            mapped: false,
        };
        if access.is_empty() {
            return Ok(chunk);
        }
        // SAFETY: the range is reserved, and nothing is mapped there.
        unsafe { driver.cuMemMap(address, size, 0, handle, 0) }?;
        chunk.mapped = true;
        // SAFETY: the range is mapped as a whole.
        unsafe { driver.cuMemSetAccess(address, size, access.as_ptr(), access.len()) }?;
        Ok(chunk)
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if self.mapped {
            // SAFETY: mapped as a whole, and nothing uses it any more.
            let _ = unsafe { self.driver.cuMemUnmap(self.address, self.size) };
        }
        // SAFETY: created or imported for this chunk, released once.
        let _ = unsafe { self.driver.cuMemRelease(self.handle) };
    }
}

fn location_of(device: CUdevice) -> CUmemLocation {
    CUmemLocation {
        type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
        id: device,
    }
}

/// What is to be given away, and the flag for NICs, can only be said when memory is made.
fn prop_of(gpu: &Gpu, kind: Kind) -> CUmemAllocationProp {
    CUmemAllocationProp {
        type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: kind.raw(),
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

/// What sizes of chunks on the device are multiples of.
pub(super) fn granularity(gpu: &Gpu, kind: Kind) -> Result<u64, CudaError> {
    let mut granularity = 0;
    let option = CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
    // SAFETY: the prop names a device that exists.
    unsafe {
        gpu.driver
            .cuMemGetAllocationGranularity(out(&mut granularity), input(&prop_of(gpu, kind)), option)
    }?;
    Ok(granularity as u64)
}
