//! What a World needs of the machine below it. Two of them exist: GPUs and the simulator.
//!
//! [`Platform`] is the machine as all PEs share it; [`Device`] is what one PE holds, on its own thread. Neither knows of
//! typed kernels, buffers or what PEs agree on: that is the same on both, above this wall.

pub(crate) mod cuda;
pub(crate) mod sim;

use crate::heap::Placed;
use crate::heap_stats::Backed;
use crate::processes::Group;
use crate::register::{RegisterError, UserMemory};
use crate::{Error, NetworkCounters};
use shmem::hook::At;
use shmem::state::GRID_SLOTS;
use shmem::{BlockBounds, Images, Kernel};
use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// The machine of a World.
pub(crate) trait Platform: Send + Sync {
    /// `cuda` or `sim`.
    fn name(&self) -> &'static str;

    fn pes(&self) -> u32;

    /// The PEs that this one reaches by load and store on its host, as its kernels are told.
    fn node(&self, pe: u32) -> Range<u32> {
        let _ = pe;
        0..self.pes()
    }

    /// A PE that this one does not reach by load and store, or that does not reach it.
    fn beyond_reach(&self, pe: u32) -> Option<u32> {
        let _ = pe;
        None
    }

    /// Whether some PEs are reached by a network only.
    fn has_network(&self) -> bool {
        false
    }

    /// Address space of each PE's heap. The library's own words at its start are in place and zero.
    fn heap_bytes(&self) -> u64;

    /// What memory is mapped in multiples of.
    fn page(&self) -> u64 {
        4096
    }

    /// The offset from which on the PE's heap has no memory of its own, so that other memory may be mapped there. On a platform
    /// that can put it in the place of the heap's own: 0.
    fn backed_end(&self, pe: u32) -> u64 {
        let _ = pe;
        0
    }

    /// Looks at memory of the program's own, on the PE's thread, and holds it for [`map_held`](Self::map_held) or
    /// [`let_go`](Self::let_go). `bytes` is a multiple of the page.
    fn hold(&self, pe: u32, memory: UserMemory<'_>, bytes: u64) -> Result<(), RegisterError>;

    /// Forgets what is still held for the PE.
    fn let_go(&self, pe: u32) {
        let _ = pe;
    }

    /// Maps what is held for every PE of the World at this range of its heap, for all PEs of this process. Every PE of every
    /// process calls it, once all of them hold theirs, and uses the range once all have returned; the first PE of a process
    /// does the work.
    fn map_held(&self, group: &Group, pe: u32, at: &Placed) -> Result<(), Error> {
        let _ = (group, pe, at);
        Ok(())
    }

    /// Undoes [`map_held`](Self::map_held) for all PEs of this process, unless that has been done: the range is the heap's own
    /// again, with any contents where the heap has been in use before, and zero above. Every PE calls it before it goes on to
    /// use the range anew, or to map there: for those that come late, the serial tells the object from a later one.
    fn unmap(&self, serial: u64) -> Result<(), Error> {
        let _ = serial;
        Ok(())
    }

    /// What a collective on a stream takes of each device.
    fn stream_grid(&self) -> StreamGrid;

    /// PE `pe`'s device. Called once for each, on the PE's own thread.
    fn open(self: Arc<Self>, pe: u32) -> Result<Box<dyn Device>, Error>;

    /// The threads of these PEs are in [`Device::while_blocked`], and are let go now.
    fn release(&self, pes: &mut dyn Iterator<Item = u32>) {
        let _ = pes;
    }

    /// Ends the waits of all kernels of all PEs, because `pe` has failed. Called from any thread.
    fn abort(&self, pe: u32, cause: &str);

    /// What emulated adapters have done; None where there are none.
    fn network_counters(&self) -> Option<NetworkCounters> {
        None
    }

    /// A failure of kernels of this process that no host thread may have seen: the PE, where it is one's, and the cause.
    fn failure(&self) -> Option<(Option<u32>, String)> {
        None
    }
}

/// One PE's device. Streams are numbered by the device; stream 0 exists from the start.
pub(crate) trait Device {
    /// The device in words, as in `NVIDIA H200 (device 0)`.
    fn name(&self) -> String;

    /// The driver's number of it.
    fn index(&self) -> Option<u32> {
        None
    }

    fn limits(&self) -> Limits;

    fn heap_base(&self) -> u64;

    /// Makes sure that the PE's heap has memory up to offset `end`. Fresh memory is zero.
    fn back(&self, end: u64, watch: &Watch<'_>) -> Result<(), Halt>;

    /// What is in place of the heap so far; None where memory comes page by page.
    fn backed(&self) -> Option<Backed> {
        None
    }

    /// The memory's contents don't matter: a device that looks for mistakes makes them conspicuous.
    fn taint(&self, address: u64, bytes: u64) {
        let _ = (address, bytes);
    }

    /// Zeroes memory that no stream uses.
    fn zero(&self, address: u64, bytes: u64, watch: &Watch<'_>) -> Result<(), Halt>;

    /// Ordinary device memory, at a multiple of 256, zero.
    fn alloc(&self, bytes: u64, watch: &Watch<'_>) -> Result<u64, Halt>;

    /// Frees what `alloc` returned; no stream uses it.
    fn free(&self, address: u64);

    /// Host memory that streams copy from and to, zero, aligned to a page.
    fn alloc_host(&self, bytes: u64) -> Result<u64, Error>;

    /// Frees what `alloc_host` returned; no stream uses it.
    fn free_host(&self, address: u64);

    /// Enqueues a copy between device memory and memory of `alloc_host`, of at least a byte.
    fn copy(&self, stream: StreamId, device: u64, host: u64, bytes: u64, to_host: bool) -> Result<(), Error>;

    /// Enqueues a copy by the device's copy engine. False, with nothing enqueued, where a kernel has to make it: the device has
    /// no such engine, or a place is beyond its reach.
    fn copy_engine(&self, stream: StreamId, dst: Place, src: Place, bytes: u64) -> Result<bool, Error> {
        let _ = (stream, dst, src, bytes);
        Ok(false)
    }

    /// Copies to the host, for the line `at`; stream 0 has drained.
    fn read(&self, address: u64, into: &mut [u8], at: At, watch: &Watch<'_>) -> Result<(), Halt>;

    /// Copies to the device; no stream uses the memory.
    fn write(&self, address: u64, from: &[u8], at: At, watch: &Watch<'_>) -> Result<(), Halt>;

    /// Memory of the PE's heap is given out anew.
    fn reused(&self, address: u64, bytes: u64) {
        let _ = (address, bytes);
    }

    /// Returns what is only found out now about what the PE's host has done.
    fn settle(&self) -> Result<(), Error> {
        Ok(())
    }

    fn new_stream(&self) -> Result<StreamId, Error>;

    /// Takes in a caller's stream, as a new one or in the place of one that was released.
    ///
    /// # Safety
    /// It is a live stream of this device's driver, until `release_stream`.
    unsafe fn adopt_stream(&self, raw: *mut c_void, place: Option<StreamId>) -> Result<StreamId, Error>;

    /// The caller's stream is named no more after this. It can still be waited for, as it is now.
    fn release_stream(&self, stream: StreamId);

    /// The driver's name of it; null where there is no driver.
    fn raw_stream(&self, stream: StreamId) -> *mut c_void;

    /// Waits until everything on the stream has run, and looks whether a kernel met an error.
    fn wait(&self, stream: StreamId, watch: &Watch<'_>) -> Result<(), Halt>;

    /// A mark that is reached once everything now on the stream has run.
    fn mark(&self, stream: StreamId) -> Result<Box<dyn Marker>, Error>;

    /// Starts to measure what is enqueued on the stream from now on.
    fn stopwatch(&self, stream: StreamId) -> Result<Box<dyn Stopwatch>, Error>;

    /// Makes the kernel ready to run on this PE, with all others of its package.
    fn load(&self, kernel: &KernelInfo) -> Result<Loaded, Error>;

    /// Makes hand-made PTX ready to run on this PE.
    fn load_ptx(&self, ptx: &str) -> Result<ModuleId, Error>;

    fn load_from(&self, module: ModuleId, symbol: &str) -> Result<Loaded, Error>;

    /// Blocks of this shape that this PE can have resident at once, its share where PEs share the device.
    fn resident(&self, function: FunctionId, shape: Shape) -> Result<u32, Error>;

    /// Enqueues. Everything has been checked that this crate checks.
    fn launch(&self, launch: Launch<'_>) -> Result<(), Error>;

    /// Enqueues a cooperative launch as often, with nothing in between.
    fn launch_often(&self, launch: Launch<'_>, times: u32) -> Result<(), Error>;

    /// From now on, what is launched on this stream, which is idle, is recorded rather than run.
    fn begin_capture(&self, stream: StreamId) -> Result<(), Error>;

    /// What was launched on the stream since, ready to run. The stream is an ordinary one again, also after an error.
    fn end_capture(&self, stream: StreamId) -> Result<GraphId, Error>;

    fn launch_graph(&self, graph: GraphId, stream: StreamId) -> Result<(), Error>;

    /// The graph is launched no more; it may still run.
    fn drop_graph(&self, graph: GraphId);

    /// The error that this PE must return because some kernel of the World failed, if one has.
    fn failure(&self) -> Option<Error>;

    /// Runs `f`, in which the PE's thread waits for the other PEs' threads.
    fn while_blocked(&self, f: &mut dyn FnMut()) {
        f();
    }

    /// The PE launches nothing more. `drained` says whether its streams are known to be idle.
    fn close(&self, drained: bool);
}

/// Where device memory begins that a copy names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// In a PE's heap.
    Heap { pe: u32, offset: u64 },
    /// In this PE's own memory.
    Address(u64),
}

/// Time that a stream's work takes.
pub(crate) trait Stopwatch {
    /// What is enqueued from now on does not count.
    fn stop(&mut self) -> Result<(), Error>;
    /// Between start and stop; the stream has drained since.
    fn elapsed(&self) -> Result<Duration, Error>;
}

/// Reached or not: what a stream has run.
pub(crate) trait Marker {
    fn reached(&self) -> bool;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamId(pub(crate) usize);

impl StreamId {
    /// The number that collective kernels on this stream have to themselves: kernels of one stream follow each other.
    pub(crate) fn slot(self) -> u32 {
        // A collective launch on a later stream is refused.
        (self.0 % GRID_SLOTS) as u32
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FunctionId(pub(crate) usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GraphId(pub(crate) usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ModuleId(pub(crate) usize);

/// What a collective on a stream takes: alike on all PEs of a World.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamGrid {
    /// The most blocks: every PE has as many resident beside those of the PEs that share its device.
    pub(crate) blocks: u32,
    /// Threads of each.
    pub(crate) threads: u32,
    /// Bytes that are worth a block.
    pub(crate) block_bytes: u64,
}

/// How large a launch may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) threads: u32,
    pub(crate) block: [u32; 3],
    pub(crate) grid: [u32; 3],
    /// Blocks of a grid in all.
    pub(crate) blocks: u64,
    /// Static and dynamic shared memory of a block, together.
    pub(crate) shared_bytes: u32,
}

/// A kernel as a device needs to know it.
#[derive(Clone, Copy)]
pub(crate) struct KernelInfo {
    pub(crate) name: &'static str,
    pub(crate) symbol: &'static str,
    pub(crate) place: (&'static str, u32),
    pub(crate) collective: bool,
    pub(crate) programmatic: bool,
    pub(crate) bounds: BlockBounds,
    pub(crate) images: fn() -> &'static Images,
}

impl KernelInfo {
    pub(crate) const fn of<K: Kernel>() -> Self {
        Self {
            name: K::NAME,
            symbol: K::SYMBOL,
            place: K::PLACE,
            collective: K::COLLECTIVE,
            programmatic: K::PROGRAMMATIC,
            bounds: K::BOUNDS,
            images: K::images,
        }
    }
}

/// A kernel that is ready to run on a PE.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loaded {
    pub(crate) function: FunctionId,
    /// Threads of a block that its registers allow.
    pub(crate) threads: u32,
    /// Shared memory that it declares itself.
    pub(crate) shared_bytes: u32,
    /// Lanes of the largest SubWarp that it uses: a block is a multiple of it.
    pub(crate) tile: u32,
    /// Blocks that a cluster may have: 1 where device or image have no clusters.
    pub(crate) cluster: u32,
    /// Blocks of a programmatic launch at most, where the kernel is for such: 0 where its image or the device has none.
    pub(crate) places: u64,
}

/// What decides how many blocks are resident at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Of a block.
    pub(crate) threads: u32,
    /// Dynamic shared memory of a block.
    pub(crate) shared_bytes: u32,
    /// Blocks of a cluster.
    pub(crate) cluster: u32,
}

/// One launch.
pub(crate) struct Launch<'a> {
    pub(crate) function: FunctionId,
    pub(crate) stream: StreamId,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    /// Blocks of a cluster, along x.
    pub(crate) cluster: u32,
    /// Every PE launches.
    pub(crate) collective: bool,
    /// All blocks resident at once, as those of a collective launch are.
    pub(crate) cooperative: bool,
    /// Blocks may be placed before the kernel ahead has ended.
    pub(crate) programmatic: bool,
    /// Where each argument lies.
    pub(crate) params: &'a mut [*mut c_void],
    /// What the simulator runs: the kernel, and how to make a lane of it. Hand-made PTX has none.
    pub(crate) hosted: Option<(&'a KernelInfo, &'a dyn Fn() -> Lane)>,
}

/// Runs one thread of a kernel on the simulator.
pub(crate) type Lane = Arc<dyn Fn() + Send + Sync>;

/// When to stop waiting.
pub(crate) struct Watch<'a> {
    /// Whether the World has failed.
    pub(crate) failed: &'a dyn Fn() -> bool,
    pub(crate) limit: Option<Duration>,
}

/// Why a wait ended early.
#[derive(Clone, Debug)]
pub(crate) enum Halt {
    /// The World failed; how, the World knows.
    WorldFailed,
    /// The limit passed.
    TimeLimit,
    Error(Error),
}

impl<E: Into<Error>> From<E> for Halt {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}
