//! Work of one PE, in order.

use crate::backend::StreamId;
use crate::session::Session;
use crate::{Error, LaunchConfig};
use shmem::IntoArg;
use std::ffi::c_void;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

/// A queue of kernels that run one after the other. Dropping it waits for nothing: what is on it still runs.
///
/// ```
/// use shmem_host::{Backend, World};
///
/// World::builder().pes(2).backend(Backend::Sim).build()?.run(|pe| {
///     pe.stream().barrier_all()?; // enqueued, not waited for
///     pe.stream().synchronize()
/// })?;
/// # Ok::<(), shmem_host::Error>(())
/// ```
pub struct Stream {
    session: Rc<Session>,
    id: StreamId,
}

impl Stream {
    pub(crate) fn default_of(session: Rc<Session>) -> Self {
        Self {
            session,
            id: StreamId(0),
        }
    }

    pub(crate) fn new(session: Rc<Session>, id: StreamId) -> Self {
        Self { session, id }
    }

    pub(crate) fn id(&self) -> StreamId {
        self.id
    }

    /// The stream as the CUDA driver knows it, a `CUstream`, to enqueue other work on; null on the simulator. What is enqueued
    /// so is ordered with the rest, but keeps no memory that is dropped.
    ///
    /// ```
    /// # use shmem_host::{Backend, World};
    /// World::builder().pes(1).backend(Backend::Sim).build()?.run(|pe| {
    ///     assert!(pe.stream().as_raw().is_null());
    ///     Ok::<(), shmem_host::Error>(())
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    pub fn as_raw(&self) -> *mut c_void {
        self.session.device.raw_stream(self.id)
    }

    pub(crate) fn session(&self) -> &Rc<Session> {
        &self.session
    }

    /// Enqueues a barrier over all PEs: what follows on this stream, on any PE, comes after everything that is on the PEs'
    /// streams before their barriers, and sees its puts. Collective; returns at once. One such barrier may be under way at a
    /// time: call it on one stream per PE.
    ///
    /// NVSHMEM `nvshmemx_barrier_all_on_stream`.
    ///
    /// # Errors
    /// [`LaunchError`](crate::LaunchError), [`ImageError`](crate::ImageError) where the library's kernel can't be launched.
    pub fn barrier_all(&self) -> Result<(), Error> {
        let config = LaunchConfig::new(1, 32).stream(self).collective();
        self.session.launch(&config, &shmem_device::barrier_all())
    }

    /// Enqueues a barrier over a team's PEs, as [`barrier_all`](Self::barrier_all) does over all. Its members call it, the
    /// others don't. It uses the slot of the team, which is 0 for a `&Team`, and otherwise that of `team.handle().slot(k)`: one per slot
    /// may be under way at a time, also in kernels.
    ///
    /// NVSHMEM `nvshmemx_barrier_on_stream`.
    ///
    /// # Errors
    /// As [`barrier_all`](Self::barrier_all).
    ///
    /// ```
    /// # use shmem_host::{Backend, World};
    /// World::builder().pes(4).backend(Backend::Sim).build()?.run(|pe| {
    ///     let (row, column) = pe.world().split_2d(2)?;
    ///     pe.stream().barrier(&row)?; // enqueued, not waited for
    ///     pe.stream().barrier(&column)?;
    ///     pe.stream().synchronize()
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    pub fn barrier(&self, team: impl IntoArg<shmem::Team>) -> Result<(), Error> {
        let config = LaunchConfig::new(1, 32).stream(self);
        self.session.launch(&config, &shmem_device::team_barrier(team))
    }

    /// Enqueues a sync of a team's PEs: nobody's stream goes on before all have come to it. What kernels before it put is not
    /// its business, though over load and store it is there when they end. Otherwise as [`barrier`](Self::barrier).
    ///
    /// NVSHMEM `nvshmemx_team_sync_on_stream`.
    ///
    /// # Errors
    /// As [`barrier_all`](Self::barrier_all).
    ///
    /// ```
    /// # use shmem_host::{Backend, World};
    /// World::builder().pes(2).backend(Backend::Sim).build()?.run(|pe| {
    ///     pe.stream().sync(&pe.world())?;
    ///     pe.stream().synchronize()
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    pub fn sync(&self, team: impl IntoArg<shmem::Team>) -> Result<(), Error> {
        let config = LaunchConfig::new(1, 32).stream(self);
        self.session.launch(&config, &shmem_device::team_sync(team))
    }

    /// Waits until everything on the stream has run.
    ///
    /// A wait lasts as long as the World's time limit at most, once for each kernel on the stream. NVSHMEM
    /// `nvshmemx_quiet_on_stream` and `cudaStreamSynchronize` together: kernels' puts over load and store are done when they
    /// end.
    ///
    /// # Errors
    /// [`Error::Device`] where a kernel of this PE met an error, [`Error::PeerFailed`] where another PE failed,
    /// [`Error::TimeLimit`], [`Error::Deadlock`].
    pub fn synchronize(&self) -> Result<(), Error> {
        self.session.wait(self.id)
    }
}

impl Stream {
    /// The time that this stream takes for what `work` enqueues on it, and waits for it. On the simulator it says nothing
    /// about GPUs.
    ///
    /// `cudaEventElapsedTime` between two events around the work.
    ///
    /// ```
    /// use shmem_host::{Backend, Error, World};
    ///
    /// World::builder().pes(2).backend(Backend::Sim).build()?.run(|pe| {
    ///     let took = pe.stream().timed(|| pe.stream().barrier_all())?;
    ///     println!("{took:?}");
    ///     Ok::<(), Error>(())
    /// })?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of `work` and of [`synchronize`](Self::synchronize).
    pub fn timed<E: From<Error>>(&self, work: impl FnOnce() -> Result<(), E>) -> Result<Duration, E> {
        let mut watch = self.session.stopwatch(self.id)?;
        work()?;
        watch.stop()?;
        self.synchronize()?;
        Ok(watch.elapsed()?)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.id != StreamId(0) {
            self.session.drop_stream(self.id);
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {} of PE {}", self.id.0, self.session.pe)
    }
}
