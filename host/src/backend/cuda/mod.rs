//! GPUs as a platform, through the CUDA driver, which is found at run time.
//!
//! | file | what it holds |
//! |---|---|
//! | `driver`, `error` | the driver's functions, checked |
//! | `devices` | which PE gets which device |
//! | `gpu` | a device and its primary context |
//! | `heap` | symmetric heaps by the virtual memory calls |
//! | `travel` | memory on its way to other processes |
//! | `register` | memory of the program's own |
//! | `network` | PEs that only network adapters reach |
//! | `page` | fault records in host memory |
//! | `module` | PTX with a PE's state |
//! | `device` | what one PE holds: streams, buffers, functions |
//! | `attributes` | launches in clusters, and programmatic ones |
//! | `graph` | captures |
//! | `timeline` | what kernels recorded of their calls |
//! | `poll` | waits that can be ended |

mod attributes;
mod device;
mod devices;
mod driver;
mod error;
mod gpu;
mod graph;
mod heap;
mod module;
mod network;
mod page;
mod poll;
mod register;
mod timeline;
mod travel;

pub use error::CudaError;

use super::{Device, Halt, KernelInfo, Platform, StreamGrid, Watch};
use crate::config::{ConfigError, MemoryHandles, Settings};
use crate::device_use::{Uuid, exclusive};
use crate::fault::DeviceFault;
use crate::heap::Placed;
use crate::images::{ImageError, assembled, choose};
use crate::layout::Layout;
use crate::processes::{Group, ProcessError};
use crate::register::{RegisterError, UserMemory};
use crate::{Error, NetworkCounters, wire};
use device::CudaDevice;
use devices::Sees;
use driver::{Address, Driver};
use gpu::Gpu;
use heap::Heap;
use module::Module;
use network::{Network, Reach, Way};
use page::Page;
use register::Retained;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use shmem::fault::FaultKind;
use shmem::state::{DeviceState, MAX_PES, SystemArea};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use timeline::Timeline;
use travel::{Kind, Travel};

/// A collective on a stream has a line for each thread at least. Its blocks take half of the multiprocessors at most, one each, so that
/// two are resident beside each other, whatever registers they take.
const STREAM_GRID: StreamGrid = StreamGrid {
    blocks: 1,
    threads: 512,
    block_bytes: 8 << 10,
};

/// A driver with at least one device.
pub(crate) struct Devices {
    driver: &'static Driver,
    count: u32,
}

impl Devices {
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn find() -> Result<Self, CudaError> {
        let driver = Driver::find()?;
        match Gpu::count(driver)? {
            ..=0 => Err(CudaError::NoDevice),
            count => Ok(Self {
                driver,
                count: count as u32,
            }),
        }
    }
}

impl Devices {
    /// The devices in words.
    pub(crate) fn describe(&self) -> Result<Vec<String>, CudaError> {
        (0..self.count).map(|i| Gpu::summary(self.driver, i as i32)).collect()
    }

    /// CUDA version of the driver, where there is one.
    pub(crate) fn driver_version() -> Option<(u32, u32)> {
        Driver::find().ok()?.version().ok()
    }
}

/// A programmatic launch has at most one block for so many multiprocessors: a stream holds those of two kernels then, and so may another
/// one beside it, where kernels of both wait for other PEs.
const PLACES: u32 = 4;

pub(crate) struct Cuda {
    /// For each device, its PEs' modules: by package and PE, and those loaded from text.
    modules: Vec<Mutex<Modules>>,
    /// By PE of this process, as is the next.
    pages: Vec<Page>,
    states: Vec<DeviceState>,
    heap: Heap,
    layout: Layout,
    /// PEs of which the first does not reach the second.
    apart: Vec<(u32, u32)>,
    /// By PE: those that it reaches.
    nodes: Vec<Range<u32>>,
    /// Memory of the program's own that is not mapped yet, by PE.
    held: Mutex<HashMap<u32, Retained>>,
    time_limit: Option<Duration>,
    /// Blocks of a collective on a stream, at most.
    stream_blocks: u32,
    /// Which of `gpus` each PE of this process is on.
    owners: Vec<usize>,
    /// A kernel that can't be stopped still uses all this, so that it stays for the life of the process.
    abandoned: AtomicBool,
    timeline: Option<Timeline>,
    /// Where there are PEs that only network adapters reach.
    network: Option<Network>,
    /// Last: what is above needs their contexts.
    gpus: Vec<Gpu>,
}

#[derive(Default)]
struct Modules {
    packages: HashMap<(u64, u32), Module>,
    texts: Vec<Module>,
}

/// What a process tells the others of its devices, once it has opened them.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Told {
    /// Bytes of the largest.
    memory: u64,
    granularity: u64,
    /// Whether all of them make memory that travels as file descriptors.
    descriptors: bool,
    /// Multiprocessors that each PE has to itself, at least.
    multiprocessors: u32,
}

impl Cuda {
    pub(crate) fn start(settings: &Settings, devices: &Devices, group: &Group) -> Result<Arc<Self>, Error> {
        let Devices { driver, count } = *devices;
        let layout = group.layout.clone();
        let calls = Way::of(settings, group)?;
        let (pes, local) = (layout.pes(), layout.local());
        let uuids = (0..count as i32).map(|i| Gpu::uuid(driver, i));
        let sees = Sees {
            devices: uuids.collect::<Result<_, _>>()?,
            mps: mps_is_there(),
        };
        let sees = tell(group, settings, &sees)?;
        if let Some(rank) = sees.iter().position(|sees| sees.devices.is_empty()) {
            let cause = format!("process {rank} sees no device");
            return Err(ProcessError::Share { cause }.into());
        }
        let places = devices::place(&layout, &sees);
        exclusive(devices::used(&layout, &sees, &places).iter().map(|used| &**used))?;
        let mut used = places[local.start as usize..local.end as usize].to_vec();
        used.sort_unstable();
        used.dedup();
        let gpus: Vec<_> = used
            .iter()
            .map(|i| Gpu::open(driver, *i as i32))
            .collect::<Result<_, _>>()?;
        tracing::debug!(?local, ?used, "devices opened");
        let owner = |pe: u32| used.binary_search(&places[pe as usize]).unwrap_or_default();
        let owners: Vec<_> = local.clone().map(owner).collect();
        all_fit(local.len() as u32, &gpus)?;
        let device = |pe: u32| sees[layout.rank_of(pe) as usize].devices[places[pe as usize]];
        let own = |pe: u32| {
            let sharers = (0..pes).filter(|other| device(*other) == device(pe)).count() as u32;
            gpus[owner(pe)].multiprocessors / sharers
        };
        let multiprocessors = local.clone().map(own).min().unwrap_or(1);
        let (travel, told) = way(group, settings, &gpus, multiprocessors)?;
        let memory = told.iter().map(|told| told.memory).max().unwrap_or(0);
        let granularity = told.iter().map(|told| told.granularity).max().unwrap_or(1);
        let mut parts = vec![];
        for pe in 0..pes {
            let owner = layout.is_local(pe).then(|| owner(pe));
            let users = match (calls, calls.reach()) {
                // Host memory is everybody's.
                (Way::Emulated(_), _) => (0..gpus.len()).collect(),
                (_, Reach::Nobody) => owner.into_iter().collect(),
                _ if !settings.reaches(&layout, layout.rank_of(pe)) => vec![],
                _ => users(&gpus, &sees[layout.rank() as usize].devices, device(pe))?,
            };
            parts.push(heap::Part { owner, users });
        }
        let reaches = |pe: u32, peer: u32| parts[peer as usize].users.contains(&owner(pe));
        let pairs = local.clone().flat_map(|pe| (0..pes).map(move |peer| (pe, peer)));
        let apart: Vec<_> = pairs.filter(|(pe, peer)| !reaches(*pe, *peer)).collect();
        let apart = tell(group, settings, &apart)?.concat();
        let system = SystemArea::new(pes);
        let asked = settings.heap_or(calls.default_heap(memory), pes, system.bytes)?;
        let heap = calls.heap(&gpus, parts, asked, granularity, travel)?;
        let nodes = match calls.reach() {
            Reach::Devices => devices::nodes(pes, &apart),
            reach => (0..pes).map(|pe| reach.node(pe, pes)).collect(),
        };
        // Network adapters reach everybody.
        let apart = if calls == Way::LoadStore { apart } else { vec![] };
        let mut cuda = Self {
            modules: gpus.iter().map(|_| Mutex::default()).collect(),
            pages: vec![],
            states: vec![],
            heap,
            layout,
            nodes,
            apart,
            held: Mutex::default(),
            time_limit: settings.time_limit,
            stream_blocks: told
                .iter()
                .map(|told| told.multiprocessors / 2)
                .min()
                .unwrap_or(1)
                .max(1),
            owners,
            abandoned: AtomicBool::new(false),
            timeline: None,
            network: None,
            gpus,
        };
        let first = calls.backed_first(cuda.heap.stride(), system.bytes);
        cuda.back_first(first, settings, group)?;
        cuda.network = Network::start(calls, &cuda.gpus, &cuda.owners, &cuda.heap, (settings, group))?;
        cuda.timeline = Timeline::start(&cuda.gpus, &cuda.owners, local.start)?;
        connections_for(local.clone().map(|pe| cuda.sharers(pe).count()).max().unwrap_or(0));
        for pe in local {
            let (page, state) = cuda.prepare(pe, &system, settings.time_limit_ns())?;
            cuda.pages.push(page);
            cuda.states.push(state);
        }
        Ok(Arc::new(cuda))
    }

    /// Backs the heaps up to `end` before any kernel of the World runs.
    fn back_first(&self, end: u64, settings: &Settings, group: &Group) -> Result<(), Error> {
        let failed = || group.failure().is_some();
        let watch = Watch {
            failed: &failed,
            limit: settings.time_limit,
        };
        let backed = self.heap.back(&self.gpus, end, 1, &watch);
        backed.map_err(|halt| match halt {
            Halt::Error(error) => error,
            Halt::WorldFailed | Halt::TimeLimit => CudaError::Stuck.into(),
        })?;
        tracing::debug!(stride = self.heap.stride(), "heaps mapped");
        Ok(())
    }

    /// Makes what a PE's kernels need before any kernel of the World runs.
    fn prepare(&self, pe: u32, system: &SystemArea, time_limit_ns: u64) -> Result<(Page, DeviceState), Error> {
        let gpu = self.gpu(pe);
        let _current = gpu.enter()?;
        let page = Page::new(gpu.driver)?;
        let mut peer_base = [0; MAX_PES];
        for (peer, base) in (0..self.pes()).zip(&mut peer_base) {
            if self.heap.is_user(self.owner(pe), peer)
                && self.network.as_ref().is_none_or(|network| network.loads(pe, peer))
            {
                *base = self.heap.start(peer).0;
            }
        }
        let node = self.node(pe);
        let state = DeviceState {
            my_pe: pe,
            n_pes: self.pes(),
            heap_base: self.heap.start(pe).0,
            heap_bytes: self.heap_bytes(),
            fault: page.record.0,
            time_limit_ns,
            world_sync: system.world_sync,
            node_sync: system.node_sync,
            node_start: node.start,
            node_size: node.len() as u32,
            places: u64::from(gpu.multiprocessors / self.sharers(pe).count() as u32 / PLACES),
            network: self.network.as_ref().map_or(0, |network| network.state(self.index(pe))),
            peer_base,
        };
        Ok((page, state))
    }

    /// Where what this process has of a PE of its own lies.
    fn index(&self, pe: u32) -> usize {
        (pe - self.layout.local().start) as usize
    }

    fn owner(&self, pe: u32) -> usize {
        self.owners[self.index(pe)]
    }

    fn page(&self, pe: u32) -> &Page {
        &self.pages[self.index(pe)]
    }

    fn state(&self, pe: u32) -> &DeviceState {
        &self.states[self.index(pe)]
    }

    fn gpu(&self, pe: u32) -> &Gpu {
        &self.gpus[self.owner(pe)]
    }

    /// What the adapters failed with.
    fn network_failure(&self) -> Option<Error> {
        self.network.as_ref()?.failure()
    }

    /// What a kernel of a PE of this process failed with, of itself.
    fn culprit(&self) -> Option<DeviceFault> {
        let fault = |pe| Some(DeviceFault::new(pe, &self.page(pe).fault()?, String::new(), None));
        let mut faults = self.layout.local().filter_map(fault);
        faults.find(|fault| fault.kind != FaultKind::PeerFailed)
    }

    /// PEs on the same device as this one, itself among them.
    fn sharers(&self, pe: u32) -> impl Iterator<Item = u32> {
        let owner = self.owner(pe);
        self.layout.local().filter(move |pe| self.owner(*pe) == owner)
    }

    fn modules(&self, pe: u32) -> &Mutex<Modules> {
        &self.modules[self.owner(pe)]
    }

    /// Loads a kernel's package for all PEs of the device, unless that has been done.
    fn load_package(&self, modules: &mut Modules, pe: u32, kernel: &KernelInfo) -> Result<(), Error> {
        let (gpu, package) = (self.gpu(pe), (kernel.images)());
        if package.list.is_empty() {
            let (kernel, reason) = (kernel.name.to_owned(), package.absent.to_owned());
            return Err(ImageError::NoImages { kernel, reason }.into());
        }
        if modules.packages.contains_key(&(package.id, pe)) {
            return Ok(());
        }
        let name = (kernel.name, kernel.symbol);
        let image = choose(name, package.list, self.network.is_some(), gpu.arch)?;
        module::check(kernel.name, image.ptx, gpu)?;
        for pe in self.sharers(pe) {
            let assembled = assembled(image, gpu.arch);
            let module = Module::load(gpu, pe, image.ptx, assembled, self.state(pe), self.timeline.as_ref())?;
            modules.packages.insert((package.id, pe), module);
        }
        Ok(())
    }
}

/// Whether so many PEs have a multiprocessor each.
fn all_fit(pes: u32, gpus: &[Gpu]) -> Result<(), ConfigError> {
    let (devices, least) = (gpus.len() as u32, gpus.iter().map(|gpu| gpu.multiprocessors).min());
    match least.unwrap_or(0) * devices {
        most if pes > most => Err(ConfigError::TooManyForDevices {
            asked: pes,
            devices,
            most,
        }),
        _ => Ok(()),
    }
}

/// Tells all processes something, and gets what each told, by rank.
fn tell<T>(group: &Group, settings: &Settings, mine: &T) -> Result<Vec<T>, Error>
where
    T: Clone + Serialize + DeserializeOwned,
{
    let Some(processes) = group.processes() else {
        return Ok(vec![mine.clone()]);
    };
    let lost = |cause| ProcessError::Lost { cause };
    let told = processes
        .allgather(wire::encode(mine), settings.time_limit)
        .map_err(lost)?;
    let read = |bytes: &Vec<u8>| wire::decode(bytes).ok_or_else(|| lost("a process sent what is no text".to_owned()));
    Ok(told.iter().map(read).collect::<Result<_, _>>()?)
}

/// How memory travels between the processes, and what each told of its devices.
fn way(
    group: &Group,
    settings: &Settings,
    gpus: &[Gpu],
    multiprocessors: u32,
) -> Result<(Option<Travel>, Vec<Told>), Error> {
    let alone = group.others().is_none();
    let kind = match settings.handles {
        _ if alone => Kind::Nowhere,
        MemoryHandles::Descriptor => Kind::Descriptor,
        MemoryHandles::Fabric => Kind::Fabric,
    };
    let granularities = gpus.iter().map(|gpu| heap::granularity(gpu, kind));
    let told = Told {
        memory: gpus.iter().map(|gpu| gpu.memory).max().unwrap_or(0),
        granularity: granularities
            .collect::<Result<Vec<_>, _>>()?
            .into_iter()
            .max()
            .unwrap_or(1),
        descriptors: gpus.iter().all(|gpu| gpu.shareable),
        multiprocessors,
    };
    let told = tell(group, settings, &told)?;
    if kind == Kind::Descriptor && told.iter().any(|told| !told.descriptors) {
        let cause = "a device makes no memory that travels as file descriptors: try SHMEM_HANDLES=fabric, or one process \
                     for all PEs";
        return Err(ProcessError::Share {
            cause: cause.to_owned(),
        }
        .into());
    }
    let travel = group.others().map(|others| Travel {
        layout: group.layout.clone(),
        kind,
        others: others.clone(),
    });
    Ok((travel, told))
}

/// Which of this process's devices may use memory of the device, which need not be visible here.
fn users(gpus: &[Gpu], sees: &[Uuid], device: Uuid) -> Result<Vec<usize>, CudaError> {
    let mut users = vec![];
    for (i, gpu) in gpus.iter().enumerate() {
        // Of one that is not visible, the driver says when its memory is mapped.
        let reaches = match sees.iter().position(|seen| *seen == device) {
            Some(other) => gpu.reaches(other as i32)?,
            None => true,
        };
        if reaches {
            users.push(i);
        }
    }
    Ok(users)
}

/// Whether processes share devices through NVIDIA's Multi-Process Service.
fn mps_is_there() -> bool {
    let pipes = std::env::var_os("CUDA_MPS_PIPE_DIRECTORY").unwrap_or_else(|| "/tmp/nvidia-mps".into());
    std::path::Path::new(&pipes).join("control").exists()
}

/// Kernels of streams that share one of the device's connections run one after the other, and may wait for each other for ever. The
/// driver reads the variable when it is initialised.
fn connections_for(pes: usize) {
    let set = std::env::var("CUDA_DEVICE_MAX_CONNECTIONS").ok();
    let connections = set.and_then(|text| text.parse().ok()).unwrap_or(8);
    if pes > 1 && connections < 32.min(4 * pes) {
        tracing::warn!(
            pes,
            connections,
            "streams of several PEs may share a connection to their device: set CUDA_DEVICE_MAX_CONNECTIONS=32"
        );
    }
}

impl Platform for Cuda {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn pes(&self) -> u32 {
        self.layout.pes()
    }

    fn node(&self, pe: u32) -> Range<u32> {
        self.nodes[pe as usize].clone()
    }

    fn beyond_reach(&self, pe: u32) -> Option<u32> {
        let of = |pair: &(u32, u32)| match *pair {
            (a, b) if a == pe => Some(b),
            (a, b) if b == pe => Some(a),
            _ => None,
        };
        self.apart.iter().find_map(of)
    }

    fn has_network(&self) -> bool {
        self.network.is_some()
    }

    fn heap_bytes(&self) -> u64 {
        self.heap.stride()
    }

    fn page(&self) -> u64 {
        self.heap.granularity()
    }

    fn stream_grid(&self) -> StreamGrid {
        StreamGrid {
            blocks: self.stream_blocks,
            ..STREAM_GRID
        }
    }

    fn backed_end(&self, _pe: u32) -> u64 {
        self.heap.backed().bytes
    }

    fn hold(&self, pe: u32, memory: UserMemory<'_>, bytes: u64) -> Result<(), RegisterError> {
        self.hold_device(pe, memory, bytes)
    }

    fn let_go(&self, pe: u32) {
        self.held().remove(&pe);
    }

    fn map_held(&self, group: &Group, pe: u32, at: &Placed) -> Result<(), Error> {
        self.map_device(group, pe, at)
    }

    fn unmap(&self, serial: u64) -> Result<(), Error> {
        self.heap.unmap_registered(serial);
        Ok(())
    }

    fn open(self: Arc<Self>, pe: u32) -> Result<Box<dyn Device>, Error> {
        Ok(Box::new(CudaDevice::open(self, pe)?))
    }

    fn abort(&self, _pe: u32, _cause: &str) {
        for pe in self.layout.local() {
            let (gpu, word) = (self.gpu(pe), Address(self.heap.start(pe).0 + SystemArea::ABORT));
            // Where the device refuses, its context is lost and its kernels are gone.
            if let Ok(_current) = gpu.enter() {
                let one = self.page(pe).one();
                // SAFETY: both sides are live, 4 bytes each; the control stream is not behind a kernel.
                let _ = unsafe {
                    gpu.driver
                        .cuMemcpyHtoDAsync_v2(word, one, size_of::<u32>(), gpu.control)
                };
            }
        }
    }

    fn network_counters(&self) -> Option<NetworkCounters> {
        self.network.as_ref()?.counters()
    }

    fn failure(&self) -> Option<(Option<u32>, String)> {
        if let Some(error) = self.network_failure() {
            return Some((None, error.to_string()));
        }
        let fault = self.culprit()?;
        Some((Some(fault.pe), fault.to_string()))
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        if let Some(timeline) = &self.timeline {
            timeline.finish(&self.gpus, &self.owners);
        }
        for (gpu, modules) in self.gpus.iter().zip(&mut self.modules) {
            let Modules { packages, texts } = modules.get_mut().unwrap_or_else(PoisonError::into_inner);
            if let Ok(_current) = gpu.enter() {
                packages.values().chain(&*texts).for_each(|module| module.unload(gpu));
            }
        }
        // Freeing pages needs a context, and the thread that drops the World may have none.
        let _current = self.gpus.first().map(Gpu::enter);
        self.pages.clear();
    }
}
