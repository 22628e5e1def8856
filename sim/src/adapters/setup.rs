//! Makes the adapters of a world by the set-up that hosts with real ones run, and the tables that kernels read.

use super::BLOCK;
use super::memory::AdapterMemory;
use crate::config::SimError;
use crate::memory::{Heaps, Mapping};
use shmem::state::{LANDING, NetworkState, SendQueue};
use shmem_hca::{Config, Fabric};
use shmem_ibgda::memory::MemoryError;
use shmem_ibgda::{Blob, Emulated, Endpoint, IbgdaError, Link, Memory, QueueParts, Region, Request, Settings};
use std::sync::{Arc, Mutex};

/// What the set-up gives each queue's ring and completion, at least.
const PAGE: u64 = 4096;
/// Memory that the queues of a world may take: much of it is written when they are made.
const MOST_BYTES: u64 = 8 << 30;

/// What is asked for.
pub(super) struct Wanted<'a> {
    pub(super) contexts: u32,
    pub(super) log2: u32,
    /// Whether the network carries what a PE issues to another.
    pub(super) crosses: &'a dyn Fn(u32, u32) -> bool,
    pub(super) config: Config,
    pub(super) link: Link,
}

/// Adapters, and what kernels need to know of them.
pub(super) struct Made {
    pub(super) machine: Emulated<AdapterMemory>,
    /// By PE. Their queues end with them.
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) memory: Arc<Mapping>,
    /// By PE: the address of its `NetworkState`.
    pub(super) states: Vec<u64>,
    /// PE and number of each queue pair that kernels use, its context, and the PE at the other end.
    pub(super) queues: Vec<((u32, u32), (u32, u32))>,
}

/// Hands out the memory of a mapping, upwards.
struct Rest {
    next: u64,
    end: u64,
}

impl Rest {
    fn take(&mut self, bytes: u64, align: u64) -> Result<u64, MemoryError> {
        let at = self.next.next_multiple_of(align);
        let end = at.checked_add(bytes).filter(|end| *end <= self.end);
        self.next = end.ok_or("the simulator has kept too little memory for queues")?;
        Ok(at)
    }

    /// As the set-up asks for it.
    fn give(&mut self, request: &Request) -> Result<Region, MemoryError> {
        let at = self.take(request.bytes, request.align)?;
        if request.fill != 0 {
            // SAFETY: inside the mapping, which is zero, and nobody else knows of this part.
            unsafe { std::ptr::write_bytes(at as *mut u8, request.fill, request.bytes as usize) };
        }
        Ok(Region::at(at))
    }
}

/// Bytes for one queue pair at most, its row in the table and its landings' words among them.
fn queue_bytes(log2: u32) -> u64 {
    let blocks = 1u64 << log2;
    let (ring, landings) = ((BLOCK * blocks).next_multiple_of(PAGE), (LANDING + 4) * (blocks + 1));
    ring + landings + PAGE + 4 * BLOCK + size_of::<SendQueue>() as u64
}

pub(super) fn make(heaps: &Arc<Heaps>, wanted: &Wanted<'_>) -> Result<Made, SimError> {
    let pes = heaps.pes();
    let count = u64::from(pes) * u64::from(pes);
    // Each of some parts begins at a page.
    let extra = u64::from(pes) * (16 * PAGE + 4 * u64::from(pes));
    let bytes = queue_bytes(wanted.log2) * count * u64::from(wanted.contexts) + extra;
    if bytes > MOST_BYTES {
        return Err(SimError::QueueMemory {
            bytes,
            most: MOST_BYTES,
            contexts: wanted.contexts,
            blocks: 1 << wanted.log2,
            count,
        });
    }
    let memory = Arc::new(Mapping::new(bytes as usize, "the queues of network adapters")?);
    let fabric = Fabric::new(AdapterMemory::new(heaps, &memory), wanted.config);
    let machine = Emulated::new(Arc::new(Mutex::new(fabric)), pes as usize, wanted.link);
    fill(machine, heaps, memory, wanted).map_err(|error| SimError::Adapters {
        cause: error.to_string(),
    })
}

fn fill(
    machine: Emulated<AdapterMemory>,
    heaps: &Heaps,
    memory: Arc<Mapping>,
    wanted: &Wanted<'_>,
) -> Result<Made, IbgdaError> {
    let (pes, start) = (heaps.pes(), memory.start() as u64);
    let mut rest = Rest {
        next: start,
        end: start + memory.bytes() as u64,
    };
    let mut endpoints = Vec::new();
    let mut keys = Vec::new();
    for pe in 0..pes {
        let settings = Settings {
            hca: Some(format!("mlx5_{pe}")),
            ..Settings::default()
        };
        let mut endpoint = Endpoint::open(&machine, &settings)?;
        keys.push(endpoint.add_memory(0, heaps.bytes(), &Memory::at(heaps.base(pe) as u64))?);
        let mut give = |request: &Request| rest.give(request);
        endpoint.add_queues(wanted.contexts, pes, wanted.log2, &mut give)?;
        endpoints.push(endpoint);
    }
    let blobs: Vec<Blob> = endpoints.iter().map(Endpoint::blob).collect();
    let (mut states, mut queues) = (Vec::new(), Vec::new());
    for (pe, endpoint) in (0..).zip(&mut endpoints) {
        endpoint.connect(pe, &blobs)?;
        let mut carried = Vec::new();
        for (index, parts) in (0..).zip(endpoint.queues()) {
            let (ctx, to) = (index / pes, index % pes);
            let carries = (wanted.crosses)(pe, to);
            carried.push(carries.then_some(*parts));
            if carries {
                queues.push(((pe, parts.number), (ctx, to)));
            }
        }
        states.push(tables(&mut rest, &keys, &carried, heaps.bytes(), wanted)?);
    }
    Ok(Made {
        machine,
        endpoints,
        memory,
        states,
        queues,
    })
}

/// What a PE's kernels read. Returns the address of the `NetworkState`.
fn tables(
    rest: &mut Rest,
    keys: &[u32],
    queues: &[Option<QueueParts>],
    heap_bytes: u64,
    wanted: &Wanted<'_>,
) -> Result<u64, IbgdaError> {
    let row = size_of::<SendQueue>() as u64;
    let mut take = |bytes, align| {
        rest.take(bytes, align).map_err(|cause| IbgdaError::Memory {
            part: shmem_ibgda::Part::Record,
            bytes,
            cause,
        })
    };
    let state = take(size_of::<NetworkState>() as u64, BLOCK)?;
    let key_table = take(size_of_val(keys) as u64, BLOCK)?;
    let table = take(row * queues.len() as u64, 2 * BLOCK)?;
    for (index, parts) in (0..).zip(queues) {
        let Some(parts) = parts else { continue };
        let queue = SendQueue {
            ring: parts.ring,
            record: parts.record,
            register: parts.register,
            completion: parts.completion,
            landing: parts.landing,
            landing_at: parts.landing_at,
            taken: take(4 * ((1 << parts.log2) + 1), BLOCK)?,
            landing_key: parts.landing_key,
            number: parts.number,
            log2: parts.log2,
            ..SendQueue::UNUSED
        };
        // SAFETY: inside the mapping, aligned as it was taken, and nobody else knows of it yet.
        unsafe { ((table + index * row) as *mut SendQueue).write(queue) };
    }
    let network = NetworkState {
        queues: table,
        contexts: wanted.contexts,
        granule_log2: heap_bytes.next_power_of_two().ilog2(),
        keys: key_table,
        granules: 1,
    };
    // SAFETY: as above.
    unsafe {
        (state as *mut NetworkState).write(network);
        std::ptr::copy_nonoverlapping(keys.as_ptr(), key_table as *mut u32, keys.len());
    }
    Ok(state)
}
