//! Real adapters: each PE opens the one nearest to its device, and tells the other processes of its queues.
//!
//! No machine of this project has one: this has run over a libibverbs and a CUDA driver without hardware only.

use super::choice::Real;
use super::device_memory::{Queues, dma_buf};
use super::{Network, setup, tables};
use crate::Error;
use crate::backend::cuda::gpu::Gpu;
use crate::backend::cuda::heap::Heap;
use crate::backend::cuda::tell;
use crate::config::Settings;
use crate::processes::Group;
use shmem_ibgda::choice::pci_path;
use shmem_ibgda::{Blob, Endpoint, IbgdaError, Memory, Verbs};
use std::sync::Mutex;

impl Network {
    /// Adapters of this machine for the PEs of this process, whose heaps are in place as a whole. Every process calls it.
    /// `owners` are the PEs' devices.
    pub(super) fn connect(
        wanted: Real,
        gpus: &[Gpu],
        owners: &[usize],
        heap: &Heap,
        (settings, group): (&Settings, &Group),
    ) -> Result<Self, Error> {
        let (pes, local) = (group.layout.pes(), group.layout.local());
        let verbs = Verbs::load().map_err(setup(local.start))?;
        // Queue pairs end before their memory: what is declared last is dropped first.
        let (mut device, mut endpoints) = (vec![], vec![]);
        for (pe, &owner) in local.clone().zip(owners) {
            let gpu = &gpus[owner];
            let mut chosen = shmem_ibgda::Settings::from_env().map_err(setup(pe))?;
            chosen.gpu = gpu.bus_id()?.and_then(|id| pci_path(&id));
            chosen.turn = pe;
            let mut endpoint = Endpoint::open(&verbs, &chosen).map_err(setup(pe))?;
            let (address, bytes) = (heap.start(pe).0, heap.stride());
            let memory = Memory {
                address,
                dma_buf: dma_buf(gpu, address, bytes)?,
            };
            endpoint.add_memory(0, bytes, &memory).map_err(setup(pe))?;
            let mut queues = Queues::new(gpu);
            let (contexts, log2) = (wanted.queues.contexts, wanted.queues.log2);
            let added = endpoint.add_queues(contexts, pes, log2, &mut queues);
            endpoints.push(endpoint);
            device.extend(queues.into_memory());
            added.map_err(setup(pe))?;
        }
        let keys = introduce(&mut endpoints, heap.stride(), settings, group)?;
        let heaps = (heap.stride(), keys);
        let tables = tables(gpus, owners, wanted.queues.contexts, &endpoints, heaps)?;
        Ok(Self {
            reach: wanted.reach,
            pes,
            adapters: None,
            tables,
            _endpoints: Mutex::new(endpoints),
            _host: vec![],
            _device: device,
        })
    }
}

/// Connects queue pairs with those of all PEs, and returns the keys of their heaps of `stride` bytes.
fn introduce(endpoints: &mut [Endpoint], stride: u64, settings: &Settings, group: &Group) -> Result<Vec<u32>, Error> {
    let mine: Vec<_> = endpoints.iter().map(|endpoint| endpoint.blob().to_bytes()).collect();
    let told = tell(group, settings, &mine)?.concat();
    let (mut blobs, mut keys) = (vec![], vec![]);
    for (pe, bytes) in (0..).zip(&told) {
        let read = Blob::parse(bytes).and_then(|blob| Ok((blob.key(0, stride)?, blob)));
        let (key, blob) = read.map_err(|cause| setup(pe)(IbgdaError::Blob { pe, cause }))?;
        keys.push(key);
        blobs.push(blob);
    }
    for (pe, endpoint) in group.layout.local().zip(endpoints) {
        endpoint.connect(pe, &blobs).map_err(setup(pe))?;
    }
    // Nobody posts before all take requests.
    tell(group, settings, &())?;
    Ok(keys)
}
