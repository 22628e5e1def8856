//! All PEs together: made from settings, run once.

use crate::backend::{Platform, cuda, sim};
use crate::collective::Turn;
use crate::config::{Backend, MemoryHandles, Path, Settings};
use crate::info::Source;
use crate::job::Job;
use crate::post::Post;
use crate::processes::{Group, ProcessError, Processes};
use crate::rendezvous::Round;
use crate::session::Session;
use crate::shared::{LOOK, NEWS, Shared};
use crate::{Error, Pe, SimPath, wire};
use std::any::Any;
use std::fmt::{self, Display};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A number of PEs, numbered from 0, that share a symmetric heap.
///
/// PEs are threads of this process, or of the processes that a launcher has started ([`from_env`](Self::from_env)). Where there are fewer devices than PEs, PEs share devices, and a collective launch gets
/// its part of one. OpenSHMEM `shmem_init`, NVSHMEM `nvshmem_init`; a World may be made, dropped and made again.
///
/// ```
/// use shmem_host::{Backend, World};
///
/// let world = World::builder().pes(4).backend(Backend::Sim).build()?;
/// assert_eq!((world.n(), world.backend_name()), (4, "sim"));
/// world.run(|pe| {
///     println!("PE {}/{}", pe.id(), pe.n());
///     Ok::<(), shmem_host::Error>(())
/// })?;
/// # Ok::<(), shmem_host::Error>(())
/// ```
#[must_use = "a World does nothing until it is run"]
pub struct World {
    shared: Arc<Shared>,
}

/// Settings of a [`World`], apart from the environment. Everything has a default.
///
/// ```
/// use shmem_host::{Backend, World};
/// use std::time::Duration;
///
/// let builder = World::builder()
///     .pes(2)
///     .backend(Backend::Sim)
///     .heap(64 << 20)
///     .time_limit(Some(Duration::from_secs(5)))
///     .seed(1);
/// builder.build()?.run(|pe| pe.barrier_all())?;
/// # Ok::<(), shmem_host::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    settings: Settings,
    processes: OfProcesses,
}

impl Builder {
    /// How many PEs. Default: as many as devices, on the simulator 4.
    pub fn pes(mut self, pes: u32) -> Self {
        self.settings.pes = Some(pes);
        self.settings.from.pes = Source::Builder;
        self
    }

    /// Where kernels run. Default: [`Backend::Auto`].
    pub fn backend(mut self, backend: Backend) -> Self {
        self.settings.backend = backend;
        self.settings.from.backend = Source::Builder;
        self
    }

    /// Address space of each PE's symmetric heap, in bytes. Memory is taken as it is needed. Default: the device's memory, on
    /// the simulator 1 GiB.
    pub fn heap(mut self, bytes: u64) -> Self {
        self.settings.heap = Some(bytes);
        self.settings.from.heap = Source::Builder;
        self
    }

    /// As what GPU memory travels between processes. Default: [`MemoryHandles::Descriptor`].
    pub fn handles(mut self, handles: MemoryHandles) -> Self {
        self.settings.handles = handles;
        self.settings.from.handles = Source::Builder;
        self
    }

    /// How long a wait may last, in a kernel or on the host; `None` is forever. Default: 30 s.
    pub fn time_limit(mut self, limit: Option<Duration>) -> Self {
        self.settings.time_limit = limit.filter(|limit| !limit.is_zero());
        self.settings.from.time_limit = Source::Builder;
        self
    }

    /// Whether the simulator checks the order of accesses, so that a missing fence fails. Without, it runs some 5 times as
    /// fast. Default: it does.
    pub fn check(mut self, check: bool) -> Self {
        self.settings.check = check;
        self.settings.from.check = Source::Builder;
        self
    }

    /// What carries operations between PEs on the simulator: over another path than load and store, each PE is a node of its
    /// own. Default: what `SHMEM_SIM_PATH` says, or load and store.
    ///
    /// ```
    /// use shmem_host::{Backend, SimPath, World};
    ///
    /// let world = World::builder().backend(Backend::Sim).pes(2).sim_path(SimPath::QueuePairs).build()?;
    /// world.run(|pe| {
    ///     assert_eq!(pe.node().n_pes(), 1);
    ///     pe.barrier_all()
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    pub fn sim_path(mut self, path: SimPath) -> Self {
        self.settings.sim_path = Some(path);
        self
    }

    /// What carries operations between PEs. Default: [`Path::Auto`]. On the simulator another one than that wins over
    /// [`sim_path`](Self::sim_path) and `SHMEM_SIM_PATH`.
    pub fn path(mut self, path: Path) -> Self {
        self.settings.path = path;
        self.settings.from.path = Source::Builder;
        self
    }

    /// PEs of a node of the simulator, where the path is [`Path::Mixed`]. Default: half of all PEs.
    ///
    /// ```
    /// use shmem_host::{Backend, Path, World};
    ///
    /// let world = World::builder().backend(Backend::Sim).pes(3).path(Path::Mixed).node_pes(1).build()?;
    /// world.run(|pe| {
    ///     assert_eq!(pe.node().n_pes(), 1);
    ///     pe.barrier_all()
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    pub fn node_pes(mut self, node_pes: u32) -> Self {
        self.settings.node_pes = Some(node_pes);
        self.settings.from.node_pes = Source::Builder;
        self
    }

    /// Blocks of 64 bytes of each send queue of network adapters: a power of two from 16 to 32768. Default: 256.
    ///
    /// ```
    /// use shmem_host::{Backend, ConfigError, Error, World};
    ///
    /// let built = World::builder().backend(Backend::Sim).queue_blocks(100).build();
    /// assert!(matches!(built, Err(Error::Config(ConfigError::Queues { blocks: 100, .. }))));
    /// ```
    pub fn queue_blocks(mut self, blocks: u32) -> Self {
        self.settings.queue_blocks = blocks;
        self.settings.from.queue_blocks = Source::Builder;
        self
    }

    /// Contexts that have send queues of their own, 1 to 64; the others share those of the default context. Default: 8.
    ///
    /// ```
    /// use shmem_host::{Backend, ConfigError, Error, World};
    ///
    /// let built = World::builder().backend(Backend::Sim).queue_contexts(100).build();
    /// assert!(matches!(built, Err(Error::Config(ConfigError::Queues { contexts: 100, .. }))));
    /// ```
    pub fn queue_contexts(mut self, contexts: u32) -> Self {
        self.settings.queue_contexts = contexts;
        self.settings.from.queue_contexts = Source::Builder;
        self
    }

    /// Which of the possible orders the simulator takes. Default: 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = seed;
        self.settings.from.seed = Source::Builder;
        self
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Makes the World: finds the devices, reserves the heaps.
    ///
    /// # Errors
    /// [`ConfigError`](crate::ConfigError) for the settings, [`CudaError`](crate::CudaError) for the devices.
    pub fn build(self) -> Result<World, Error> {
        let settings = self.settings;
        let devices = match settings.backend {
            Backend::Sim => None,
            Backend::Cuda => Some(cuda::Devices::find()?),
            Backend::Auto => match cuda::Devices::find() {
                Ok(devices) => Some(devices),
                Err(none) if none.means_no_device() => None,
                Err(error) => return Err(error.into()),
            },
        };
        settings.check_path()?;
        let world = Shared::next_world();
        let (platform, group): (Arc<dyn Platform>, _) = match (&self.processes.0, devices) {
            (None, None) => {
                let group = Group::alone(settings.pes_or(sim::PES)?, world);
                (sim::Sim::start(&settings, &group)?, group)
            }
            (None, Some(devices)) => {
                let group = Group::alone(settings.pes_or(devices.count())?, world);
                (cuda::Cuda::start(&settings, &devices, &group)?, group)
            }
            (Some(processes), devices) => join(processes, &settings, devices.as_ref(), world)?,
        };
        Ok(World {
            shared: Arc::new(Shared::new(platform, group, settings.time_limit)),
        })
    }

    /// What this process calls its machine.
    #[cfg(test)]
    pub(crate) fn host_id(mut self, name: Option<&str>) -> Self {
        self.settings.host_id = name.map(str::to_owned);
        self
    }

    /// With PEs in these processes, so many in this one as the settings say, or one.
    #[cfg(test)]
    pub(crate) fn processes(mut self, processes: Arc<dyn Processes>) -> Self {
        self.processes = OfProcesses(Some(processes));
        self
    }
}

/// None where the World is in this process alone.
#[derive(Clone, Default)]
struct OfProcesses(Option<Arc<dyn Processes>>);

impl fmt::Debug for OfProcesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => write!(f, "this one"),
            Some(all) => write!(f, "{} of {}", all.rank(), all.size()),
        }
    }
}

/// Makes this process's part of a World. The others learn of it where that fails.
fn join(
    processes: &Arc<dyn Processes>,
    settings: &Settings,
    devices: Option<&cuda::Devices>,
    world: u32,
) -> Result<(Arc<dyn Platform>, Group), Error> {
    let backend = if devices.is_some() { "cuda" } else { "sim" };
    let joined = Group::join(processes, backend, settings, world).and_then(|group| {
        let platform: Arc<dyn Platform> = match devices {
            None => sim::Sim::start(settings, &group)?,
            Some(devices) => cuda::Cuda::start(settings, devices, &group)?,
        };
        Ok((platform, group))
    });
    let is_echo = |error: &Error| {
        matches!(
            error,
            Error::Process(ProcessError::Lost { .. } | ProcessError::Share { .. })
        )
    };
    let failed = |error| match (error, processes.failure()) {
        (error, None) => {
            processes.fail(&format!("{error}"));
            error
        }
        // Which PE it would have had is not known yet where each process has several.
        (error, Some((pe, cause))) if is_echo(&error) => Error::PeerFailed { pe, cause },
        (error, Some(_)) => error,
    };
    // A connection breaks before the news say why.
    if joined.as_ref().is_err_and(is_echo) {
        let start = Instant::now();
        while processes.failure().is_none() && start.elapsed() < NEWS {
            thread::sleep(LOOK);
        }
    }
    joined.map_err(failed)
}

impl World {
    /// A World as the environment asks for it. Under a launcher (`shmem-run`, torchrun, `mpirun`, `srun`) each process holds
    /// one PE of the World, or `SHMEM_NPES` of them; without one, all PEs are threads of this process. On the simulator a seed
    /// replays a run within one process only.
    ///
    /// | variable | default | meaning |
    /// |---|---|---|
    /// | `SHMEM_BACKEND` | `auto` | `cuda`, `sim`, or `auto`: GPUs if there are any |
    /// | `SHMEM_NPES` | devices; simulator: 4; under a launcher: 1 | PEs of this process |
    /// | `SHMEM_HEAP` | the device's memory; simulator: 1G | address space per PE: `512M`, `4G` |
    /// | `SHMEM_HOST_ID` | | processes with the same text are on one machine, if the system says so too |
    /// | `SHMEM_HANDLES` | `fd` | as what GPU memory travels between processes: `fd` or `fabric` |
    /// | `SHMEM_TIMEOUT` | 30 | seconds that a wait may last; 0: no limit |
    /// | `SHMEM_SIM_SEED` | 0 | which of the possible orders the simulator takes |
    ///
    /// # Errors
    /// As [`Builder::build`].
    ///
    /// ```
    /// let world = shmem_host::World::from_env()?;
    /// println!("{} PEs on {}", world.n(), world.backend_name());
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    pub fn from_env() -> Result<Self, Error> {
        let mut settings = Settings::from_environment()?;
        let processes = match Job::from_env()? {
            None => None,
            Some(Job::Alone) => {
                settings.pes.get_or_insert(1);
                None
            }
            Some(Job::Joined(processes)) => Some(processes),
        };
        Builder {
            settings,
            processes: OfProcesses(processes),
        }
        .build()
    }

    /// A World with settings of the program's own. Reads nothing from the environment.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// How many PEs.
    pub fn n(&self) -> u32 {
        self.shared.pes()
    }

    /// `cuda` or `sim`.
    pub fn backend_name(&self) -> &'static str {
        self.shared.platform.name()
    }

    /// Runs `f` once for each PE of this process, each on a thread of its own, and waits for all of them and for all their kernels.
    ///
    /// # Errors
    /// The error of the PE that failed first; the others got [`Error::PeerFailed`] meanwhile, wherever they waited. A PE
    /// fails when its closure returns an error or panics ([`Error::PePanicked`]), or when one of its kernels meets one.
    pub fn run<E, F>(self, f: F) -> Result<(), E>
    where
        E: From<Error> + Display + Send,
        F: Fn(Pe) -> Result<(), E> + Sync,
    {
        let (shared, f) = (&self.shared, &f);
        let local = shared.group.layout.local();
        let mut results: Vec<Result<(), E>> = thread::scope(|scope| {
            let start = |pe| {
                let thread = thread::Builder::new().name(format!("PE {pe}"));
                thread
                    .spawn_scoped(scope, move || run_pe(shared, pe, f))
                    .map_err(|cause| {
                        let error = Error::Thread {
                            pe,
                            cause: cause.to_string(),
                        };
                        shared.fail(pe, error.to_string());
                        shared.end(pe);
                        error
                    })
            };
            let watched = Watched(shared.group.processes().map(|_| {
                let stop = Arc::<AtomicBool>::default();
                let watch = (stop.clone(), shared.clone());
                (stop, scope.spawn(move || watch_processes(&watch.1, &watch.0)))
            }));
            if shared.group.processes().is_some() {
                scope.spawn(|| exchange_turns(shared));
            }
            let received = shared.group.post().map(|post| {
                scope.spawn(|| shared.meetings.receive(post, shared));
                if post.has_far() {
                    scope.spawn(|| shared.meetings.receive_far(post, shared));
                }
                Received(post, shared.group.layout.rank())
            });
            let threads: Vec<_> = local.clone().map(start).collect();
            let finish = |(pe, thread): (u32, Result<thread::ScopedJoinHandle<'_, _>, Error>)| {
                // What panics outside the closure is the user's too: `E::from`, or something dropped.
                thread?.join().unwrap_or_else(|payload| {
                    let message = text(&*payload);
                    std::mem::forget(payload);
                    Err(Error::PePanicked { pe, message }.into())
                })
            };
            let results = local.clone().zip(threads).map(finish).collect();
            drop((watched, received));
            results
        });
        if let Some(processes) = shared.group.processes()
            && !shared.failed()
            && let Err(cause) = processes.finish(shared.time_limit)
        {
            shared.fail(local.start, cause);
        }
        // Errors of other PEs are echoes of the first one's.
        let first = shared
            .failure()
            .and_then(|failure| failure.pe.checked_sub(local.start))
            .map(|index| index as usize)
            .filter(|index| results.get(*index).is_some_and(Result::is_err));
        match first.or_else(|| results.iter().position(Result::is_err)) {
            Some(index) => results.swap_remove(index),
            // What failed after this process's PEs had ended.
            None => shared.peer_failed().map_or(Ok(()), |error| Err(error.into())),
        }
    }
}

fn run_pe<E, F>(shared: &Arc<Shared>, pe: u32, f: &F) -> Result<(), E>
where
    E: From<Error> + Display,
    F: Fn(Pe) -> Result<(), E>,
{
    let end = End { shared, pe };
    let session = match Session::open(shared.clone(), pe) {
        Ok(session) => session,
        Err(error) => {
            shared.fail(pe, error.to_string());
            drop(end);
            return Err(error.into());
        }
    };
    let result = caught(|| f(Pe::new(session.clone()))).map_err(|message| Error::PePanicked { pe, message });
    match &result {
        Ok(Ok(())) => {}
        // The alternate form, which shows an anyhow error's whole chain.
        Ok(Err(error)) => shared.fail(
            pe,
            caught(|| format!("{error:#}")).unwrap_or_else(|panic| format!("its error can't be shown: {panic}")),
        ),
        Err(panicked) => shared.fail(pe, panicked.to_string()),
    }
    let finished = session.finish();
    drop(end);
    // A device is closed once no kernel of any PE can reach it.
    shared.rendezvous.wait_for_end(&**shared);
    result?.and(finished.map_err(E::from))
}

/// Brings failures of other processes here, and those of this process's kernels to others, while `run` lasts.
fn watch_processes(shared: &Shared, stop: &AtomicBool) {
    let mut seen = false;
    while !stop.load(Ordering::Acquire) && !shared.learn_failure() {
        // The PE's own thread knows more of a kernel's failure, if it looks.
        if let Some((pe, cause)) = shared.platform.failure()
            && std::mem::replace(&mut seen, true)
        {
            shared.fail(pe.unwrap_or(shared.group.layout.local().start), cause);
        }
        thread::park_timeout(LOOK);
    }
}

/// Ends the thread that watches the other processes.
struct Watched<'scope>(Option<(Arc<AtomicBool>, thread::ScopedJoinHandle<'scope, ()>)>);

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if let Some((stop, thread)) = &self.0 {
            stop.store(true, Ordering::Release);
            thread.thread().unpark();
        }
    }
}

/// Ends the threads that receive letters.
struct Received<'a>(&'a Post, u32);

impl Drop for Received<'_> {
    fn drop(&mut self) {
        self.0.stop(self.1);
    }
}

/// Carries what PEs bring to a rendezvous between this process and the others.
fn exchange_turns(shared: &Shared) {
    let Some(processes) = shared.group.processes() else {
        return;
    };
    let served = shared.rendezvous.serve(shared, |mine: Round<Turn>| {
        let all = processes.allgather(wire::encode(&mine), None)?;
        let read = |bytes: &Vec<u8>| wire::decode(bytes).ok_or_else(|| "a process sent what is no call".to_owned());
        all.iter().map(read).collect()
    });
    // The PEs may all have ended well before the news come, and with them the thread that watches.
    if !served {
        shared.await_failure();
    }
}

/// Tells the others that this PE comes no more, however its thread ends: they would wait for it for ever.
struct End<'a> {
    shared: &'a Shared,
    pe: u32,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.shared.fail(self.pe, "its thread panicked".to_owned());
        }
        self.shared.end(self.pe);
    }
}

/// Runs what is the user's. An error is a panic's text; its payload, the user's as well, may panic once more when dropped.
fn caught<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| {
        let message = text(&*payload);
        if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(another);
        }
        message
    })
}

fn text(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or(payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("(a value that is no text)").to_owned()
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a World of {} PEs on {}", self.n(), self.backend_name())
    }
}
