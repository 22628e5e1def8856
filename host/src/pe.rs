//! A PE, as its closure gets it.

use crate::collective::Call as CollectiveCall;
use crate::heap::AllocRequest;
use crate::session::Session;
use crate::{Buf, Dim3, Error, LaunchConfig, Module, NetworkCounters, Stream, SymBuf};
use shmem::{Call, CounterWord, Kernel, Pod, SignalWord};
use std::fmt;
use std::panic::Location;
use std::rc::Rc;

/// One processing element: a device, or a share of one, with its part of the symmetric heap. Stays on its thread.
///
/// ```
/// use shmem_host::{Backend, World};
///
/// World::builder().pes(4).backend(Backend::Sim).build()?.run(|pe| {
///     println!("PE {}/{} on {}", pe.id(), pe.n(), pe.device_name());
///     Ok::<(), shmem_host::Error>(())
/// })?;
/// # Ok::<(), shmem_host::Error>(())
/// ```
pub struct Pe {
    session: Rc<Session>,
    stream: Stream,
}

impl Pe {
    pub(crate) fn new(session: Rc<Session>) -> Self {
        Self {
            stream: Stream::default_of(session.clone()),
            session,
        }
    }

    pub(crate) fn session_rc(&self) -> &Rc<Session> {
        &self.session
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// This PE's number, 0 to `n() - 1`. NVSHMEM `nvshmem_my_pe`.
    pub fn id(&self) -> u32 {
        self.session.pe
    }

    /// What the emulated network adapters have done since the World began, for all PEs together. None where load and store
    /// carries every call, and on the simulator.
    ///
    /// ```
    /// use shmem_host::{Backend, World};
    ///
    /// World::builder().pes(2).backend(Backend::Sim).build()?.run(|pe| {
    ///     assert!(pe.network_counters().is_none());
    ///     Ok::<(), shmem_host::Error>(())
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    pub fn network_counters(&self) -> Option<NetworkCounters> {
        self.session.shared.platform.network_counters()
    }

    /// How many PEs the World has. NVSHMEM `nvshmem_n_pes`.
    pub fn n(&self) -> u32 {
        self.session.shared.pes()
    }

    /// The device in words, as in `NVIDIA H200 (device 0)`.
    pub fn device_name(&self) -> String {
        self.session.device.name()
    }

    /// `len` elements in the symmetric heap, on every PE, zero. Collective: every PE makes the same call, and returns when
    /// all have it.
    ///
    /// Others: [`alloc_aligned`](Self::alloc_aligned), [`alloc_uninit`](Self::alloc_uninit), [`signals`](Self::signals),
    /// [`counters`](Self::counters).
    ///
    /// OpenSHMEM 1.5 `shmem_calloc`; NVSHMEM `nvshmem_calloc`.
    ///
    /// # Errors
    /// [`HeapError`](crate::HeapError) on every PE alike: PEs that ask for different lengths, types or from different
    /// source lines; a heap or a device that is full. The World stays usable.
    ///
    /// ```
    /// # use shmem_host::{Backend, World};
    /// World::builder().pes(2).backend(Backend::Sim).build()?.run(|pe| {
    ///     let matrix = pe.alloc::<f32>(64 * 64)?;
    ///     assert_eq!(matrix.len(), 4096);
    ///     Ok::<(), shmem_host::Error>(())
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    #[doc(alias("calloc", "shmem_calloc", "nvshmem_calloc"))]
    #[track_caller]
    pub fn alloc<T: Pod>(&self, len: usize) -> Result<SymBuf<T>, Error> {
        SymBuf::new(&self.session, &AllocRequest::of::<T>(len, Location::caller()))
    }

    /// `len` signals, all 0: words that a peer sets and this PE waits on. Collective, as [`alloc`](Self::alloc).
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    ///
    /// ```
    /// use shmem::prelude::*;
    /// use shmem_host::{Backend, World, collective_launch};
    ///
    /// #[kernel]
    /// pub fn greet(ready: SymSlice<SignalWord>) {
    ///     shmem::signal_op(ready.at(0).set(9), (shmem::my_pe() + 1) % shmem::n_pes());
    ///     shmem::wait_until(Thread, ready.at(0), eq(9));
    /// }
    ///
    /// World::builder().pes(2).backend(Backend::Sim).build()?.run(|pe| {
    ///     let ready = pe.signals(1)?;
    ///     collective_launch!(pe, greet<<<1, 1>>>(&ready))?;
    ///     assert_eq!(ready.read(0)?.value(), 9);
    ///     Ok::<(), shmem_host::Error>(())
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    #[doc(alias("alloc_signals"))]
    #[track_caller]
    pub fn signals(&self, len: usize) -> Result<SymBuf<SignalWord>, Error> {
        SymBuf::new(&self.session, &AllocRequest::of::<SignalWord>(len, Location::caller()))
    }

    /// `len` counters, all 0: words that many PEs add to. Collective, as [`alloc`](Self::alloc).
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    ///
    /// ```
    /// # use shmem_host::{Backend, World};
    /// World::builder().pes(2).backend(Backend::Sim).build()?.run(|pe| {
    ///     assert_eq!(pe.counters(8)?.read(7)?.value(), 0);
    ///     Ok::<(), shmem_host::Error>(())
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    #[track_caller]
    pub fn counters(&self, len: usize) -> Result<SymBuf<CounterWord>, Error> {
        SymBuf::new(&self.session, &AllocRequest::of::<CounterWord>(len, Location::caller()))
    }

    /// `len` elements in this PE's device memory, zero. Not collective. Example at [`Buf`].
    ///
    /// # Errors
    /// [`HeapError::OutOfMemory`](crate::HeapError::OutOfMemory), [`HeapError::TooLarge`](crate::HeapError::TooLarge).
    pub fn buffer<T: Pod>(&self, len: usize) -> Result<Buf<T>, Error> {
        Buf::new(&self.session, len)
    }

    /// The default stream: where launches go that name none, and what host reads and writes wait for.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Another stream. Work on it is unordered against other streams. Example at [`launch!`](crate::launch).
    ///
    /// # Errors
    /// [`CudaError`](crate::CudaError) from the driver.
    pub fn new_stream(&self) -> Result<Stream, Error> {
        Ok(Stream::new(self.session.clone(), self.session.new_stream()?))
    }

    /// Launches a kernel. What [`collective_launch!`](crate::collective_launch) and [`launch!`](crate::launch) expand to;
    /// example at [`LaunchConfig`].
    ///
    /// # Errors
    /// [`LaunchError`](crate::LaunchError), [`ImageError`](crate::ImageError).
    #[expect(clippy::needless_pass_by_value, reason = "a call is launched once")]
    pub fn launch<K: Kernel>(&self, config: LaunchConfig<'_>, call: Call<K>) -> Result<(), Error> {
        self.session.launch(&config, &call)
    }

    /// For shmem-perf: the driver's launches alone, after the checks of one.
    #[doc(hidden)]
    #[expect(clippy::needless_pass_by_value, reason = "as in `launch`")]
    pub fn __launch_bare<K: Kernel>(&self, config: LaunchConfig<'_>, call: Call<K>, times: u32) -> Result<(), Error> {
        self.session.launch_bare(&config, &call, times)
    }

    /// The most blocks of this shape that a collective launch may have on this PE: those that are resident at once, divided
    /// by the PEs that share the device. `shared_bytes` is dynamic shared memory per block. Loads the kernel's package, so a
    /// program that uses kernels of several packages does well to ask before its first launch: loading beside a kernel that
    /// waits for another PE of the same device can block until that wait times out.
    ///
    /// NVSHMEM `nvshmemx_collective_launch_query_gridsize`; CUDA `cuOccupancyMaxActiveBlocksPerMultiprocessor`.
    ///
    /// # Errors
    /// [`LaunchError`](crate::LaunchError) where no such block can be launched at all.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// use shmem_host::{Backend, World, collective_launch};
    ///
    /// #[kernel]
    /// pub fn count(blocks: SymSlice<u32>) {
    ///     blocks.store(thread::block_index(), 1);
    /// }
    ///
    /// World::builder().pes(2).backend(Backend::Sim).build()?.run(|pe| {
    ///     let grid = pe.max_collective_grid::<count>(1, 0)?.min(64);
    ///     let blocks = pe.alloc::<u32>(64)?;
    ///     collective_launch!(pe, count<<<grid, 1>>>(&blocks))?;
    ///     assert_eq!(blocks.to_vec()?.iter().sum::<u32>(), grid);
    ///     Ok::<(), shmem_host::Error>(())
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    pub fn max_collective_grid<K: Kernel>(&self, block: impl Into<Dim3>, shared_bytes: u32) -> Result<u32, Error> {
        self.session.max_collective_grid::<K>(block.into(), shared_bytes)
    }

    /// Waits until all streams of this PE have drained, then until all PEs have come here. Collective. Puts that their
    /// kernels made are visible to every PE afterwards, and memory that all have dropped is free again.
    ///
    /// NVSHMEM `nvshmem_barrier_all`. For a barrier between kernels on a stream, without the host: [`Stream::barrier_all`].
    ///
    /// # Errors
    /// Any error of a kernel on the streams; [`CollectiveError`](crate::CollectiveError) where PEs don't come.
    ///
    /// ```
    /// # use shmem_host::{Backend, World};
    /// World::builder().pes(3).backend(Backend::Sim).build()?.run(|pe| pe.barrier_all())?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    #[track_caller]
    pub fn barrier_all(&self) -> Result<(), Error> {
        let site = Location::caller().into();
        self.session.refuse_in_capture("Pe::barrier_all")?;
        self.session.wait_all()?;
        self.session.meet(CollectiveCall::Barrier, &site).map(drop)
    }

    /// Loads PTX that `shmem_build::CudaBuilder` wrote to a file, for untyped launches. It stays loaded while the World
    /// lives. Kernels of a package that this program depends on need none of this: launch them by name.
    ///
    /// # Errors
    /// [`ImageError`](crate::ImageError): text that is damaged, stale or for a newer GPU; the simulator runs no PTX.
    ///
    /// ```
    /// # use shmem_host::{Backend, Error, ImageError, World};
    /// World::builder().pes(1).backend(Backend::Sim).build()?.run(|pe| {
    ///     let refused = pe.load_ptx(".version 7.8");
    ///     assert!(matches!(refused, Err(Error::Image(ImageError::NotOnThisBackend { .. }))));
    ///     Ok::<(), Error>(())
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    pub fn load_ptx(&self, ptx: &str) -> Result<Module, Error> {
        Module::load(self.session.clone(), ptx)
    }
}

impl fmt::Debug for Pe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PE {}/{} on {}", self.id(), self.n(), self.device_name())
    }
}
