//! Memory of a device that adapters read and write, and registers of adapters that its kernels write.

use crate::backend::cuda::driver::{Address, Driver, out};
use crate::backend::cuda::error::CudaError;
use crate::backend::cuda::gpu::{Context, Gpu};
use crate::backend::cuda::poll::settle;
use cudarc::driver::sys::CUmemRangeHandleType;
use shmem_ibgda::memory::MemoryError;
use shmem_ibgda::{DmaBuf, Memory, QueueMemory, Region, Request};
use std::ffi::{c_int, c_void};
use std::os::fd::{FromRawFd, OwnedFd};

/// What the ends of a dma-buf are multiples of, on any host.
const PAGE: u64 = 64 << 10;
/// Registers: mapped for every context, and not memory.
const REGISTERS: u32 = cudarc::driver::sys::CU_MEMHOSTREGISTER_PORTABLE
    | cudarc::driver::sys::CU_MEMHOSTREGISTER_DEVICEMAP
    | cudarc::driver::sys::CU_MEMHOSTREGISTER_IOMEMORY;

/// A range of device memory as adapters are told of it; None where the driver or the device makes no dma-bufs: adapters then take
/// the address, which needs nvidia-peermem.
pub(super) fn dma_buf(gpu: &Gpu, address: u64, bytes: u64) -> Result<Option<DmaBuf>, CudaError> {
    let (_current, mut fd): (_, c_int) = (gpu.enter()?, -1);
    let kind = CUmemRangeHandleType::CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
    // SAFETY: a range that is mapped as a whole; a handle of this kind is a file descriptor.
    let made = unsafe {
        gpu.driver
            .cuMemGetHandleForAddressRange(out(&mut fd).untyped(), Address(address), bytes as usize, kind, 0)
    };
    Ok((made.is_ok() && fd >= 0).then(|| DmaBuf {
        // SAFETY: the driver made it for this caller.
        fd: unsafe { OwnedFd::from_raw_fd(fd) },
        offset: 0,
    }))
}

/// What was made for queues; freed when it is dropped, before the device.
pub(super) struct DeviceMemory {
    context: Context,
    what: What,
}

enum What {
    Memory(Address),
    /// Registers, where the host has them.
    Registers(u64),
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // Refusals mean that the context is lost.
        if let Ok(_current) = self.context.enter() {
            let driver = self.context.driver;
            match self.what {
                // SAFETY: allocated in `allocate`; queue pairs and kernels have ended.
                What::Memory(address) => drop(unsafe { driver.cuMemFree_v2(address) }),
                What::Registers(address) => {
                    let host = std::ptr::with_exposed_provenance_mut::<c_void>(address as usize);
                    // SAFETY: registered in `map_registers`; kernels have ended.
                    drop(unsafe { driver.cuMemHostUnregister(host) });
                }
            }
        }
    }
}

/// Gives one PE's queues memory of its device.
pub(super) struct Queues<'a> {
    gpu: &'a Gpu,
    memory: Vec<DeviceMemory>,
}

impl<'a> Queues<'a> {
    pub(super) fn new(gpu: &'a Gpu) -> Self {
        Self { gpu, memory: vec![] }
    }

    pub(super) fn into_memory(self) -> Vec<DeviceMemory> {
        self.memory
    }

    fn driver(&self) -> &'static Driver {
        self.gpu.driver
    }

    fn keep(&mut self, what: What) {
        self.memory.push(DeviceMemory {
            context: self.gpu.context(),
            what,
        });
    }

    fn make(&mut self, bytes: u64, fill: u8) -> Result<u64, CudaError> {
        let (_current, mut start) = (self.gpu.enter()?, Address(0));
        let whole = bytes.next_multiple_of(PAGE);
        // SAFETY: a context is current; freed by what keeps it.
        unsafe { self.driver().cuMemAlloc_v2(out(&mut start), (whole + PAGE) as usize) }?;
        self.keep(What::Memory(start));
        let address = start.0.next_multiple_of(PAGE);
        // SAFETY: inside the fresh memory.
        unsafe {
            self.driver()
                .cuMemsetD8Async(Address(address), fill, whole as usize, self.gpu.control)
        }?;
        // SAFETY: the stream is live, and its context current.
        settle(|| unsafe { self.driver().stream_is_idle(self.gpu.control) })?;
        Ok(address)
    }

    fn map(&mut self, address: u64, bytes: u64) -> Result<u64, CudaError> {
        let (_current, mut device) = (self.gpu.enter()?, Address(0));
        let host = std::ptr::with_exposed_provenance_mut::<c_void>(address as usize);
        // SAFETY: registers that stay mapped until the endpoint is dropped.
        unsafe { self.driver().cuMemHostRegister_v2(host, bytes as usize, REGISTERS) }?;
        self.keep(What::Registers(address));
        // SAFETY: the start of what was just registered with DEVICEMAP.
        unsafe { self.driver().cuMemHostGetDevicePointer_v2(out(&mut device), host, 0) }?;
        Ok(device.0)
    }
}

impl QueueMemory for Queues<'_> {
    fn allocate(&mut self, request: &Request) -> Result<Region, MemoryError> {
        let address = self.make(request.bytes, request.fill)?;
        let dma_buf = dma_buf(self.gpu, address, request.bytes.next_multiple_of(PAGE))?;
        Ok(Region {
            address,
            memory: Memory { address, dma_buf },
        })
    }

    fn map_registers(&mut self, address: u64, bytes: u64) -> Result<u64, MemoryError> {
        Ok(self.map(address, bytes)?)
    }
}
