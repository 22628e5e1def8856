//! What a world is made of, and why it could not be made.

use crate::choices::Notes;
use crate::memory::heap_file;
use crate::net::{Fault, Model, Path};
use shmem::state::{MAX_PES, MIN_QUEUE_LOG2, SystemArea};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A world to simulate.
///
/// ```
/// use std::time::Duration;
/// let mut config = shmem_sim::Config::new(4);
/// config.seed = 7;
/// config.time_limit = Some(Duration::from_secs(5));
/// let engine = shmem_sim::Engine::new(config)?;
/// assert!(!engine.heap(3).is_null());
/// # Ok::<(), shmem_sim::SimError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// How many PEs, 1 to [`MAX_PES`].
    pub pes: u32,
    /// The order in which lanes run follows from it. Take it from `SHMEM_SIM_SEED`, so that a failure can be replayed.
    pub seed: u64,
    /// Bytes of each PE's symmetric heap. Address space only: pages cost memory once they are written.
    pub heap_bytes: u64,
    /// How long a kernel may run, in processor time, so that a busy machine fails nothing; and how long it may be kept waiting
    /// for a host thread or another process, by the clock. None for ever.
    pub time_limit: Option<Duration>,
    /// Whether the order of accesses is checked: a kernel that lacks a fence fails with [`Failure::Bug`](crate::Failure).
    pub check: bool,
    /// What carries operations between nodes; None: what `SHMEM_SIM_PATH` says, or load and store.
    pub path: Option<Path>,
    /// PEs of a node, which reach each other by load and store. None: all of them over [`Path::LoadStore`], else each is a
    /// node of its own.
    pub node_pes: Option<u32>,
    /// Contexts that have queues of their own over [`Path::Ibgda`]; the others share those of context 0.
    pub contexts: u32,
    /// Blocks of each send queue over [`Path::Ibgda`], a power of two from [`LEAST_BLOCKS`](Self::LEAST_BLOCKS) to
    /// [`MOST_BLOCKS`](Self::MOST_BLOCKS).
    pub queue_blocks: u32,
    /// Which of the PEs are here, where others are in other processes. None: all of them.
    pub processes: Option<Processes>,
    /// What breaks.
    pub faults: Vec<Fault>,
    /// Where a trace of what happens is written when the world ends, for Perfetto; from `SHMEM_TIMELINE`. The second world
    /// of a process with the same name writes `name.2.json`.
    pub timeline: Option<PathBuf>,
    /// Times of a network, instead of random ones: then nothing is random.
    pub model: Option<Model>,
    /// The random decisions that are made, by number and ascending; all others are plain. None: all are made.
    pub choices: Option<Arc<[u64]>>,
    /// Where decisions are noted.
    pub(crate) notes: Option<Notes>,
}

impl Config {
    /// The shortest send queue.
    pub const LEAST_BLOCKS: u32 = 1 << MIN_QUEUE_LOG2;
    /// The longest send queue: what 16-bit indices can tell apart.
    pub const MOST_BLOCKS: u32 = 1 << 15;
    /// The most contexts with queues of their own.
    pub const MOST_CONTEXTS: u32 = 64;

    /// Seed 0, heaps of 1 GiB, checked, a limit of 30 seconds.
    pub fn new(pes: u32) -> Self {
        Self {
            pes,
            seed: 0,
            heap_bytes: 1 << 30,
            time_limit: Some(Duration::from_secs(30)),
            check: true,
            path: None,
            node_pes: None,
            contexts: 8,
            queue_blocks: 256,
            processes: None,
            faults: Vec::new(),
            timeline: std::env::var_os("SHMEM_TIMELINE")
                .filter(|name| !name.is_empty())
                .map(PathBuf::from),
            model: None,
            choices: None,
            notes: None,
        }
    }

    /// The PEs whose lanes run in this process.
    pub(crate) fn local(&self) -> Range<u32> {
        self.processes.as_ref().map_or(0..self.pes, |here| here.local.clone())
    }

    /// Whether accesses are checked: what lanes of other processes do is not seen, nor what adapters do.
    pub(crate) fn checked(&self) -> bool {
        self.check && self.processes.is_none() && !self.has_adapters()
    }

    /// Whether emulated adapters carry operations. A path that is not understood is refused elsewhere.
    pub(crate) fn has_adapters(&self) -> bool {
        self.path_and_node().is_ok_and(|(path, _)| path == Path::Ibgda)
    }

    /// Refuses what worlds over emulated adapters can't have.
    pub(crate) fn check_adapters(&self) -> Result<(), SimError> {
        let (contexts, blocks) = (self.contexts, self.queue_blocks);
        if !(1..=Self::MOST_CONTEXTS).contains(&contexts)
            || !(Self::LEAST_BLOCKS..=Self::MOST_BLOCKS).contains(&blocks)
            || !blocks.is_power_of_two()
        {
            return Err(SimError::Queues { contexts, blocks });
        }
        let refuse = |what, instead| Err(SimError::NotOverAdapters { what, instead });
        if self.processes.is_some() {
            return refuse("PEs in several processes", "give all PEs to one process");
        }
        if self.model.is_some() {
            return refuse("a model of times", "take the path queue-pairs");
        }
        let has_no_part = |fault: &Fault| matches!(fault, Fault::Slow { .. } | Fault::FlipBit { .. });
        if self.faults.iter().any(has_no_part) {
            return refuse("slow links or flipped bits", "take the path queue-pairs");
        }
        Ok(())
    }

    /// What carries operations, and how many PEs a node has.
    pub(crate) fn path_and_node(&self) -> Result<(Path, u32), SimError> {
        let path = match self.path {
            Some(path) => path,
            None => Path::from_env()?.unwrap_or_default(),
        };
        let most = if path == Path::LoadStore { self.pes } else { 1 };
        Ok((path, self.node_pes.unwrap_or(most).clamp(1, self.pes)))
    }

    pub(crate) fn check(&self) -> Result<(), SimError> {
        if self.pes == 0 || self.pes as usize > MAX_PES {
            return Err(SimError::Pes { pes: self.pes });
        }
        if let Some(Processes { local, heaps }) = &self.processes
            && (local.is_empty() || local.end > self.pes || heaps.len() != self.pes as usize)
        {
            return Err(SimError::Processes {
                local: local.clone(),
                pes: self.pes,
                heaps: heaps.len(),
            });
        }
        let is_of_adapters = |fault: &Fault| matches!(fault, Fault::CutOff { .. } | Fault::LoseStore { .. });
        if self.faults.iter().any(is_of_adapters) && !self.has_adapters() {
            return Err(SimError::NoAdapters);
        }
        let needed = SystemArea::new(self.pes).bytes;
        if self.heap_bytes < needed {
            return Err(SimError::Heap {
                bytes: self.heap_bytes,
                needed,
            });
        }
        Ok(())
    }
}

/// One process's part of a world whose PEs are in several. Each process runs the lanes of its own PEs, on memory that all
/// of them map.
///
/// A seed decides about the lanes of one process only: how fast the others are is chance, and so such a run can't be
/// replayed. A process does not see what the others' lanes do: they are not checked, whatever [`Config::check`](field@Config::check) says, and a
/// lane that waits is not known to wait for ever; it ends at the time limit. Collective launches start when every PE of
/// this process has made them.
///
/// ```
/// use shmem_sim::{Config, Engine, Processes, StreamId};
///
/// // Both processes' parts, here in one process.
/// let heap = || Processes::heap_file(32 << 20);
/// let heaps: std::sync::Arc<[_]> = [heap()?, heap()?].into();
/// let part = |pe: u32| {
///     let mut config = Config::new(2);
///     config.heap_bytes = 32 << 20;
///     config.processes = Some(Processes { local: pe..pe + 1, heaps: heaps.clone() });
///     Engine::new(config)
/// };
/// let (a, b) = (part(0)?, part(1)?);
/// assert_ne!(a.heap(1), b.heap(1)); // one memory at two addresses
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Processes {
    /// The PEs of this process.
    pub local: Range<u32>,
    /// Every PE's heap, as [`heap_file`](Self::heap_file) makes them: of at least [`Config::heap_bytes`] bytes.
    pub heaps: Arc<[OwnedFd]>,
}

impl Processes {
    /// Memory for a PE's heap that processes can share by passing the descriptor on. Nobody can shrink it; it goes with the
    /// last process that has it.
    ///
    /// # Errors
    /// The system's.
    pub fn heap_file(bytes: u64) -> std::io::Result<OwnedFd> {
        heap_file(bytes)
    }
}

/// Why a world could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// No PEs, or too many.
    #[error("a world has 1 to {MAX_PES} PEs, not {pes}")]
    Pes {
        /// As asked.
        pes: u32,
    },
    /// A heap that the library's own words don't fit in.
    #[error("heap_bytes is {bytes}, but the library's own part of each heap takes {needed}")]
    Heap {
        /// As asked.
        bytes: u64,
        /// The least.
        needed: u64,
    },
    /// A process's part that is none of the world.
    #[error("PEs {local:?} and {heaps} heaps were given for a world of {pes} PEs: give some of them, and every heap")]
    Processes {
        /// The PEs here.
        local: Range<u32>,
        /// All of them.
        pes: u32,
        /// Heaps given.
        heaps: usize,
    },
    /// Queues of network adapters that can't be.
    #[error(
        "{contexts} contexts with queues of {blocks} blocks were asked for: give 1 to {} contexts, and a power of two from {} \
         to {} blocks (SHMEM_IBGDA_CONTEXTS, SHMEM_IBGDA_DEPTH)",
        Config::MOST_CONTEXTS,
        Config::LEAST_BLOCKS,
        Config::MOST_BLOCKS
    )]
    Queues {
        /// As asked.
        contexts: u32,
        /// As asked.
        blocks: u32,
    },
    /// Queues of network adapters that take too much memory.
    #[error(
        "{count} pairs of PEs with {contexts} contexts of {blocks} blocks take {bytes} bytes for queues, and {most} are the \
         most: ask for fewer contexts or blocks (SHMEM_IBGDA_CONTEXTS, SHMEM_IBGDA_DEPTH), or larger nodes"
    )]
    QueueMemory {
        /// What they take.
        bytes: u64,
        /// What they may take.
        most: u64,
        /// Contexts of each pair of PEs.
        contexts: u32,
        /// Blocks of each queue.
        blocks: u32,
        /// Pairs of PEs that the network connects.
        count: u64,
    },
    /// The adapters could not be made.
    #[error("the network adapters could not be set up: {cause}")]
    Adapters {
        /// Why.
        cause: String,
    },
    /// Something that worlds over emulated adapters don't have.
    #[error("a world over ibgda can't have {what}: {instead}")]
    NotOverAdapters {
        /// What was asked for.
        what: &'static str,
        /// What to do.
        instead: &'static str,
    },
    /// A fault of network adapters, in a world that has none.
    #[error("a fault of network adapters was asked for, and this world has none: take the path ibgda")]
    NoAdapters,
    /// The system gave no memory.
    #[error("could not map {bytes} bytes for {what}: {source}; make heap_bytes or the number of PEs smaller")]
    Map {
        /// What for.
        what: &'static str,
        /// How much.
        bytes: u64,
        /// The system's reason.
        source: std::io::Error,
    },
    /// `SHMEM_SIM_STACK` or `SHMEM_SIM_SEED` can't be read.
    #[error("{variable}={value} can't be used: {wanted}")]
    Environment {
        /// The variable.
        variable: &'static str,
        /// What it holds.
        value: String,
        /// What it should hold.
        wanted: &'static str,
    },
    /// The simulator's thread could not be started.
    #[error("could not start the simulator's thread: {0}")]
    Thread(std::io::Error),
}
