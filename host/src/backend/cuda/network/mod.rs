//! PEs that only network adapters reach.
//!
//! Emulated adapters are a thread of this process. They read and write the host's memory alone, so heaps, rings, records,
//! completions, landings and registers lie there, pinned and mapped for devices; what only kernels use (the tables, the words of
//! queues) lies in device memory.
//!
//! | file | what it holds |
//! |---|---|
//! | `choice` | which PEs load and store reaches, which adapters carry the rest |
//! | `memory` | pinned host memory |
//! | `adapter` | the thread that is the emulated adapters |
//! | `tables` | what kernels know of their queues |

mod adapter;
mod choice;
mod memory;
mod tables;

pub(super) use choice::{Emulation, HEAP, Way};
pub(super) use memory::{HostMemory, HostMemoryError};

use super::gpu::Gpu;
use super::heap::Heap;
use crate::{Error, NetworkCounters, NetworkError};
use adapter::{Adapters, Known};
use shmem::state::SystemArea;
use shmem_hca::{Config, Fabric, Pinned, Place, Space};
use shmem_ibgda::{Blob, Emulated, Endpoint, Link, Memory, Pages, Region, Request, Settings};
use std::sync::{Arc, Mutex, PoisonError};
use tables::{Keys, Tables};

/// A page of registers.
const PAGE: u64 = 4096;

/// The network of a World. Its parts go in their order: the thread ends before what it works on.
pub(super) struct Network {
    emulation: Emulation,
    pes: u32,
    adapters: Adapters,
    /// By PE of this process.
    tables: Vec<Tables>,
    _endpoints: Mutex<Vec<Endpoint>>,
    _memory: Vec<HostMemory>,
}

impl Network {
    /// Emulated adapters for all PEs, whose heaps are host memory. `owners` are their devices.
    pub(super) fn emulate(wanted: Emulation, gpus: &[Gpu], owners: &[usize], heap: &Heap) -> Result<Self, Error> {
        let pes = owners.len() as u32;
        let fabric = Arc::new(Mutex::new(Fabric::new(Pinned::new(), Config::polled())));
        let mut made = Made {
            fabric: fabric.clone(),
            memory: vec![],
        };
        let pages = made.pages(&gpus[0], u64::from(wanted.contexts) * u64::from(pes) * u64::from(pes))?;
        let machine = Emulated::new(fabric.clone(), pes as usize, Link::Ethernet).with_pages(pages);
        for pe in 0..pes {
            // SAFETY: host memory, which `Cuda` frees after the thread has ended; kernels and the driver are devices.
            unsafe { add(&fabric, heap.start(pe).0, heap.stride()) };
        }
        let mut endpoints = vec![];
        for (pe, &owner) in (0..pes).zip(owners) {
            let refused = |cause: shmem_ibgda::IbgdaError| NetworkError::Setup {
                pe,
                cause: cause.to_string(),
            };
            let settings = Settings {
                hca: Some(format!("mlx5_{pe}")),
                pages: Pages::Each,
                ..Settings::default()
            };
            let mut endpoint = Endpoint::open(&machine, &settings).map_err(refused)?;
            endpoint
                .add_memory(0, heap.stride(), &Memory::at(heap.start(pe).0))
                .map_err(refused)?;
            let mut allocate = |request: &Request| made.allocate(&gpus[owner], request);
            endpoint
                .add_queues(wanted.contexts, pes, wanted.log2, &mut allocate)
                .map_err(refused)?;
            endpoints.push(endpoint);
        }
        let blobs: Vec<Blob> = endpoints.iter().map(Endpoint::blob).collect();
        for (pe, endpoint) in (0..pes).zip(&mut endpoints) {
            endpoint.connect(pe, &blobs).map_err(|cause| NetworkError::Setup {
                pe,
                cause: cause.to_string(),
            })?;
        }
        let keys = Keys {
            // One granule covers a heap.
            granule_log2: heap.stride().next_power_of_two().ilog2(),
            granules: 1,
            keys: endpoints.iter().map(|endpoint| endpoint.chunks()[0].key).collect(),
        };
        let tables = endpoints.iter().zip(owners);
        let tables = tables
            .map(|(endpoint, &owner)| Tables::new(&gpus[owner], wanted.contexts, endpoint.queues(), &keys))
            .collect::<Result<_, _>>()?;
        let abort = (0..pes).map(|pe| heap.start(pe).0 + SystemArea::ABORT).collect();
        let known = Known::new(abort, &endpoints, pes);
        let adapters = Adapters::start(fabric, known).map_err(|cause| NetworkError::Ended {
            cause: format!("the system refuses a thread: {cause}"),
        })?;
        Ok(Self {
            emulation: wanted,
            pes,
            adapters,
            tables,
            _endpoints: Mutex::new(endpoints),
            _memory: made.memory,
        })
    }

    /// Whether a PE reaches the other by load and store.
    pub(super) fn loads(&self, pe: u32, peer: u32) -> bool {
        self.emulation.loads(pe, peer, self.pes)
    }

    /// What a PE's kernels find their queues by; `index` of the PEs of this process.
    pub(super) fn state(&self, index: usize) -> u64 {
        self.tables[index].address()
    }

    pub(super) fn failure(&self) -> Option<Error> {
        self.adapters.failure()
    }

    pub(super) fn counters(&self) -> NetworkCounters {
        self.adapters.counters()
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

    fn allocate(&mut self, gpu: &Gpu, request: &Request) -> Result<Region, shmem_ibgda::memory::MemoryError> {
        let address = self.host(gpu, request.bytes)?;
        if request.fill != 0 {
            let start = std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
            // SAFETY: fresh memory of that size, of which nobody else knows yet.
            unsafe { std::ptr::write_bytes(start, request.fill, request.bytes as usize) };
        }
        Ok(Region::at(address))
    }

    /// So many pages of registers, to be given out one by one.
    fn pages(&mut self, gpu: &Gpu, count: u64) -> Result<shmem_ibgda::emulated::PageMemory, Error> {
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
