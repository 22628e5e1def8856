//! PEs that only network adapters reach.
//!
//! Real adapters read and write device memory. Emulated ones are a thread of this process, which can't: there heaps, rings, records,
//! completions, landings and registers are host memory, pinned and mapped for devices. What only kernels use (the tables, the words
//! of queues) lies in device memory in any case.
//!
//! | file | what it holds |
//! |---|---|
//! | `choice` | which PEs load and store reaches, which adapters carry the rest |
//! | `emulated`, `adapter` | emulated adapters; their thread |
//! | `memory` | pinned host memory |
//! | `real`, `device_memory` | real adapters; memory of devices that they are told of |
//! | `tables` | what kernels know of their queues |

mod adapter;
mod choice;
mod device_memory;
mod emulated;
mod memory;
mod real;
mod tables;

pub(super) use choice::{Reach, Way};
pub(super) use memory::HostMemory;

use super::gpu::Gpu;
use super::heap::Heap;
use crate::config::Settings;
use crate::processes::Group;
use crate::{Error, NetworkCounters, NetworkError};
use adapter::Adapters;
use device_memory::DeviceMemory;
use shmem_ibgda::{Endpoint, IbgdaError};
use std::sync::Mutex;
use tables::{Keys, Tables};

/// The network of a World. Its parts go in their order: the thread and the queue pairs end before what they work on.
pub(super) struct Network {
    reach: Reach,
    pes: u32,
    /// Of emulated adapters.
    adapters: Option<Adapters>,
    /// By PE of this process.
    tables: Vec<Tables>,
    _endpoints: Mutex<Vec<Endpoint>>,
    /// Of queues, one of the two.
    _host: Vec<HostMemory>,
    _device: Vec<DeviceMemory>,
}

impl Network {
    /// What the way needs, for PEs of this process on the devices `owners`. Every process calls it.
    pub(super) fn start(
        way: Way,
        gpus: &[Gpu],
        owners: &[usize],
        heap: &Heap,
        world: (&Settings, &Group),
    ) -> Result<Option<Self>, Error> {
        match way {
            Way::LoadStore => Ok(None),
            Way::Emulated(wanted) => Self::emulate(wanted, gpus, owners, heap).map(Some),
            Way::Real(wanted) => Self::connect(wanted, gpus, owners, heap, world).map(Some),
        }
    }

    /// Whether a PE reaches the other by load and store, where its device does.
    pub(super) fn loads(&self, pe: u32, peer: u32) -> bool {
        self.reach.loads(pe, peer, self.pes)
    }

    /// What a PE's kernels find their queues by; `index` of the PEs of this process.
    pub(super) fn state(&self, index: usize) -> u64 {
        self.tables[index].address()
    }

    pub(super) fn failure(&self) -> Option<Error> {
        self.adapters.as_ref()?.failure()
    }

    pub(super) fn counters(&self) -> Option<NetworkCounters> {
        self.adapters.as_ref().map(Adapters::counters)
    }
}

/// The tables of the PEs of this process, in heaps of `stride` bytes; `keys`: that of each PE's heap.
fn tables(
    gpus: &[Gpu],
    owners: &[usize],
    contexts: u32,
    endpoints: &[Endpoint],
    (stride, keys): (u64, Vec<u32>),
) -> Result<Vec<Tables>, Error> {
    let keys = Keys {
        // One granule covers a heap.
        granule_log2: stride.next_power_of_two().ilog2(),
        granules: 1,
        of_granules: keys,
    };
    let of = endpoints.iter().zip(owners);
    let tables = of.map(|(endpoint, &owner)| Tables::new(&gpus[owner], contexts, endpoint.queues(), &keys));
    Ok(tables.collect::<Result<_, _>>()?)
}

fn setup(pe: u32) -> impl Fn(IbgdaError) -> NetworkError {
    move |cause| NetworkError::Setup {
        pe,
        cause: cause.to_string(),
    }
}
