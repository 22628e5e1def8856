//! Emulated adapters: one for each PE of this process, which holds all PEs.

use super::adapter::{Adapters, Known};
use super::choice::Emulation;
use super::memory::{HostMemory, HostMemoryError};
use super::{Network, setup, tables};
use crate::backend::cuda::gpu::Gpu;
use crate::backend::cuda::heap::Heap;
use crate::{Error, NetworkError};
use shmem::state::SystemArea;
use shmem_hca::{Config, Fabric, Pinned, Place, Space};
use shmem_ibgda::emulated::PageMemory;
use shmem_ibgda::memory::MemoryError;
use shmem_ibgda::{Blob, Emulated, Endpoint, Link, Memory, Pages, Region, Request, Settings};
use std::sync::{Arc, Mutex, PoisonError};

/// A page of registers.
const PAGE: u64 = 4096;

impl Network {
    /// Emulated adapters for all PEs, whose heaps are host memory. `owners` are their devices.
    pub(super) fn emulate(wanted: Emulation, gpus: &[Gpu], owners: &[usize], heap: &Heap) -> Result<Self, Error> {
        let pes = owners.len() as u32;
        let fabric = Arc::new(Mutex::new(Fabric::new(Pinned::new(), Config::polled())));
        let mut made = Made {
            fabric: fabric.clone(),
            memory: vec![],
        };
        let pages = made.pages(
            &gpus[0],
            u64::from(wanted.queues.contexts) * u64::from(pes) * u64::from(pes),
        )?;
        let machine = Emulated::new(fabric.clone(), pes as usize, Link::Ethernet).with_pages(pages);
        for pe in 0..pes {
            // SAFETY: host memory, which `Cuda` frees after the thread has ended; kernels and the driver are devices.
            unsafe { add(&fabric, heap.start(pe).0, heap.stride()) };
        }
        let mut endpoints = vec![];
        for (pe, &owner) in (0..pes).zip(owners) {
            let settings = Settings {
                hca: Some(format!("mlx5_{pe}")),
                pages: Pages::Each,
                ..Settings::default()
            };
            let mut endpoint = Endpoint::open(&machine, &settings).map_err(setup(pe))?;
            let memory = Memory::at(heap.start(pe).0);
            endpoint.add_memory(0, heap.stride(), &memory).map_err(setup(pe))?;
            let mut allocate = |request: &Request| made.allocate(&gpus[owner], request);
            let (contexts, log2) = (wanted.queues.contexts, wanted.queues.log2);
            endpoint
                .add_queues(contexts, pes, log2, &mut allocate)
                .map_err(setup(pe))?;
            endpoints.push(endpoint);
        }
        let blobs: Vec<Blob> = endpoints.iter().map(Endpoint::blob).collect();
        for (pe, endpoint) in (0..pes).zip(&mut endpoints) {
            endpoint.connect(pe, &blobs).map_err(setup(pe))?;
        }
        let keys = endpoints.iter().map(|endpoint| endpoint.chunks()[0].key).collect();
        let tables = tables(gpus, owners, wanted.queues.contexts, &endpoints, (heap.stride(), keys))?;
        let abort = (0..pes).map(|pe| heap.start(pe).0 + SystemArea::ABORT).collect();
        let known = Known::new(abort, &endpoints, pes);
        let adapters = Adapters::start(fabric, known).map_err(|cause| NetworkError::Ended {
            cause: format!("the system refuses a thread: {cause}"),
        })?;
        Ok(Self {
            reach: wanted.reach,
            pes,
            adapters: Some(adapters),
            tables,
            _endpoints: Mutex::new(endpoints),
            _host: made.memory,
            _device: vec![],
        })
    }
}

/// Host memory that was made for queues and registers.
struct Made {
    fabric: Arc<Mutex<Fabric<Pinned>>>,
    memory: Vec<HostMemory>,
}

impl Made {
    fn host(&mut self, gpu: &Gpu, bytes: u64) -> Result<u64, HostMemoryError> {
        let memory = HostMemory::new(gpu, bytes)?;
        let address = memory.address();
        // SAFETY: the memory is freed after the thread has ended; kernels are a device.
        unsafe { add(&self.fabric, address, bytes) };
        self.memory.push(memory);
        Ok(address)
    }

    fn allocate(&mut self, gpu: &Gpu, request: &Request) -> Result<Region, MemoryError> {
        let address = self.host(gpu, request.bytes)?;
        if request.fill != 0 {
            let start = std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
            // SAFETY: fresh memory of that size, of which nobody else knows yet.
            unsafe { std::ptr::write_bytes(start, request.fill, request.bytes as usize) };
        }
        Ok(Region::at(address))
    }

    /// So many pages of registers, to be given out one by one.
    fn pages(&mut self, gpu: &Gpu, count: u64) -> Result<PageMemory, Error> {
        let refused = |cause: HostMemoryError| NetworkError::HostMemory {
            what: "registers",
            bytes: count * PAGE,
            times: 1,
            cause: cause.to_string(),
        };
        let start = self.host(gpu, count * PAGE).map_err(refused)?;
        let mut given = 0;
        Ok(Arc::new(Mutex::new(move || {
            given += 1;
            (given <= count).then(|| start + (given - 1) * PAGE)
        })))
    }
}

/// Tells the fabric of memory.
///
/// # Safety
/// As `Pinned::add`.
unsafe fn add(fabric: &Mutex<Fabric<Pinned>>, address: u64, bytes: u64) {
    let start = std::ptr::with_exposed_provenance_mut(address as usize);
    let mut fabric = fabric.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the caller's.
    let _: Place = unsafe { fabric.memory_mut().add(Space(0), start, bytes as usize) };
}
