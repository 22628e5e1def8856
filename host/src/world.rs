//! All PEs together: made from settings, run once.

use crate::backend::{Platform, cuda, sim};
use crate::config::{Backend, Settings};
use crate::info::Source;
use crate::session::Session;
use crate::shared::Shared;
use crate::{Error, Pe};
use std::any::Any;
use std::fmt::{self, Display};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// A number of PEs, numbered from 0, that share a symmetric heap.
///
/// PEs are threads of this process. Where there are fewer devices than PEs, PEs share devices, and a collective launch gets
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

    /// How long a wait may last, in a kernel or on the host; `None` is forever. Default: 30 s.
    pub fn time_limit(mut self, limit: Option<Duration>) -> Self {
        self.settings.time_limit = limit.filter(|limit| !limit.is_zero());
        self.settings.from.time_limit = Source::Builder;
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
        let platform: Arc<dyn Platform> = match settings.backend {
            Backend::Sim => sim::Sim::start(&settings)?,
            Backend::Cuda => cuda::Cuda::start(&settings, &cuda::Devices::find()?)?,
            Backend::Auto => match cuda::Devices::find() {
                Ok(devices) => cuda::Cuda::start(&settings, &devices)?,
                Err(none) if none.means_no_device() => sim::Sim::start(&settings)?,
                Err(error) => return Err(error.into()),
            },
        };
        Ok(World {
            shared: Arc::new(Shared::new(platform, settings.time_limit)),
        })
    }
}

impl World {
    /// A World as the environment asks for it:
    ///
    /// | variable | default | meaning |
    /// |---|---|---|
    /// | `SHMEM_BACKEND` | `auto` | `cuda`, `sim`, or `auto`: GPUs if there are any |
    /// | `SHMEM_NPES` | devices; simulator: 4 | PEs |
    /// | `SHMEM_HEAP` | the device's memory; simulator: 1G | address space per PE: `512M`, `4G` |
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
        Builder {
            settings: Settings::from_environment()?,
        }
        .build()
    }

    /// A World with settings of the program's own. Reads nothing from the environment.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// How many PEs.
    pub fn n(&self) -> u32 {
        self.shared.platform.pes()
    }

    /// `cuda` or `sim`.
    pub fn backend_name(&self) -> &'static str {
        self.shared.platform.name()
    }

    /// Runs `f` once for each PE, each on a thread of its own, and waits for all of them and for all their kernels.
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
                        shared.rendezvous.end(pe);
                        error
                    })
            };
            let threads: Vec<_> = (0..self.n()).map(start).collect();
            let finish = |(pe, thread): (u32, Result<thread::ScopedJoinHandle<'_, _>, Error>)| {
                // What panics outside the closure is the user's too: `E::from`, or something dropped.
                thread?.join().unwrap_or_else(|payload| {
                    let message = text(&*payload);
                    std::mem::forget(payload);
                    Err(Error::PePanicked { pe, message }.into())
                })
            };
            (0..).zip(threads).map(finish).collect()
        });
        // Errors of other PEs are echoes of the first one's.
        let first = shared
            .failure()
            .map(|failure| failure.pe as usize)
            .filter(|pe| results[*pe].is_err());
        match first.or_else(|| results.iter().position(Result::is_err)) {
            Some(pe) => results.swap_remove(pe),
            None => Ok(()),
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
    shared.rendezvous.wait_for_end();
    result?.and(finished.map_err(E::from))
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
        self.shared.rendezvous.end(self.pe);
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
