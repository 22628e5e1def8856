//! From a launch macro to the device: the kernels that are ready, the arguments, the enqueueing.

mod check;
mod error;
mod shape;

pub use error::{LaunchError, Stale};
pub use shape::{Dim3, LaunchConfig};

use crate::backend::{KernelInfo, Lane, Launch, Loaded, Place, Shape, StreamId};
use crate::session::Session;
use crate::{Error, Stream};
use check::{check_bounds, check_kernel};
use rustc_hash::FxHashMap;
use shmem::{Call, Kernel};
use std::any::TypeId;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::rc::Rc;
use std::sync::Arc;

/// The kernels that are ready on a PE, so that a launch only looks them up.
#[derive(Default)]
pub(crate) struct Kernels {
    ready: RefCell<FxHashMap<TypeId, Rc<Ready>>>,
    /// Where the arguments of the launch lie that is under way.
    params: RefCell<Vec<*mut c_void>>,
}

pub(crate) struct Ready {
    loaded: Loaded,
    /// Resident blocks by shape.
    resident: RefCell<Vec<(Shape, u32)>>,
    /// The last launch that passed its checks: most are like the one before.
    passed: Cell<Option<Passed>>,
    /// That launch's blocks may be placed before the kernel ahead has ended.
    programmatic: Cell<bool>,
}

/// What the checks of a launch depend on, beside the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Passed {
    grid: Dim3,
    block: Dim3,
    shared_bytes: u32,
    cluster: u32,
    collective: bool,
    resident: bool,
    stream: StreamId,
}

impl Ready {
    pub(crate) const fn new(loaded: Loaded) -> Self {
        Self {
            loaded,
            resident: RefCell::new(vec![]),
            passed: Cell::new(None),
            programmatic: Cell::new(false),
        }
    }
}

impl Session {
    fn ready<K: Kernel>(&self) -> Result<Rc<Ready>, Error> {
        if let Some(ready) = self.kernels.ready.borrow().get(&TypeId::of::<K>()) {
            return Ok(ready.clone());
        }
        let ready = Rc::new(Ready::new(self.device.load(const { &KernelInfo::of::<K>() })?));
        self.kernels.ready.borrow_mut().insert(TypeId::of::<K>(), ready.clone());
        Ok(ready)
    }

    /// Loads this library's own kernels. Where that fails, the call that needs one says why.
    pub(crate) fn load_library(&self) {
        let _ = self.ready::<shmem_device::barrier_all>();
        let _ = self.ready::<shmem_device::team_barrier>();
        let _ = self.ready::<shmem_device::team_sync>();
        self.load_stream_kernels();
    }

    /// Loads a kernel ahead of its first launch. Where that fails, the launch says why.
    pub(crate) fn load_ahead<K: Kernel>(&self) {
        let _ = self.ready::<K>();
    }

    pub(crate) fn launch<K: Kernel>(&self, config: &LaunchConfig<'_>, call: &Call<K>) -> Result<(), Error> {
        self.check()?;
        let info = const { &KernelInfo::of::<K>() };
        let args = K::copied(call.args());
        let ready = self.check_launch::<K>(info, config)?;
        self.check_handles(info.name, |visit| K::regions(&args, visit))?;
        self.check_reach(info.name, config.collective, |visit| K::regions(&args, visit))?;
        self.record_regions(config.stream_id(), info.name, |visit| K::regions(&args, visit));
        let mut slot = self.target(config.stream_id()).slot();
        let mut params = self.kernels.params.borrow_mut();
        params.clear();
        K::addresses(&args, &mut |argument| params.push(argument.cast_mut().cast()));
        if info.collective {
            params.push((&raw mut slot).cast());
        }
        let lane = || -> Lane {
            let arguments = Arguments::<K>(K::copied(&args));
            Arc::new(move || K::run(arguments.copied(), slot))
        };
        self.enqueue(
            Cow::Borrowed(info.name),
            &ready,
            config,
            &mut params,
            Some((info, &lane)),
        )
    }

    /// Checks all but the arguments.
    fn check_launch<K: Kernel>(&self, info: &KernelInfo, config: &LaunchConfig<'_>) -> Result<Rc<Ready>, Error> {
        let this = Passed {
            grid: config.grid,
            block: config.block,
            shared_bytes: config.shared_bytes,
            cluster: config.cluster,
            collective: config.collective,
            resident: config.resident,
            stream: self.target(config.stream_id()),
        };
        if let Some(ready) = self.kernels.ready.borrow().get(&TypeId::of::<K>())
            && ready.passed.get() == Some(this)
        {
            return Ok(ready.clone());
        }
        let threads = self.check_shape(info.name, config)?;
        check_kernel(info, config)?;
        let ready = self.ready::<K>()?;
        self.check_resources(info.name, &ready, threads, config)?;
        ready
            .programmatic
            .set(info.programmatic && config.grid.count() <= ready.loaded.places);
        ready.passed.set(Some(this));
        Ok(ready)
    }

    /// Launches as often with the device's own call alone, after the checks of one launch: what a launch is measured against.
    pub(crate) fn launch_bare<K: Kernel>(
        &self,
        config: &LaunchConfig<'_>,
        call: &Call<K>,
        times: u32,
    ) -> Result<(), Error> {
        self.check()?;
        self.refuse_in_capture("a bare launch")?;
        let info = const { &KernelInfo::of::<K>() };
        let (threads, args) = (self.check_shape(info.name, config)?, K::copied(call.args()));
        let ready = self.ready::<K>()?;
        self.check_resources(info.name, &ready, threads, config)?;
        let stream = config.stream_id();
        let mut slot = stream.slot();
        let mut params = vec![];
        K::addresses(&args, &mut |argument| params.push(argument.cast_mut().cast()));
        params.push((&raw mut slot).cast());
        let lane = || -> Lane {
            let arguments = Arguments::<K>(K::copied(&args));
            Arc::new(move || K::run(arguments.copied(), slot))
        };
        let launch = Launch {
            function: ready.loaded.function,
            stream,
            grid: config.grid.axes(),
            block: config.block.axes(),
            shared_bytes: config.shared_bytes,
            cluster: config.cluster,
            collective: config.collective,
            cooperative: config.cooperative(),
            programmatic: false,
            params: &mut params,
            hosted: Some((info, &lane)),
        };
        self.device.launch_often(launch, times)?;
        self.launched(stream, Cow::Borrowed(info.name));
        self.launched_more(stream, times.saturating_sub(1));
        Ok(())
    }

    /// Enqueues a launch that has been checked.
    pub(crate) fn enqueue(
        &self,
        name: Cow<'static, str>,
        ready: &Ready,
        config: &LaunchConfig<'_>,
        params: &mut [*mut c_void],
        hosted: Option<(&KernelInfo, &dyn Fn() -> Lane)>,
    ) -> Result<(), Error> {
        let (stream, programmatic) = (self.target(config.stream_id()), ready.programmatic.get());
        let launch = Launch {
            function: ready.loaded.function,
            stream,
            grid: config.grid.axes(),
            block: config.block.axes(),
            shared_bytes: config.shared_bytes,
            cluster: config.cluster,
            collective: config.collective,
            // A cooperative one would not be placed ahead on a stream.
            cooperative: config.cooperative() && !programmatic,
            programmatic,
            params,
            hosted,
        };
        tracing::debug!(pe = self.pe, kernel = %name, stream = stream.0, grid = %config.grid, block = %config.block, "launch");
        self.device
            .launch(launch)
            .map_err(|e| if e.is_fatal() { self.fatal(e) } else { e })?;
        self.count(config.stream_id(), name);
        Ok(())
    }

    /// Counts what was enqueued: as work of the stream, or of the graph that is recorded there.
    fn count(&self, stream: StreamId, name: Cow<'static, str>) {
        if self.target(stream) == stream {
            self.launched(stream, name);
        } else {
            self.recorded(name);
        }
    }

    /// Has the copy engine do what a launch of this kernel would, after the same checks and under its name. False where the
    /// kernel has to.
    pub(crate) fn copy_engine<K: Kernel>(
        &self,
        stream: &Stream,
        (dst, src): (Place, Place),
        bytes: u64,
        call: &Call<K>,
    ) -> Result<bool, Error> {
        self.check()?;
        let args = call.args();
        self.check_handles(K::NAME, |visit| K::regions(args, visit))?;
        self.check_reach(K::NAME, false, |visit| K::regions(args, visit))?;
        let target = self.target(stream.id());
        let enqueued = self
            .device
            .copy_engine(target, dst, src, bytes)
            .map_err(|e| if e.is_fatal() { self.fatal(e) } else { e })?;
        if enqueued {
            tracing::debug!(pe = self.pe, kernel = K::NAME, stream = target.0, bytes, "copy engine");
            self.record_regions(stream.id(), K::NAME, |visit| K::regions(args, visit));
            self.count(stream.id(), Cow::Borrowed(K::NAME));
        }
        Ok(enqueued)
    }

    fn resident(&self, ready: &Ready, shape: Shape) -> Result<u32, Error> {
        let mut known = ready.resident.borrow_mut();
        if let Some((_, blocks)) = known.iter().find(|(s, _)| *s == shape) {
            return Ok(*blocks);
        }
        let blocks = self.device.resident(ready.loaded.function, shape)?;
        known.push((shape, blocks));
        Ok(blocks)
    }

    pub(crate) fn max_collective_grid<K: Kernel>(&self, block: Dim3, shared_bytes: u32) -> Result<u32, Error> {
        self.check()?;
        let info = const { &KernelInfo::of::<K>() };
        let config = LaunchConfig::new(1, block).shared_bytes(shared_bytes);
        let threads = self.check_shape(info.name, &config)?;
        check_bounds(info, block)?;
        let ready = self.ready::<K>()?;
        self.check_resources(info.name, &ready, threads, &config)?;
        self.resident(&ready, config.resources(threads))
    }
}

/// A kernel's arguments, for lanes.
struct Arguments<K: Kernel>(K::Args);

// SAFETY: arguments are plain bits (KernelArg): what a pointer among them means is the kernel's affair.
unsafe impl<K: Kernel> Send for Arguments<K> {}
// SAFETY: as above; lanes copy them and never write them.
unsafe impl<K: Kernel> Sync for Arguments<K> {}

impl<K: Kernel> Arguments<K> {
    fn copied(&self) -> K::Args {
        K::copied(&self.0)
    }
}
