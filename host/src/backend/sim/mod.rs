//! The simulator as a platform: one engine runs the lanes of all PEs, heaps and buffers are memory of this process.

mod memory;
mod register;

use super::{
    Device, FunctionId, GraphId, Halt, KernelInfo, Launch, Limits, Loaded, Marker, ModuleId, Platform, Shape,
    Stopwatch, StreamGrid, StreamId, Watch,
};
use crate::collective::CollectiveError;
use crate::config::{ConfigError, Path, Settings};
use crate::fault::DeviceFault;
use crate::heap::Placed;
use crate::images::ImageError;
use crate::processes::{Group, ProcessError};
use crate::register::{RegisterError, UserMemory};
use crate::{Error, HeapError, StreamError};
use memory::{Buffer, load, store};
use register::UserFiles;
use shmem::hook::At;
use shmem_sim::{Config, Engine, Failure, KernelJob, Processes, SimError};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// PEs where nobody says how many.
pub(crate) const PES: u32 = 4;
/// Heap of each PE where nobody says how large: address space, not memory.
const HEAP: u64 = 1 << 30;
/// Lanes that one World keeps resident for collective launches.
const LANES: u32 = 1 << 16;
/// As on the largest GPUs: what runs here fits there.
const SHARED_BYTES: u32 = 227 << 10;
/// Blocks of a cluster, as on GPUs that have them.
const CLUSTER: u32 = 8;
/// Collectives on streams take little: lanes are slow, and several blocks show all that there is to see.
const STREAM_GRID: StreamGrid = StreamGrid {
    blocks: 3,
    threads: 32,
    block_bytes: 1 << 10,
};
const PAGE: u64 = 4096;

pub(crate) struct Sim {
    engine: Engine,
    pes: u32,
    /// PEs of this process.
    local: u32,
    heap_bytes: u64,
    time_limit: Option<Duration>,
    user: Mutex<UserFiles>,
}

impl Sim {
    pub(crate) fn start(settings: &Settings, group: &Group) -> Result<Arc<Self>, Error> {
        let pes = group.layout.pes();
        let least = shmem::state::SystemArea::new(pes).bytes;
        let heap_bytes = settings.heap_or(HEAP, pes, least)?.next_multiple_of(PAGE);
        let mut config = Config::new(pes);
        config.seed = settings.seed;
        config.check = settings.check;
        (config.path, config.node_pes) = path_and_node(settings, pes);
        (config.contexts, config.queue_blocks) = (settings.queue_contexts, settings.queue_blocks);
        config.heap_bytes = heap_bytes;
        config.time_limit = settings.time_limit;
        if group.processes().is_some() {
            if settings.path.has_adapters() {
                return Err(ConfigError::Path {
                    path: settings.path,
                    place: "in several processes of the simulator",
                    cause: "one process emulates all adapters: give it all PEs (SHMEM_NPES)",
                }
                .into());
            }
            let made = group.layout.local().map(|_| Processes::heap_file(heap_bytes));
            let made = made.collect::<Result<_, _>>().map_err(|cause| ProcessError::Share {
                cause: format!("no memory for a heap of {heap_bytes} bytes: {cause}"),
            })?;
            config.processes = Some(Processes {
                local: group.layout.local(),
                heaps: group.share_memory(made)?.into(),
            });
        }
        let engine = Engine::new(config).map_err(|error| match error {
            SimError::Map { bytes, source, .. } if bytes == heap_bytes => ConfigError::HeapAddresses {
                pes,
                per_pe: heap_bytes,
                cause: source.to_string(),
            },
            other => ConfigError::Simulator {
                cause: other.to_string(),
            },
        })?;
        Ok(Arc::new(Self {
            engine,
            pes,
            local: group.layout.local().len() as u32,
            heap_bytes,
            time_limit: settings.time_limit,
            user: Mutex::default(),
        }))
    }
}

/// What carries operations, and the PEs of a node. None: the simulator's own defaults.
fn path_and_node(settings: &Settings, pes: u32) -> (Option<shmem_sim::Path>, Option<u32>) {
    match settings.path {
        Path::Auto => (settings.sim_path, None),
        Path::LoadStore => (Some(shmem_sim::Path::LoadStore), None),
        Path::Ibgda => (Some(shmem_sim::Path::Ibgda), None),
        Path::Mixed => {
            let node_pes = settings.node_pes.unwrap_or(pes.div_ceil(2));
            (Some(shmem_sim::Path::Ibgda), Some(node_pes))
        }
    }
}

impl Platform for Sim {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn pes(&self) -> u32 {
        self.pes
    }

    fn node(&self, pe: u32) -> Range<u32> {
        self.engine.node(pe)
    }

    fn has_network(&self) -> bool {
        self.engine.has_adapters()
    }

    fn heap_bytes(&self) -> u64 {
        self.heap_bytes
    }

    fn stream_grid(&self) -> StreamGrid {
        STREAM_GRID
    }

    fn hold(&self, pe: u32, memory: UserMemory<'_>, bytes: u64) -> Result<(), RegisterError> {
        self.hold_file(pe, memory, bytes)
    }

    fn let_go(&self, pe: u32) {
        self.user().held.remove(&pe);
    }

    fn map_held(&self, group: &Group, pe: u32, at: &Placed) -> Result<(), Error> {
        self.map_files(group, pe, at)
    }

    fn unmap(&self, serial: u64) -> Result<(), Error> {
        self.restore(serial)
    }

    fn open(self: Arc<Self>, pe: u32) -> Result<Box<dyn Device>, Error> {
        let streams = RefCell::new(vec![shmem_sim::StreamId(0)]);
        Ok(Box::new(SimDevice {
            sim: self,
            pe,
            streams,
            buffers: RefCell::default(),
            functions: Cell::new(0),
            graphs: RefCell::default(),
        }))
    }

    fn release(&self, pes: &mut dyn Iterator<Item = u32>) {
        self.engine.met(&pes.collect::<Vec<_>>());
    }

    fn abort(&self, pe: u32, cause: &str) {
        self.engine.fail(pe, cause.to_owned());
    }

    fn failure(&self) -> Option<(Option<u32>, String)> {
        Some(match self.engine.failure()? {
            Failure::Fault {
                kernel,
                pe,
                record,
                message,
            } => (
                Some(pe),
                DeviceFault::new(pe, &record, kernel.to_owned(), message).to_string(),
            ),
            Failure::PeerFailed { pe, cause } => (Some(pe), cause),
            other => (None, other.to_string()),
        })
    }
}

struct SimDevice {
    sim: Arc<Sim>,
    pe: u32,
    streams: RefCell<Vec<shmem_sim::StreamId>>,
    buffers: RefCell<HashMap<u64, Buffer>>,
    functions: Cell<usize>,
    graphs: RefCell<Graphs>,
}

/// Launches that were recorded.
#[derive(Default)]
struct Graphs {
    under_way: HashMap<usize, Vec<KernelJob>>,
    made: HashMap<GraphId, Vec<KernelJob>>,
    next: usize,
}

impl SimDevice {
    fn stream(&self, stream: StreamId) -> shmem_sim::StreamId {
        self.streams.borrow()[stream.0]
    }

    /// The engine's failure as this PE's error.
    fn error(&self, failure: Failure) -> Error {
        match failure {
            Failure::Fault {
                kernel,
                pe,
                record,
                message,
            } => {
                let fault = DeviceFault::new(pe, &record, kernel.to_owned(), message);
                if pe == self.pe {
                    Error::Device(Box::new(fault))
                } else {
                    Error::PeerFailed {
                        pe,
                        cause: fault.to_string(),
                    }
                }
            }
            Failure::PeerFailed { pe, cause } => Error::PeerFailed { pe, cause },
            Failure::Bug(bug) => Error::Bug(bug),
            Failure::Adapter { report } => Error::Adapter { report },
            Failure::Deadlock { report } => Error::Deadlock { report },
            Failure::TimeLimit { report } => Error::TimeLimit {
                pe: self.pe,
                what: "the simulation".to_owned(),
                limit: self.sim.time_limit.unwrap_or_default(),
                report,
            },
            Failure::Launch { report } => CollectiveError::Launch { report }.into(),
        }
    }

    fn buffer(&self, bytes: u64) -> Result<u64, HeapError> {
        let buffer = Buffer::new(bytes).ok_or_else(|| HeapError::OutOfMemory {
            pe: self.pe,
            asked: bytes,
            free: 0,
            total: 0,
            device: self.name(),
        })?;
        let address = buffer.address();
        self.buffers.borrow_mut().insert(address, buffer);
        Ok(address)
    }

    /// The host reads or writes.
    fn touches(&self, write: bool, address: u64, bytes: usize, at: At) {
        self.sim.engine.host_access(self.pe, write, address, bytes as u64, at);
    }

    fn submit(&self, stream: StreamId, job: KernelJob) -> Result<(), Error> {
        let submitted = self.sim.engine.submit(self.pe, self.stream(stream), job);
        submitted.map_err(|failure| self.error(failure))
    }
}

impl Device for SimDevice {
    fn name(&self) -> String {
        "the simulator".to_owned()
    }

    fn limits(&self) -> Limits {
        Limits {
            threads: 1024,
            block: [1024, 1024, 64],
            grid: [i32::MAX as u32, 65535, 65535],
            // It numbers them so.
            blocks: u32::MAX.into(),
            shared_bytes: SHARED_BYTES,
        }
    }

    fn heap_base(&self) -> u64 {
        self.sim.engine.heap(self.pe) as u64
    }

    fn back(&self, _end: u64, _watch: &Watch<'_>) -> Result<(), Halt> {
        Ok(()) // Pages come when they are touched.
    }

    fn taint(&self, address: u64, bytes: u64) {
        // SAFETY: the caller owns the range, and no kernel uses it.
        unsafe { std::ptr::write_bytes(address as *mut u8, 0xff, bytes as usize) };
    }

    fn zero(&self, address: u64, bytes: u64, _watch: &Watch<'_>) -> Result<(), Halt> {
        // SAFETY: the caller owns the range, and no kernel uses it.
        unsafe { std::ptr::write_bytes(address as *mut u8, 0, bytes as usize) };
        Ok(())
    }

    fn alloc_host(&self, bytes: u64) -> Result<u64, Error> {
        Ok(self.buffer(bytes)?)
    }

    fn free_host(&self, address: u64) {
        self.buffers.borrow_mut().remove(&address);
    }

    fn copy(&self, stream: StreamId, device: u64, host: u64, bytes: u64, to_host: bool) -> Result<(), Error> {
        let (from, to) = if to_host { (device, host) } else { (host, device) };
        let job = KernelJob {
            name: "a copy between host and device",
            symbol: "",
            place: (file!(), line!()),
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            cluster: 1,
            collective: false,
            lane: Arc::new(move || {
                let mut data = vec![0; bytes as usize];
                // SAFETY: live memory of that many bytes on both sides, which the caller keeps until the stream has drained.
                unsafe {
                    load(from, &mut data);
                    store(to, &data);
                }
            }),
        };
        self.submit(stream, job)
    }

    fn alloc(&self, bytes: u64, _watch: &Watch<'_>) -> Result<u64, Halt> {
        let address = self.buffer(bytes)?;
        self.reused(address, bytes);
        Ok(address)
    }

    fn free(&self, address: u64) {
        self.buffers.borrow_mut().remove(&address);
    }

    fn read(&self, address: u64, into: &mut [u8], at: At, _watch: &Watch<'_>) -> Result<(), Halt> {
        self.touches(false, address, into.len(), at);
        // SAFETY: the caller owns the range.
        unsafe { load(address, into) };
        Ok(())
    }

    fn write(&self, address: u64, from: &[u8], at: At, _watch: &Watch<'_>) -> Result<(), Halt> {
        self.touches(true, address, from.len(), at);
        // SAFETY: the caller owns the range.
        unsafe { store(address, from) };
        Ok(())
    }

    fn reused(&self, address: u64, bytes: u64) {
        self.sim.engine.reused(address, bytes);
    }

    fn settle(&self) -> Result<(), Error> {
        let settled = self.sim.engine.settle(self.pe);
        settled.map_err(|failure| self.error(failure))
    }

    fn new_stream(&self) -> Result<StreamId, Error> {
        let mut streams = self.streams.borrow_mut();
        streams.push(self.sim.engine.stream(self.pe));
        Ok(StreamId(streams.len() - 1))
    }

    unsafe fn adopt_stream(&self, _raw: *mut c_void, _place: Option<StreamId>) -> Result<StreamId, Error> {
        let (pe, backend) = (self.pe, self.sim.name());
        Err(StreamError::NotOnThisBackend { pe, backend }.into())
    }

    fn release_stream(&self, _stream: StreamId) {}

    fn raw_stream(&self, _stream: StreamId) -> *mut c_void {
        ptr::null_mut()
    }

    fn wait(&self, stream: StreamId, _watch: &Watch<'_>) -> Result<(), Halt> {
        let waited = self.sim.engine.wait(self.pe, self.stream(stream));
        waited.map_err(|failure| Halt::Error(self.error(failure)))
    }

    fn mark(&self, stream: StreamId) -> Result<Box<dyn Marker>, Error> {
        // A kernel of one lane that says when it is its turn.
        let reached = Arc::new(AtomicBool::new(false));
        let flag = reached.clone();
        let lane = Arc::new(move || flag.store(true, Ordering::Release));
        let place = (file!(), line!());
        let job = KernelJob {
            name: "mark",
            symbol: "",
            place,
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            cluster: 1,
            collective: false,
            lane,
        };
        self.submit(stream, job)?;
        Ok(Box::new(Mark {
            reached,
            engine: self.sim.engine.clone(),
            pe: self.pe,
            stream: self.stream(stream),
        }))
    }

    fn stopwatch(&self, _stream: StreamId) -> Result<Box<dyn Stopwatch>, Error> {
        Ok(Box::new(HostClock(Instant::now())))
    }

    fn load(&self, _kernel: &KernelInfo) -> Result<Loaded, Error> {
        let function = FunctionId(self.functions.replace(self.functions.get() + 1));
        Ok(Loaded {
            function,
            threads: 1024,
            shared_bytes: 0,
            // The simulator sees a tile's first use itself.
            tile: 1,
            cluster: CLUSTER,
            places: 0,
        })
    }

    fn load_ptx(&self, _ptx: &str) -> Result<ModuleId, Error> {
        Err(ImageError::NotOnThisBackend { backend: "sim" }.into())
    }

    fn load_from(&self, _module: ModuleId, _symbol: &str) -> Result<Loaded, Error> {
        Err(ImageError::NotOnThisBackend { backend: "sim" }.into())
    }

    fn resident(&self, _function: FunctionId, shape: Shape) -> Result<u32, Error> {
        // As whole clusters.
        let blocks = LANES / self.sim.local / shape.threads / shape.cluster * shape.cluster;
        Ok(blocks.max(shape.cluster))
    }

    fn launch_often(&self, launch: Launch<'_>, times: u32) -> Result<(), Error> {
        let Launch { params, hosted, .. } = launch;
        (0..times).try_for_each(|_| {
            self.launch(Launch {
                params: &mut *params,
                hosted,
                ..launch
            })
        })
    }

    fn launch(&self, launch: Launch<'_>) -> Result<(), Error> {
        let (kernel, lane) = launch.hosted.ok_or(ImageError::NotOnThisBackend { backend: "sim" })?;
        let job = KernelJob {
            name: kernel.name,
            symbol: kernel.symbol,
            place: kernel.place,
            grid: launch.grid,
            block: launch.block,
            shared_bytes: launch.shared_bytes as usize,
            cluster: launch.cluster,
            collective: launch.collective,
            lane: lane(),
        };
        if let Some(jobs) = self.graphs.borrow_mut().under_way.get_mut(&launch.stream.0) {
            jobs.push(job);
            return Ok(());
        }
        self.submit(launch.stream, job)
    }

    fn begin_capture(&self, stream: StreamId) -> Result<(), Error> {
        self.graphs.borrow_mut().under_way.insert(stream.0, vec![]);
        Ok(())
    }

    fn end_capture(&self, stream: StreamId) -> Result<GraphId, Error> {
        let graphs = &mut *self.graphs.borrow_mut();
        let (id, jobs) = (GraphId(graphs.next), graphs.under_way.remove(&stream.0));
        graphs.next += 1;
        graphs.made.insert(id, jobs.unwrap_or_default());
        Ok(id)
    }

    fn launch_graph(&self, graph: GraphId, stream: StreamId) -> Result<(), Error> {
        let graphs = self.graphs.borrow();
        let mut jobs = graphs.made[&graph].iter().cloned();
        jobs.try_for_each(|job| self.submit(stream, job))
    }

    fn drop_graph(&self, graph: GraphId) {
        self.graphs.borrow_mut().made.remove(&graph);
    }

    fn failure(&self) -> Option<Error> {
        self.sim.engine.failure().map(|failure| self.error(failure))
    }

    fn while_blocked(&self, f: &mut dyn FnMut()) {
        let _blocked = self.sim.engine.blocked(self.pe);
        f();
    }

    fn close(&self, _drained: bool) {
        self.sim.engine.detach(self.pe);
    }
}

struct Mark {
    reached: Arc<AtomicBool>,
    engine: Engine,
    pe: u32,
    stream: shmem_sim::StreamId,
}

impl Marker for Mark {
    fn reached(&self) -> bool {
        let reached = self.reached.load(Ordering::Acquire);
        if reached {
            self.engine.passed(self.pe, self.stream);
        }
        reached
    }
}

/// The simulator's time, which says nothing about GPUs.
struct HostClock(Instant);

impl Stopwatch for HostClock {
    fn stop(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn elapsed(&self) -> Result<Duration, Error> {
        Ok(self.0.elapsed())
    }
}
