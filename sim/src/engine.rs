//! A world of simulated PEs as its host threads see it.

use crate::check::HostAccess;
use crate::config::{Config, SimError};
use crate::desk::Desk;
use crate::failure::Failure;
use crate::kernel::KernelJob;
use crate::memory::Heaps;
use crate::objects;
use crate::overflow;
use crate::panics;
use crate::simulator::Simulator;
use crate::world::World;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::panic::Location;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::thread::{self, JoinHandle};

/// A queue of launches of one PE, which run one after the other. Stream 0 of each PE exists from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u32);

/// A world of simulated PEs: their heaps, their streams, and one OS thread on which every lane of every PE runs.
///
/// Each PE has one host thread, which submits kernels and waits. Clones are the same world; when the last one is dropped,
/// lanes that still run are ended.
///
/// ```
/// use shmem_sim::{Config, Engine, KernelJob, StreamId};
/// use std::sync::Arc;
///
/// let engine = Engine::new(Config::new(1))?;
/// let job = KernelJob {
///     name: "hello",
///     symbol: "",
///     place: (file!(), line!()),
///     grid: [2, 1, 1],
///     block: [64, 1, 1],
///     shared_bytes: 0,
///     cluster: 1,
///     collective: false,
///     lane: Arc::new(|| assert!(shmem::thread::index() < 64)),
/// };
/// engine.submit(0, StreamId(0), job)?;
/// engine.wait(0, StreamId(0))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Engine(Arc<Handle>);

struct Handle {
    desk: Arc<Desk>,
    heaps: Arc<Heaps>,
    node_pes: u32,
    adapters: bool,
    thread: Option<JoinHandle<()>>,
}

/// A PE's host thread is inside a host collective while this lives: it waits for others, and submits nothing.
#[must_use = "the host counts as blocked only as long as this lives"]
pub struct Blocked<'a> {
    desk: &'a Desk,
    pe: u32,
}

impl Drop for Blocked<'_> {
    fn drop(&mut self) {
        self.desk.unblock(self.pe);
    }
}

impl Engine {
    /// Makes a world.
    ///
    /// # Errors
    /// No PEs or too many, heaps that are too small or can't be mapped, `SHMEM_SIM_STACK` that is no size.
    pub fn new(config: Config) -> Result<Self, SimError> {
        config.check()?;
        let (_, node_pes) = config.path_and_node()?;
        let adapters = config.has_adapters() && (config.node_pes.is_none() || node_pes < config.pes);
        panics::install_hook();
        let desk = Arc::new(Desk::new(&config));
        let heaps = Arc::new(Heaps::of(&config)?);
        let (ready, made) = mpsc::sync_channel(1);
        let (thread_desk, thread_heaps) = (Arc::clone(&desk), Arc::clone(&heaps));
        let thread = thread::Builder::new()
            .name("shmem-sim".to_owned())
            .spawn(move || simulate(&config, &thread_heaps, &thread_desk, &ready))
            .map_err(SimError::Thread)?;
        let engine = Self(Arc::new(Handle {
            desk,
            heaps,
            node_pes,
            adapters,
            thread: Some(thread),
        }));
        match made.recv() {
            Ok(Err(error)) => Err(error),
            Ok(Ok(())) => Ok(engine),
            Err(_) => Err(SimError::Thread(std::io::Error::other("it ended at once"))),
        }
    }

    /// Where a PE's heap begins. Its pages are zero at first, and go with the world.
    ///
    /// # Panics
    /// The PE does not exist.
    #[track_caller]
    pub fn heap(&self, pe: u32) -> *mut u8 {
        self.check(pe);
        self.0.heaps.base(pe)
    }

    /// The PEs that a PE reaches by load and store, itself among them.
    ///
    /// # Panics
    /// The PE does not exist.
    #[track_caller]
    pub fn node(&self, pe: u32) -> Range<u32> {
        self.check(pe);
        let start = pe / self.0.node_pes * self.0.node_pes;
        start..(start + self.0.node_pes).min(self.0.heaps.pes())
    }

    /// Whether emulated adapters carry operations between some PEs: what kernels have issued is under way then when they have
    /// ended, until it is quieted.
    pub fn has_adapters(&self) -> bool {
        self.0.adapters
    }

    /// Puts a file's first bytes in the place of a range of a PE's heap, as this process sees it.
    ///
    /// # Errors
    /// A range that is not of whole pages inside the heap; the system's.
    ///
    /// # Safety
    /// The file has so many bytes and can't become shorter; nothing uses the range meanwhile.
    ///
    /// # Panics
    /// The PE does not exist.
    #[track_caller]
    pub unsafe fn replace_heap(&self, pe: u32, offset: u64, bytes: u64, file: BorrowedFd<'_>) -> io::Result<()> {
        self.check(pe);
        // SAFETY: the caller's promise.
        unsafe { self.0.heaps.replace(pe, offset, bytes, file) }
    }

    /// Undoes [`replace_heap`](Self::replace_heap): the range has pages of the heap again, with what they had before or zero.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// Nothing uses the range meanwhile.
    ///
    /// # Panics
    /// The PE does not exist.
    #[track_caller]
    pub unsafe fn restore_heap(&self, pe: u32, offset: u64, bytes: u64) -> io::Result<()> {
        self.check(pe);
        // SAFETY: the caller's promise.
        unsafe { self.0.heaps.restore(pe, offset, bytes) }
    }

    /// Makes another stream for a PE.
    ///
    /// # Panics
    /// The PE does not exist.
    #[track_caller]
    pub fn stream(&self, pe: u32) -> StreamId {
        self.check(pe);
        StreamId(self.0.desk.add_stream(pe))
    }

    /// Queues a kernel on a stream and returns. A collective kernel starts when it is at the head of a stream on every PE.
    ///
    /// Every PE makes its collective launches in the same order, whatever their streams: the k-th of each belong together.
    /// Lanes begin to run when all hosts are blocked, or 100 ms after the last of them did anything.
    ///
    /// # Errors
    /// The world has failed; the launch does not fit together with those of the other PEs, which fails the world; the grid,
    /// block or stream does not exist.
    ///
    /// # Panics
    /// The PE does not exist.
    #[track_caller]
    pub fn submit(&self, pe: u32, stream: StreamId, job: KernelJob) -> Result<(), Failure> {
        self.check(pe);
        self.0.desk.submit(pe, stream.0, job)
    }

    /// Waits until all kernels of a stream have ended. The host counts as blocked meanwhile.
    ///
    /// # Errors
    /// The world has failed, or does now.
    ///
    /// # Panics
    /// The PE does not exist.
    #[track_caller]
    pub fn wait(&self, pe: u32, stream: StreamId) -> Result<(), Failure> {
        self.check(pe);
        self.0.desk.wait(pe, stream.0)
    }

    /// Says that the PE's host thread is in a host collective, until the guard is dropped.
    ///
    /// # Panics
    /// The PE does not exist.
    #[track_caller]
    pub fn blocked(&self, pe: u32) -> Blocked<'_> {
        self.check(pe);
        self.0.desk.block(pe);
        Blocked { desk: &self.0.desk, pe }
    }

    /// Says that a host thread inside a collective is let go, before it gets to run and drops its guard: to be called by
    /// the thread that lets it go, for itself as well. Without this, the simulator may go on before that host, so that a run is replayed less
    /// exactly, and it takes a second longer to find a deadlock.
    ///
    /// # Panics
    /// The PE does not exist.
    #[track_caller]
    pub fn release(&self, pe: u32) {
        self.check(pe);
        self.0.desk.unblock(pe);
    }

    /// Says that these PEs' host threads have met, and are let go: what each did before comes before what any of them does
    /// from now on. As [`release`](Self::release) for each of them.
    ///
    /// # Panics
    /// One of them does not exist.
    #[track_caller]
    pub fn met(&self, pes: &[u32]) {
        for &pe in pes {
            self.check(pe);
        }
        self.0.desk.met(pes);
    }

    /// Says that the PE's host knows, without a [`wait`](Self::wait), that what it launched on the stream up to some time
    /// ago has ended.
    ///
    /// # Panics
    /// The PE does not exist.
    #[track_caller]
    pub fn passed(&self, pe: u32, stream: StreamId) {
        self.check(pe);
        self.0.desk.passed(pe, stream.0);
    }

    /// Says that the PE's host reads (or writes) `bytes` bytes of its PE's memory, in the line `at`. A bug in the order of
    /// that and what kernels do fails the world once the simulator goes on: see [`settle`](Self::settle).
    ///
    /// # Panics
    /// The PE does not exist.
    #[track_caller]
    pub fn host_access(&self, pe: u32, write: bool, address: u64, bytes: u64, at: &'static Location<'static>) {
        self.check(pe);
        self.0.desk.access(HostAccess {
            pe,
            write,
            address,
            bytes,
            at,
        });
    }

    /// Says that memory is given out anew: what was done to it before is of no interest any more.
    pub fn reused(&self, address: u64, bytes: u64) {
        self.0.desk.reused(address, bytes);
    }

    /// Waits until everything that hosts did so far has been looked at.
    ///
    /// # Errors
    /// The world has failed, or does now.
    ///
    /// # Panics
    /// The PE does not exist.
    #[track_caller]
    pub fn settle(&self, pe: u32) -> Result<(), Failure> {
        self.check(pe);
        self.0
            .desk
            .settle(pe)
            .map_or(Ok(()), |failure| Err(failure.seen_by(pe)))
    }

    /// Says that the PE's host thread has ended: it submits nothing more.
    ///
    /// # Panics
    /// The PE does not exist.
    #[track_caller]
    pub fn detach(&self, pe: u32) {
        self.check(pe);
        self.0.desk.detach(pe);
    }

    /// Fails the world because a PE's host side has failed. Returns when no lane runs any more.
    ///
    /// # Panics
    /// The PE does not exist.
    #[track_caller]
    pub fn fail(&self, pe: u32, cause: String) {
        self.check(pe);
        self.0.desk.fail(Failure::PeerFailed { pe, cause });
    }

    /// Why the world has failed, if it has.
    pub fn failure(&self) -> Option<Failure> {
        self.0.desk.failure()
    }

    /// How often a lane has been switched to, as of the last kernel that ended. The same for the same seed.
    pub fn lane_switches(&self) -> u64 {
        self.0.desk.switches()
    }

    #[track_caller]
    fn check(&self, pe: u32) {
        let pes = self.0.heaps.pes();
        assert!(pe < pes, "there is no PE {pe} in a world of {pes}");
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("pes", &self.0.heaps.pes())
            .finish_non_exhaustive()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.desk.shut_down();
        if let Some(thread) = self.thread.take()
            // A kernel may have held the last clone: then this is the simulator's thread, which ends by itself.
            && thread.thread().id() != thread::current().id()
        {
            // An error would be a panic of the simulator, which has been told as a failure.
            let _ = thread.join();
        }
    }
}

/// Does some work on a thread of its own, and waits for it: a lane that can't be unwound leaves a mark on its thread.
pub(crate) fn on_own_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("shmem-sim".to_owned())
            .spawn_scoped(scope, work);
        let thread = thread.unwrap_or_else(|error| panic!("{}", SimError::Thread(error)));
        thread.join().unwrap_or_else(|payload| resume_unwind(payload))
    })
}

/// Runs a collective launch of one job for each PE from beginning to end, on this thread, which is in no lane. Returns how
/// often a lane was switched to, and the simulated time.
pub(crate) fn run_here(config: &Config, jobs: impl Iterator<Item = KernelJob>) -> Result<(u64, u64), Failure> {
    let unmade = |error: SimError| Failure::Launch {
        report: error.to_string(),
    };
    config.check().map_err(unmade)?;
    panics::install_hook();
    let desk = Arc::new(Desk::new(config));
    let heaps = Arc::new(Heaps::new(config.pes, config.heap_bytes).map_err(unmade)?);
    let _watch = overflow::Watch::new().map_err(unmade)?;
    let world = World::new(config, Arc::clone(&heaps)).map_err(unmade)?;
    for (pe, job) in (0..).zip(jobs) {
        desk.submit(pe, 0, job)?;
    }
    (0..config.pes).for_each(|pe| desk.detach(pe));
    objects::allow(heaps);
    let mut simulator = ManuallyDrop::new(Simulator::new(world, Arc::clone(&desk), config.time_limit));
    let ran = catch_unwind(AssertUnwindSafe(|| simulator.run_through()));
    objects::forget();
    match ran {
        Ok(()) => drop(ManuallyDrop::into_inner(simulator)),
        // Its lanes are in an unknown state: they are leaked.
        Err(_) => desk.publish(own_failure(&simulator)),
    }
    match desk.failure() {
        Some(failure) => Err(failure),
        None => Ok((desk.switches(), desk.time_ns())),
    }
}

/// What the simulator's own panic is to its hosts.
fn own_failure(simulator: &Simulator) -> Failure {
    let failure = simulator.world().failure().cloned();
    failure.unwrap_or_else(|| Failure::PeerFailed {
        pe: 0,
        cause: "the simulator itself panicked; its message is on standard error".to_owned(),
    })
}

/// The simulator's thread.
fn simulate(config: &Config, heaps: &Arc<Heaps>, desk: &Arc<Desk>, ready: &SyncSender<Result<(), SimError>>) {
    let made = overflow::Watch::new().and_then(|watch| Ok((watch, World::new(config, Arc::clone(heaps))?)));
    let (_watch, world) = match made {
        Ok(made) => made,
        Err(error) => {
            // Whoever makes the engine waits for this.
            let _ = ready.send(Err(error));
            return;
        }
    };
    let _ = ready.send(Ok(()));
    let mut simulator = ManuallyDrop::new(Simulator::new(world, Arc::clone(desk), config.time_limit));
    match catch_unwind(AssertUnwindSafe(|| simulator.run())) {
        Ok(()) => drop(ManuallyDrop::into_inner(simulator)),
        // Its lanes are in an unknown state: they are leaked, and the hosts are let go.
        Err(_) => desk.publish(own_failure(&simulator)),
    }
}
