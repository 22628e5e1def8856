//! Memory that the caller hands in: chunks of the symmetric heap, and what queues are made of.

use std::os::fd::OwnedFd;

/// Device memory as a file descriptor that adapters can be told of (`cuMemGetHandleForAddressRange`).
#[derive(Debug)]
pub struct DmaBuf {
    /// The dma-buf. Not needed any more when its memory is registered.
    pub fd: OwnedFd,
    /// Where the memory starts in it.
    pub offset: u64,
}

/// Memory, as an adapter is told of it.
#[derive(Debug)]
pub struct Memory {
    /// Its address in this process: of the host, or of a device.
    pub address: u64,
    /// For device memory: its dma-buf. Without one, or where the kernel does not take it, the address itself is
    /// registered, which for device memory needs the module nvidia-peermem.
    pub dma_buf: Option<DmaBuf>,
}

impl Memory {
    /// Memory that needs nothing but its address: the host's, and that of emulated devices.
    pub fn at(address: u64) -> Self {
        Self { address, dma_buf: None }
    }
}

/// What a piece of queue memory is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Part {
    /// Work queue entries, written by kernels and read by the adapter.
    Ring,
    /// Doorbell records, written by kernels and read by the adapter.
    Record,
    /// Completions, written by the adapter and read by kernels.
    Completion,
    /// Where answers of reads and atomics land: written by the adapter, read by kernels.
    Landing,
}

/// Memory that is needed for queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// What for.
    pub part: Part,
    /// Bytes.
    pub bytes: u64,
    /// What its addresses must be multiples of.
    pub align: u64,
    /// What every byte of it must be before it is handed in.
    pub fill: u8,
}

/// Memory that is handed in for queues.
#[derive(Debug)]
pub struct Region {
    /// Its address as kernels see it.
    pub address: u64,
    /// The same, as the adapter is told of it.
    pub memory: Memory,
}

impl Region {
    /// Memory that has one address for all: that of a device under unified addressing, or of an emulated one.
    pub fn at(address: u64) -> Self {
        Self {
            address,
            memory: Memory::at(address),
        }
    }
}

/// Why the caller has no memory.
pub type MemoryError = Box<dyn std::error::Error + Send + Sync>;

/// Where queues come to lie. A closure is one, whose registers are seen by kernels at the address where the host has
/// them.
pub trait QueueMemory {
    /// Memory for queues. It stays as long as the endpoint does.
    ///
    /// # Errors
    /// Whatever the caller says.
    fn allocate(&mut self, request: &Request) -> Result<Region, MemoryError>;

    /// Maps `bytes` of registers, which the host has at `address`, for kernels (`cuMemHostRegister` with `IOMEMORY`):
    /// the address there.
    ///
    /// # Errors
    /// Whatever the caller says.
    fn map_registers(&mut self, address: u64, bytes: u64) -> Result<u64, MemoryError> {
        let _ = bytes;
        Ok(address)
    }
}

impl<F: FnMut(&Request) -> Result<Region, MemoryError>> QueueMemory for F {
    fn allocate(&mut self, request: &Request) -> Result<Region, MemoryError> {
        self(request)
    }
}
