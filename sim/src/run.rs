//! A world for one launch: what tests and examples of kernels need.

use crate::choices::Notes;
use crate::config::Config;
use crate::engine;
use crate::failure::Failure;
use crate::kernel::{KernelJob, LaneBody};
use crate::net::{Fault, Model, Path};
use crate::seed::Seed;
use std::panic::Location;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What a launch has done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// How often a lane was switched to: the same for the same seed.
    pub lane_switches: u64,
    /// The seed it ran with.
    pub seed: u64,
    /// How long it would have taken by the [`Model`], where there is one: never a measured time.
    pub modelled: Option<Duration>,
}

/// Launches a kernel on `pes` PEs, with `grid` blocks of `block` threads on each, and waits for it. The launch is
/// collective. The seed is that of `SHMEM_SIM_SEED`, or 0. More can be set with [`Sim`].
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(4, 1, 32, || {
///     let ready = shmem_sim::signals(1).at(0);
///     if thread::index() == 0 {
///         shmem::signal_op(ready.set(1), (shmem::my_pe() + 1) % shmem::n_pes());
///     }
///     shmem::wait_until(Block, ready, eq(1));
/// }).unwrap();
/// ```
///
/// # Errors
/// A fault or panic of the kernel, a deadlock, a run of more than 30 seconds, a world that can't be made.
#[track_caller]
pub fn run(pes: u32, grid: u32, block: u32, kernel: impl Fn() + Send + Sync) -> Result<Report, Failure> {
    Sim::new(pes).grid(grid).block(block).run(kernel)
}

/// A launch to be made, with all that can be set about it.
///
/// ```
/// use shmem::prelude::*;
/// let report = shmem_sim::Sim::new(2).grid((2, 2)).block((8, 8)).shared_bytes(1024).seed(3).run(|| {
///     assert_eq!(thread::block_size(), 64);
///     Block.sync();
/// }).unwrap();
/// assert!(report.lane_switches >= 2 * 4 * 64);
/// ```
#[derive(Clone, Debug)]
#[must_use = "a launch is made by `run`"]
pub struct Sim {
    config: Config,
    seed: Option<Seed>,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: usize,
    cluster: u32,
}

/// Blocks of a grid or threads of a block: `x`, `(x, y)` or `(x, y, z)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dim3(pub [u32; 3]);

impl From<u32> for Dim3 {
    fn from(x: u32) -> Self {
        Self([x, 1, 1])
    }
}

impl From<(u32, u32)> for Dim3 {
    fn from((x, y): (u32, u32)) -> Self {
        Self([x, y, 1])
    }
}

impl From<(u32, u32, u32)> for Dim3 {
    fn from((x, y, z): (u32, u32, u32)) -> Self {
        Self([x, y, z])
    }
}

impl Sim {
    /// One block of one thread on each of `pes` PEs.
    pub fn new(pes: u32) -> Self {
        Self {
            config: Config::new(pes),
            seed: None,
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            cluster: 1,
        }
    }

    /// Blocks.
    pub fn grid(self, grid: impl Into<Dim3>) -> Self {
        Self {
            grid: grid.into().0,
            ..self
        }
    }

    /// Threads of a block.
    pub fn block(self, block: impl Into<Dim3>) -> Self {
        Self {
            block: block.into().0,
            ..self
        }
    }

    /// Bytes of dynamic shared memory of each block.
    pub fn shared_bytes(self, shared_bytes: usize) -> Self {
        Self { shared_bytes, ..self }
    }

    /// Blocks of a cluster, 1 if not set: neighbours along x, up to 8, whose number in the grid they divide.
    pub fn cluster(self, cluster: u32) -> Self {
        Self { cluster, ..self }
    }

    /// The seed, instead of that of `SHMEM_SIM_SEED`.
    pub fn seed(self, seed: u64) -> Self {
        self.replay(seed.into())
    }

    /// As [`seed`](Self::seed), with those of its random decisions that are made: see [`Found::replay`](crate::Found).
    pub fn replay(self, seed: Seed) -> Self {
        Self {
            seed: Some(seed),
            ..self
        }
    }

    /// What carries operations between nodes, instead of what `SHMEM_SIM_PATH` says. Over another than
    /// [`Path::LoadStore`] each PE is a node of its own, unless [`node_pes`](Self::node_pes) is set.
    pub fn path(mut self, path: Path) -> Self {
        self.config.path = Some(path);
        self
    }

    /// PEs of a node: they reach each other by load and store.
    pub fn node_pes(mut self, node_pes: u32) -> Self {
        self.config.node_pes = Some(node_pes);
        self
    }

    /// Contexts with queues of their own, and blocks of each queue, over [`Path::Ibgda`]: see [`Config::contexts`].
    pub fn queues(mut self, contexts: u32, blocks: u32) -> Self {
        (self.config.contexts, self.config.queue_blocks) = (contexts, blocks);
        self
    }

    /// Something that breaks; called again, one thing more.
    pub fn fault(mut self, fault: Fault) -> Self {
        self.config.faults.push(fault);
        self
    }

    pub(crate) fn notes(mut self, notes: Notes) -> Self {
        self.config.notes = Some(notes);
        self
    }

    /// Times by a model of the network, instead of random ones. The report says how long the launch takes by it.
    pub fn model(mut self, model: Model) -> Self {
        self.config.model = Some(model);
        self
    }

    /// Where a trace of what happens is written, for Perfetto, instead of where `SHMEM_TIMELINE` says: see
    /// [`Config::timeline`].
    pub fn timeline(mut self, file: impl Into<PathBuf>) -> Self {
        self.config.timeline = Some(file.into());
        self
    }

    pub(crate) fn timeline_wanted(&self) -> Option<PathBuf> {
        self.config.timeline.clone()
    }

    pub(crate) fn timeline_file(mut self, file: Option<PathBuf>) -> Self {
        self.config.timeline = file;
        self
    }

    /// Bytes of each PE's heap: address space, 1 GiB if not set.
    pub fn heap_bytes(mut self, heap_bytes: u64) -> Self {
        self.config.heap_bytes = heap_bytes;
        self
    }

    /// How long the launch may take: 30 seconds if not set, None for ever.
    pub fn time_limit(mut self, time_limit: Option<Duration>) -> Self {
        self.config.time_limit = time_limit;
        self
    }

    /// Whether the order of accesses is checked: it is if not set.
    pub fn check(mut self, check: bool) -> Self {
        self.config.check = check;
        self
    }

    /// Makes the world, runs the kernel, and takes the world down.
    ///
    /// # Errors
    /// As [`run`].
    #[track_caller]
    pub fn run(self, kernel: impl Fn() + Send + Sync) -> Result<Report, Failure> {
        let at = Location::caller();
        let seed = match &self.seed {
            Some(seed) => seed.clone(),
            None => Seed::from_env().map_err(|error| unmade(&error))?.unwrap_or_default(),
        };
        engine::on_own_thread(|| self.run_here(seed, at, &kernel))
    }

    /// As [`run`](Self::run), with this seed and on this thread, which is in no lane.
    pub(crate) fn run_here(
        &self,
        seed: Seed,
        at: &'static Location<'static>,
        kernel: &(impl Fn() + Send + Sync),
    ) -> Result<Report, Failure> {
        let (number, model) = (seed.number, self.config.model);
        let config = Config {
            seed: number,
            choices: seed.choices,
            ..self.config.clone()
        };
        let kernel: Arc<dyn Fn() + Send + Sync + '_> = Arc::new(kernel);
        // SAFETY: `run_here` below holds all clones. When it returns, no lane runs any more and nothing calls the kernel: its
        // world is dropped, or leaked where the simulator has panicked.
        let kernel = unsafe { std::mem::transmute::<Arc<dyn Fn() + Send + Sync + '_>, Arc<LaneBody>>(kernel) };
        let jobs = (0..config.pes).map(|_| KernelJob {
            name: "run",
            symbol: "",
            place: (at.file(), at.line()),
            grid: self.grid,
            block: self.block,
            shared_bytes: self.shared_bytes,
            cluster: self.cluster,
            collective: true,
            lane: Arc::clone(&kernel),
        });
        let (lane_switches, time_ns) = engine::run_here(&config, jobs)?;
        Ok(Report {
            lane_switches,
            seed: number,
            modelled: model.map(|_| Duration::from_nanos(time_ns)),
        })
    }
}

fn unmade(error: &dyn std::fmt::Display) -> Failure {
    Failure::Launch {
        report: error.to_string(),
    }
}
