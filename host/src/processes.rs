//! What a World whose PEs are in several processes needs of them.

use crate::Error;
use crate::board::Board;
use crate::config::Settings;
use crate::fds::{Card, Channels, Door};
use crate::layout::Layout;
use crate::post::Post;
use crate::wire;
use serde::{Deserialize, Serialize};
use shmem::state::{LAYOUT, MAX_PES};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// The processes of a job as whoever started them connects them.
pub(crate) trait Processes: Send + Sync {
    /// This process's number, from 0.
    fn rank(&self) -> u32;

    fn size(&self) -> u32;

    /// Gives bytes and gets everybody's, by rank. Waits as long as it takes, or `limit`; an error, in words, once any process
    /// has failed. One call at a time.
    fn allgather(&self, mine: Vec<u8>, limit: Option<Duration>) -> Result<Vec<Vec<u8>>, String>;

    /// Tells all processes that this one has failed. Does not wait for what they do about it.
    fn fail(&self, cause: &str);

    /// The first failure that is known, and whose: a process that ended without a word has failed.
    fn failure(&self) -> Option<(u32, String)>;

    /// Sends a letter to one process, in order. An error, in words, where that can't be.
    fn send(&self, to: u32, letter: &[u8], limit: Option<Duration>) -> Result<(), String>;

    /// The next letter to this process; None where none comes in that time. An error, in words, once any process has failed.
    fn receive(&self, within: Duration) -> Result<Option<Vec<u8>>, String>;

    /// Leaves the job in order, once all processes have called this; an error, in words, where one has failed instead.
    fn finish(&self, limit: Option<Duration>) -> Result<(), String>;
}

/// Processes that can't make a World together, or that lost each other.
///
/// ```
/// use shmem_host::ProcessError;
///
/// let error = ProcessError::Lost { cause: "the connection broke".to_owned() };
/// assert!(error.to_string().contains("the connection broke"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// Processes run different programs, or the same one with different settings.
    #[error(
        "process {} has {what} {}, process {} has {}: start every process with the same program and settings",
        first.0, first.1, second.0, second.1
    )]
    Differ {
        /// In what.
        what: &'static str,
        /// A rank, and what it has.
        first: (u32, String),
        /// The first rank that has something else.
        second: (u32, String),
    },
    /// Processes that share memory run on different machines.
    #[error(
        "processes {first} and {second} run on different machines, or in different network namespaces, and {backend} works \
         on one: start all of them on one machine, or on GPUs let network adapters carry what goes between machines \
         (SHMEM_PATH=auto)"
    )]
    Machines {
        /// A rank.
        first: u32,
        /// The first that is elsewhere.
        second: u32,
        /// The backend.
        backend: &'static str,
    },
    /// Two processes use one device, and nothing makes their kernels run at the same time.
    #[error(
        "processes {first} and {second} both use {device}: kernels of two processes take turns there, so that one that waits \
         for the other never ends: give each process a device of its own (CUDA_VISIBLE_DEVICES by local rank), or run \
         several PEs in one process (SHMEM_NPES), or start MPS (nvidia-cuda-mps-control -d)"
    )]
    SameDevice {
        /// A rank.
        first: u32,
        /// The first other one with the device.
        second: u32,
        /// The device's UUID.
        device: String,
    },
    /// Memory could not be passed between processes.
    #[error("memory could not be shared with the other processes: {cause}")]
    Share {
        /// The system's words.
        cause: String,
    },
    /// The exchange with the other processes broke.
    #[error("the other processes can't be reached any more: {cause}")]
    Lost {
        /// How.
        cause: String,
    },
}

/// Bytes of a cause that other processes are told.
const CAUSE: usize = 4000;

/// What each process says of itself first.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Hello {
    /// Of this crate, with the layouts that kernels and hosts share.
    version: String,
    backend: String,
    /// Machine and network namespace.
    machine: String,
    /// What the settings call it.
    host: Option<String>,
    heap: Option<u64>,
    /// What carries operations, and how memory travels: each other way is other calls.
    path: String,
    contexts: u32,
    handles: String,
    pes: u32,
    /// The lowest number that its next World may have.
    world: u32,
    card: Card,
}

impl Hello {
    fn version() -> String {
        let sizes = (size_of::<usize>(), size_of::<shmem::SymSlice<u32>>());
        format!("{} (layout {LAYOUT:016x}, {sizes:?})", env!("CARGO_PKG_VERSION"))
    }
}

/// All processes of a World.
pub(crate) struct Group {
    pub(crate) layout: Layout,
    pub(crate) board: Board,
    /// Which World it is, in every process: handles of others are told apart by it.
    pub(crate) world: u32,
    others: Option<Arc<Others>>,
}

/// The other processes, and ways to them.
pub(crate) struct Others {
    pub(crate) processes: Arc<dyn Processes>,
    channels: Channels,
    post: Post,
}

impl Others {
    /// Gives every other process these files and gets theirs, by rank; this process's own list is empty. All processes call
    /// it, as often, one call at a time. It is given up once a process has failed, or `given_up` says so.
    pub(crate) fn share(
        &self,
        mine: &[BorrowedFd<'_>],
        given_up: &dyn Fn() -> bool,
    ) -> Result<Vec<Vec<OwnedFd>>, ProcessError> {
        let given_up = || self.processes.failure().is_some() || given_up();
        self.channels.share(mine, &given_up).map_err(|cause| share(&cause))
    }
}

impl Group {
    /// This process alone.
    pub(crate) fn alone(pes: u32, world: u32) -> Self {
        let layout = Layout::alone(pes);
        Self {
            board: Board::own(&layout),
            layout,
            world,
            others: None,
        }
    }

    /// With the other processes, which all call this. `world` is the lowest number that may be taken.
    pub(crate) fn join(
        processes: &Arc<dyn Processes>,
        backend: &'static str,
        settings: &Settings,
        world: u32,
    ) -> Result<Self, Error> {
        let (rank, limit) = (processes.rank(), settings.time_limit);
        let door = Door::open().map_err(|cause| share(&cause))?;
        let hello = Hello {
            version: Hello::version(),
            backend: backend.to_owned(),
            machine: machine(),
            host: settings.host_id.clone(),
            heap: settings.heap,
            path: settings.path.to_string(),
            contexts: settings.queue_contexts,
            handles: settings.handles.name().to_owned(),
            pes: settings.pes_or(1)?,
            world,
            card: door.card().clone(),
        };
        let lost = |cause| ProcessError::Lost { cause };
        let told = processes.allgather(wire::encode(&hello), limit).map_err(lost)?;
        let hellos: Vec<Hello> = (0..)
            .zip(&told)
            .map(|(rank, bytes)| decode_hello(rank, bytes))
            .collect::<Result<_, _>>()?;
        differ("version", &hellos, |hello| hello.version.clone())?;
        differ("the backend", &hellos, |hello| hello.backend.clone())?;
        differ("a heap of", &hellos, |hello| match hello.heap {
            Some(bytes) => format!("{bytes} bytes"),
            None => "the default size".to_owned(),
        })?;
        differ("the path (SHMEM_PATH)", &hellos, |hello| hello.path.clone())?;
        let what = "contexts with send queues (SHMEM_IBGDA_CONTEXTS)";
        differ(what, &hellos, |hello| hello.contexts.to_string())?;
        differ("memory handles (SHMEM_HANDLES)", &hellos, |hello| hello.handles.clone())?;
        let reaches = |hello: &&Hello| hello.machine == hellos[rank as usize].machine;
        let apart = hellos.iter().position(|hello| hello.machine != hellos[0].machine);
        if let Some(other) = apart.filter(|_| backend == "sim") {
            let (first, second) = (0, other as u32);
            return Err(ProcessError::Machines { first, second, backend }.into());
        }
        let hosts: Vec<_> = hellos.iter().map(|hello| (&hello.machine, &hello.host)).collect();
        let layout = Layout::new(rank, hellos.iter().map(|hello| hello.pes)).on_hosts(&hosts);
        if layout.pes() as usize > MAX_PES {
            return Err(crate::ConfigError::TooManyPes { asked: layout.pes() }.into());
        }
        let card = |hello| Some(hello).filter(reaches).map(|hello: &Hello| hello.card.clone());
        let cards: Vec<_> = hellos.iter().map(card).collect();
        let given_up = || processes.failure().is_some();
        let channels = Channels::connect(&door, rank, &cards, limit, &given_up).map_err(|cause| share(&cause))?;
        tracing::debug!(rank, "processes connected");
        let board = board(&layout, &channels, &given_up).map_err(|cause| share(&cause))?;
        let post = Post::open(&channels, &layout, processes, limit, &given_up).map_err(|cause| share(&cause))?;
        Ok(Self {
            layout,
            board,
            world: hellos.iter().map(|hello| hello.world).max().unwrap_or(world),
            others: Some(Arc::new(Others {
                processes: processes.clone(),
                channels,
                post,
            })),
        })
    }

    pub(crate) fn others(&self) -> Option<&Arc<Others>> {
        self.others.as_ref()
    }

    /// The other processes, where there are any.
    pub(crate) fn processes(&self) -> Option<&Arc<dyn Processes>> {
        self.others.as_ref().map(|others| &others.processes)
    }

    /// The way to single processes, where there are others.
    pub(crate) fn post(&self) -> Option<&Post> {
        self.others.as_ref().map(|others| &others.post)
    }

    /// Gives every PE's memory to every process: one descriptor for each PE of this process goes in, one for each PE of the
    /// World comes out. Every process calls it.
    pub(crate) fn share_memory(&self, mine: Vec<OwnedFd>) -> Result<Vec<OwnedFd>, ProcessError> {
        let Some(others) = &self.others else {
            return Ok(mine);
        };
        let sent: Vec<_> = mine.iter().map(AsFd::as_fd).collect();
        let mut all = others.share(&sent, &|| false)?;
        for (rank, files) in (0..).zip(&mut all) {
            let pes = self.layout.of_rank(rank);
            if pes == self.layout.local() {
                continue;
            }
            if files.len() != pes.len() {
                let cause = format!(
                    "process {rank} sent memory for {} of its {} PEs",
                    files.len(),
                    pes.len()
                );
                return Err(ProcessError::Share { cause });
            }
        }
        let rank = others.processes.rank();
        all[rank as usize] = mine;
        Ok(all.into_iter().flatten().collect())
    }

    /// How far the PEs of this process are: how many rounds each has come to, and whether its device holds it up.
    pub(crate) fn slots(&self) -> Vec<(u32, u64, bool)> {
        let slot = |pe| (pe, self.board.came(pe), self.board.is_held_up(pe));
        self.layout.local().map(slot).collect()
    }

    /// What a process of another machine says of its own.
    pub(crate) fn note_slots(&self, slots: &[(u32, u64, bool)]) {
        let is_far = |pe| pe < self.layout.pes() && !self.layout.is_near(self.layout.rank_of(pe));
        for &(pe, came, held_up) in slots.iter().filter(|(pe, ..)| is_far(*pe)) {
            self.board.come(pe, came);
            self.board.hold_up(pe, held_up);
        }
    }

    /// Tells the other processes that a PE of this one has failed.
    pub(crate) fn tell(&self, pe: u32, cause: &str) {
        if let Some(processes) = self.processes() {
            processes.fail(&format!("PE {pe}: {}", &cause[..cause.floor_char_boundary(CAUSE)]));
        }
    }

    /// The first failure of any process, as PE and cause.
    pub(crate) fn failure(&self) -> Option<(u32, String)> {
        let (rank, told) = self.processes()?.failure()?;
        Some(self.told(rank, told))
    }

    /// What [`tell`](Self::tell) says, read. What does not read so is what was seen of the process.
    fn told(&self, rank: u32, told: String) -> (u32, String) {
        let pes = self.layout.of_rank(rank.min(self.layout.processes() - 1));
        let read = told.strip_prefix("PE ").and_then(|rest| rest.split_once(": "));
        match read.map(|(pe, cause)| (pe.parse(), cause)) {
            Some((Ok(pe), cause)) if pe < self.layout.pes() => (pe, cause.to_owned()),
            _ => (pes.start, told),
        }
    }
}

fn share(cause: &io::Error) -> ProcessError {
    ProcessError::Share {
        cause: cause.to_string(),
    }
}

fn decode_hello(rank: u32, bytes: &[u8]) -> Result<Hello, ProcessError> {
    wire::decode(bytes).ok_or_else(|| ProcessError::Differ {
        what: "version",
        first: (0, Hello::version()),
        second: (rank, "one that says something else at the start".to_owned()),
    })
}

fn differ(what: &'static str, hellos: &[Hello], of: impl Fn(&Hello) -> String) -> Result<(), ProcessError> {
    let first = of(&hellos[0]);
    match (0..).zip(hellos).find(|(_, hello)| of(hello) != first) {
        None => Ok(()),
        Some((rank, hello)) => Err(ProcessError::Differ {
            what,
            first: (0, first),
            second: (rank, of(hello)),
        }),
    }
}

/// That of the machine's lowest rank, in every process of it.
fn board(layout: &Layout, channels: &Channels, given_up: &dyn Fn() -> bool) -> io::Result<Board> {
    let first = layout.first_near();
    let mine = if first == layout.rank() {
        Some(Board::file(layout)?)
    } else {
        None
    };
    let sent: Vec<BorrowedFd<'_>> = mine.iter().map(AsFd::as_fd).collect();
    let mut received = channels.share(&sent, given_up)?;
    let file = match mine {
        Some(file) => file,
        None => received[first as usize].pop().ok_or(io::ErrorKind::UnexpectedEof)?,
    };
    Board::shared(layout, file)
}

/// Processes with the same text reach each other's sockets.
fn machine() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let network = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    format!("{} {}", boot.trim(), network.display())
}

#[cfg(test)]
mod tests;
