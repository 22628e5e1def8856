//! One PE on a GPU: its streams, its buffers, its functions. Its thread has the device's context current.

use super::driver::{Address, Driver, input, out};
use super::error::CudaError;
use super::graph::Graphs;
use super::poll::{poll, settle};
use super::{Cuda, Gpu, Module, attributes, module};
use crate::backend::{Device, FunctionId, GraphId, Halt, KernelInfo, Launch, Limits, Loaded, Marker, ModuleId};
use crate::backend::{Place, Shape, Stopwatch, StreamId, Watch};
use crate::fault::DeviceFault;
use crate::heap_stats::Backed;
use crate::images::{Header, ImageError};
use crate::{Error, StreamError};
use cudarc::driver::sys::{CUevent, CUevent_flags, CUfunction, CUfunction_attribute, CUmemAllocationHandleType};
use cudarc::driver::sys::{CUmemAllocationType, CUmemLocation, CUmemLocationType, CUmemPool_attribute};
use cudarc::driver::sys::{CUmemPoolProps, CUmemoryPool, CUstream};
use shmem::fault::FaultKind;
use shmem::hook::At;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::ffi::c_void;
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Dynamic shared memory that every kernel may have without asking.
const SHARED_BYTES: u32 = 48 << 10;

pub(super) struct CudaDevice {
    cuda: Arc<Cuda>,
    pe: u32,
    streams: RefCell<Vec<Queue>>,
    /// For copies and zeroing: not behind the user's kernels.
    service: CUstream,
    pool: CUmemoryPool,
    buffers: RefCell<HashSet<u64>>,
    /// Host memory, likewise.
    pinned: RefCell<HashSet<u64>>,
    /// Calls of `back`; the first was the World's.
    backed: Cell<u64>,
    functions: RefCell<Vec<Function>>,
    graphs: RefCell<Graphs>,
}

#[derive(Clone)]
enum Queue {
    Own(CUstream),
    Caller(CUstream),
    /// A caller's that was released: the end of what was on it. None where the context is lost.
    Gone(Option<Rc<EventMark>>),
}

struct Function {
    raw: CUfunction,
    /// Dynamic shared memory that it may be launched with.
    allowed: Cell<u32>,
}

impl CudaDevice {
    /// What another PE of this process failed with.
    fn peer_failure(&self) -> Option<Error> {
        let culprit = self.cuda.culprit()?;
        Some(Error::PeerFailed {
            pe: culprit.pe,
            cause: culprit.to_string(),
        })
    }

    pub(super) fn open(cuda: Arc<Cuda>, pe: u32) -> Result<Self, CudaError> {
        cuda.gpu(pe).make_current()?;
        let mut device = Self {
            cuda,
            pe,
            streams: RefCell::default(),
            service: ptr::null_mut(),
            pool: ptr::null_mut(),
            buffers: RefCell::default(),
            pinned: RefCell::default(),
            backed: Cell::new(1),
            functions: RefCell::default(),
            graphs: RefCell::default(),
        };
        // Where one is refused, `drop` destroys the others.
        let stream = device.gpu().new_stream()?;
        device.streams.borrow_mut().push(Queue::Own(stream));
        device.service = device.gpu().new_stream()?;
        device.pool = new_pool(device.gpu())?;
        Ok(device)
    }

    fn gpu(&self) -> &Gpu {
        self.cuda.gpu(self.pe)
    }

    fn driver(&self) -> &'static Driver {
        self.gpu().driver
    }

    fn stream(&self, stream: StreamId) -> CUstream {
        match self.streams.borrow()[stream.0] {
            Queue::Own(stream) | Queue::Caller(stream) => stream,
            // Nobody has a handle of it to launch with.
            Queue::Gone(_) => ptr::null_mut(),
        }
    }

    fn service_is_idle(&self) -> Result<bool, CudaError> {
        // SAFETY: the stream is this PE's, and its context current.
        unsafe { self.driver().stream_is_idle(self.service) }
    }

    /// `symbol`, a kernel of the module, which the function is.
    fn add(&self, raw: CUfunction, module: &Module, symbol: &str) -> Result<Loaded, Error> {
        let get = |attribute| {
            let mut value = 0;
            // SAFETY: the function's module lives as long as the World.
            unsafe { self.driver().cuFuncGetAttribute(out(&mut value), attribute, raw) }.map(|()| value as u32)
        };
        let threads = get(CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?;
        let shared_bytes = get(CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?;
        let mut functions = self.functions.borrow_mut();
        functions.push(Function {
            raw,
            allowed: Cell::new(SHARED_BYTES.saturating_sub(shared_bytes)),
        });
        Ok(Loaded {
            function: FunctionId(functions.len() - 1),
            threads,
            shared_bytes,
            tile: module.tile(symbol),
            cluster: module.cluster(),
            places: if module.programmatic() {
                self.cuda.state(self.pe).places
            } else {
                0
            },
        })
    }

    /// Where it is for this PE's device. None in the heap of a PE that kernels do not reach by load and store.
    fn address(&self, place: Place) -> Option<Address> {
        match place {
            Place::Address(address) => Some(Address(address)),
            Place::Heap { pe, offset } => match self.cuda.state(self.pe).peer_base[pe as usize] {
                0 => None,
                base => Some(Address(base + offset)),
            },
        }
    }

    /// The function, allowed to be launched with this much dynamic shared memory.
    fn function(&self, function: FunctionId, shared_bytes: u32) -> Result<CUfunction, CudaError> {
        let Function { raw, allowed } = &self.functions.borrow()[function.0];
        if shared_bytes > allowed.get() {
            let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function's module lives as long as the World.
            unsafe { self.driver().cuFuncSetAttribute(*raw, attribute, shared_bytes as i32) }?;
            allowed.set(shared_bytes);
        }
        Ok(*raw)
    }
}

impl Device for CudaDevice {
    fn name(&self) -> String {
        self.gpu().describe()
    }

    fn index(&self) -> Option<u32> {
        Some(self.gpu().device as u32)
    }

    fn limits(&self) -> Limits {
        self.gpu().limits
    }

    fn heap_base(&self) -> u64 {
        self.cuda.heap.start(self.pe).0
    }

    fn back(&self, end: u64, watch: &Watch<'_>) -> Result<(), Halt> {
        self.backed.set(self.backed.get() + 1);
        self.cuda.heap.back(&self.cuda.gpus, end, self.backed.get(), watch)
    }

    fn backed(&self) -> Option<Backed> {
        Some(self.cuda.heap.backed())
    }

    fn zero(&self, address: u64, bytes: u64, watch: &Watch<'_>) -> Result<(), Halt> {
        // SAFETY: the caller owns the range, and no kernel uses it.
        unsafe {
            self.driver()
                .cuMemsetD8Async(Address(address), 0, bytes as usize, self.service)
        }?;
        poll(watch, || self.service_is_idle())
    }

    fn alloc(&self, bytes: u64, watch: &Watch<'_>) -> Result<u64, Halt> {
        let (bytes, mut address) = (bytes.max(1), Address(0));
        // SAFETY: the pool and the stream are this PE's.
        unsafe {
            self.driver()
                .cuMemAllocFromPoolAsync(out(&mut address), bytes as usize, self.pool, self.service)
        }
        .map_err(|cause| self.gpu().out_of_memory(self.pe, bytes, cause))?;
        self.buffers.borrow_mut().insert(address.0);
        self.zero(address.0, bytes, watch)?;
        Ok(address.0)
    }

    fn free(&self, address: u64) {
        if self.buffers.borrow_mut().remove(&address) {
            // SAFETY: from this PE's pool, and no stream uses it. In order on one stream, so that nothing waits.
            let _ = unsafe { self.driver().cuMemFreeAsync(Address(address), self.service) };
        }
    }

    fn alloc_host(&self, bytes: u64) -> Result<u64, Error> {
        let (bytes, mut host) = (bytes.max(1) as usize, ptr::null_mut());
        let portable = cudarc::driver::sys::CU_MEMHOSTALLOC_PORTABLE;
        // SAFETY: a context is current.
        unsafe { self.driver().cuMemHostAlloc(out(&mut host), bytes, portable) }?;
        // SAFETY: fresh memory of that size.
        unsafe { ptr::write_bytes(host.cast::<u8>(), 0, bytes) };
        self.pinned.borrow_mut().insert(host as u64);
        Ok(host as u64)
    }

    fn free_host(&self, address: u64) {
        if self.pinned.borrow_mut().remove(&address) {
            // SAFETY: allocated above, and no stream uses it. A refusal means that the context is lost.
            let _ = unsafe { self.driver().cuMemFreeHost(address as *mut c_void) };
        }
    }

    fn copy(&self, stream: StreamId, device: u64, host: u64, bytes: u64, to_host: bool) -> Result<(), Error> {
        let (driver, stream, host) = (self.driver(), self.stream(stream), host as *mut c_void);
        // SAFETY: live memory of that many bytes on both sides, which the caller keeps until the stream has drained.
        unsafe {
            if to_host {
                driver.cuMemcpyDtoHAsync_v2(host, Address(device), bytes as usize, stream)?;
            } else {
                driver.cuMemcpyHtoDAsync_v2(Address(device), host, bytes as usize, stream)?;
            }
        }
        Ok(())
    }

    fn copy_engine(&self, stream: StreamId, dst: Place, src: Place, bytes: u64) -> Result<bool, Error> {
        // Heaps of emulated adapters are in host memory; a timeline shows what kernels record.
        if self.cuda.network.is_some() || self.cuda.timeline.is_some() {
            return Ok(false);
        }
        let (Some(dst), Some(src)) = (self.address(dst), self.address(src)) else {
            return Ok(false);
        };
        let (driver, stream) = (self.driver(), self.stream(stream));
        // SAFETY: the caller has checked that both sides are live memory of that many bytes; they are mapped for this device.
        unsafe { driver.cuMemcpyDtoDAsync_v2(dst, src, bytes as usize, stream) }?;
        Ok(true)
    }

    fn read(&self, address: u64, into: &mut [u8], _at: At, _watch: &Watch<'_>) -> Result<(), Halt> {
        let to = into.as_mut_ptr().cast();
        // SAFETY: the caller owns the device's side; `into` is borrowed until the copy has ended, below.
        unsafe {
            self.driver()
                .cuMemcpyDtoHAsync_v2(to, Address(address), into.len(), self.service)
        }?;
        Ok(settle(|| self.service_is_idle())?)
    }

    fn write(&self, address: u64, from: &[u8], _at: At, _watch: &Watch<'_>) -> Result<(), Halt> {
        let host = from.as_ptr().cast();
        // SAFETY: the caller owns the device's side; `from` is borrowed until the copy has ended, below.
        unsafe {
            self.driver()
                .cuMemcpyHtoDAsync_v2(Address(address), host, from.len(), self.service)
        }?;
        Ok(settle(|| self.service_is_idle())?)
    }

    fn new_stream(&self) -> Result<StreamId, Error> {
        let mut streams = self.streams.borrow_mut();
        streams.push(Queue::Own(self.gpu().new_stream()?));
        Ok(StreamId(streams.len() - 1))
    }

    unsafe fn adopt_stream(&self, raw: *mut c_void, place: Option<StreamId>) -> Result<StreamId, Error> {
        let (pe, gpu, raw) = (self.pe, self.gpu(), raw.cast());
        // SAFETY: the caller's.
        if !unsafe { gpu.owns(raw) }? {
            let device = gpu.describe();
            return Err(StreamError::OtherContext { pe, device }.into());
        }
        let mut streams = self.streams.borrow_mut();
        let id = place.unwrap_or(StreamId(streams.len()));
        let count = streams.len().max(id.0 + 1);
        streams.resize(count, Queue::Gone(None));
        streams[id.0] = Queue::Caller(raw);
        Ok(id)
    }

    fn release_stream(&self, stream: StreamId) {
        let end = EventMark::new(self.driver(), CUevent_flags::CU_EVENT_DISABLE_TIMING);
        let end = end.and_then(|end| end.record(self.stream(stream)).map(|()| end));
        self.streams.borrow_mut()[stream.0] = Queue::Gone(end.ok().map(Rc::new));
    }

    fn raw_stream(&self, stream: StreamId) -> *mut c_void {
        self.stream(stream).cast()
    }

    fn wait(&self, stream: StreamId, watch: &Watch<'_>) -> Result<(), Halt> {
        let queue = self.streams.borrow()[stream.0].clone();
        match queue {
            Queue::Own(stream) | Queue::Caller(stream) => {
                // SAFETY: the stream is live, and its context current.
                poll(watch, || unsafe { self.driver().stream_is_idle(stream) })
            }
            Queue::Gone(Some(end)) => poll(watch, || Ok(end.reached())),
            Queue::Gone(None) => Ok(()),
        }?;
        match (self.failure(), self.cuda.page(self.pe).fault()) {
            (Some(error), _) => Err(Halt::Error(error)),
            (None, Some(_)) => Err(Halt::WorldFailed),
            // What came from a PE that has failed may be anything: its later kernels ran on what the failed one left.
            (None, None) => self.peer_failure().map_or(Ok(()), |error| Err(Halt::Error(error))),
        }
    }

    fn mark(&self, stream: StreamId) -> Result<Box<dyn Marker>, Error> {
        if let Queue::Gone(Some(end)) = &self.streams.borrow()[stream.0] {
            return Ok(Box::new(end.clone()));
        }
        let mark = EventMark::new(self.driver(), CUevent_flags::CU_EVENT_DISABLE_TIMING)?;
        mark.record(self.stream(stream))?;
        Ok(Box::new(mark))
    }

    fn stopwatch(&self, stream: StreamId) -> Result<Box<dyn Stopwatch>, Error> {
        let event = || EventMark::new(self.driver(), CUevent_flags::CU_EVENT_DEFAULT);
        let watch = EventWatch {
            start: event()?,
            end: event()?,
            stream: self.stream(stream),
        };
        watch.start.record(watch.stream)?;
        Ok(Box::new(watch))
    }

    fn load(&self, kernel: &KernelInfo) -> Result<Loaded, Error> {
        let id = (kernel.images)().id;
        let mut modules = self
            .cuda
            .modules(self.pe)
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.cuda.load_package(&mut modules, self.pe, kernel)?;
        let module = &modules.packages[&(id, self.pe)];
        let function = module.function(self.gpu(), kernel.symbol)?;
        let (name, symbol) = (kernel.name.to_owned(), kernel.symbol.to_owned());
        let function = function.ok_or(ImageError::NotInImage { kernel: name, symbol })?;
        self.add(function, module, kernel.symbol)
    }

    fn load_ptx(&self, ptx: &str) -> Result<ModuleId, Error> {
        module::check("the text", ptx, self.gpu())?;
        if self.cuda.network.is_some() {
            Header::read(ptx)?.check_network("the text", "its builder")?;
        }
        let loaded = Module::load(
            self.gpu(),
            self.pe,
            ptx,
            None,
            self.cuda.state(self.pe),
            self.cuda.timeline.as_ref(),
        )?;
        let mut modules = self
            .cuda
            .modules(self.pe)
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        modules.texts.push(loaded);
        Ok(ModuleId(modules.texts.len() - 1))
    }

    fn load_from(&self, module: ModuleId, symbol: &str) -> Result<Loaded, Error> {
        let modules = self
            .cuda
            .modules(self.pe)
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let module = &modules.texts[module.0];
        let function = module.function(self.gpu(), symbol)?;
        let missing = || ImageError::NotInImage {
            kernel: symbol.to_owned(),
            symbol: symbol.to_owned(),
        };
        self.add(function.ok_or_else(missing)?, module, symbol)
    }

    fn resident(&self, function: FunctionId, shape: Shape) -> Result<u32, Error> {
        let Shape {
            threads,
            shared_bytes,
            cluster,
        } = shape;
        let function = self.function(function, shared_bytes)?;
        let sharers = self.cuda.sharers(self.pe).count() as u32;
        if cluster > 1 {
            // SAFETY: the function's module lives as long as the World, and its context is current.
            let clusters = unsafe { attributes::resident(self.driver(), function, shape) }?;
            return Ok(clusters / sharers * cluster);
        }
        let (mut blocks, bytes) = (0, shared_bytes as usize);
        // SAFETY: the function's module lives as long as the World.
        unsafe {
            self.driver()
                .cuOccupancyMaxActiveBlocksPerMultiprocessor(out(&mut blocks), function, threads as i32, bytes)
        }?;
        Ok(blocks as u32 * self.gpu().multiprocessors / sharers)
    }

    fn launch(&self, launch: Launch<'_>) -> Result<(), Error> {
        let function = self.function(launch.function, launch.shared_bytes)?;
        let ([gx, gy, gz], [bx, by, bz], shared) = (launch.grid, launch.block, launch.shared_bytes);
        let (driver, stream, params) = (self.driver(), self.stream(launch.stream), launch.params.as_mut_ptr());
        // SAFETY: typed launches give one address for each parameter of the entry, and values that live until the call has
        // copied them; for untyped ones, their caller says so. The shape has been checked.
        unsafe {
            if launch.cluster > 1 || launch.programmatic {
                attributes::launch(driver, function, stream, &launch)?;
            } else if launch.cooperative {
                driver.cuLaunchCooperativeKernel(function, gx, gy, gz, bx, by, bz, shared, stream, params)?;
            } else {
                driver.cuLaunchKernel(
                    function,
                    gx,
                    gy,
                    gz,
                    bx,
                    by,
                    bz,
                    shared,
                    stream,
                    params,
                    ptr::null_mut(),
                )?;
            }
        }
        Ok(())
    }

    fn launch_often(&self, launch: Launch<'_>, times: u32) -> Result<(), Error> {
        let function = self.function(launch.function, launch.shared_bytes)?;
        let ([gx, gy, gz], [bx, by, bz], shared) = (launch.grid, launch.block, launch.shared_bytes);
        let (driver, stream, params) = (self.driver(), self.stream(launch.stream), launch.params.as_mut_ptr());
        for _ in 0..times {
            // SAFETY: as in `launch`.
            unsafe { driver.cuLaunchCooperativeKernel(function, gx, gy, gz, bx, by, bz, shared, stream, params) }?;
        }
        Ok(())
    }

    fn begin_capture(&self, stream: StreamId) -> Result<(), Error> {
        Ok(Graphs::begin(self.driver(), self.stream(stream))?)
    }

    fn end_capture(&self, stream: StreamId) -> Result<GraphId, Error> {
        let mut graphs = self.graphs.borrow_mut();
        Ok(graphs.end(self.driver(), self.stream(stream))?)
    }

    fn launch_graph(&self, graph: GraphId, stream: StreamId) -> Result<(), Error> {
        Ok(self.graphs.borrow().launch(self.driver(), graph, self.stream(stream))?)
    }

    fn drop_graph(&self, graph: GraphId) {
        self.graphs.borrow_mut().destroy(self.driver(), graph);
    }

    fn failure(&self) -> Option<Error> {
        // Kernels that were ended because of it have less to say.
        if let Some(error) = self.cuda.network_failure() {
            return Some(error);
        }
        let record = self.cuda.page(self.pe).fault()?;
        let own = DeviceFault::new(self.pe, &record, String::new(), None);
        if own.kind != FaultKind::PeerFailed {
            return Some(Error::Device(Box::new(own)));
        }
        // It only followed. Where no other PE's kernel failed of itself, a host thread did, or another process.
        self.peer_failure()
    }

    fn close(&self, drained: bool) {
        if !drained {
            self.cuda.abandoned.store(true, Ordering::Relaxed);
            std::mem::forget(self.cuda.clone());
        }
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        if self.cuda.abandoned.load(Ordering::Relaxed) {
            return;
        }
        self.graphs.take().destroy_all(self.driver());
        // Refusals mean that the context is lost, and everything with it.
        for address in self.buffers.take() {
            // SAFETY: from this PE's pool, and no kernel runs any more.
            let _ = unsafe { self.driver().cuMemFreeAsync(Address(address), self.service) };
        }
        for address in self.pinned.take() {
            // SAFETY: as above.
            let _ = unsafe { self.driver().cuMemFreeHost(address as *mut c_void) };
        }
        if !self.pool.is_null() {
            // SAFETY: this PE's, and nothing of it is in use any more.
            let _ = unsafe { self.driver().cuMemPoolDestroy(self.pool) };
        }
        let own = |queue| match queue {
            Queue::Own(stream) => Some(stream),
            Queue::Caller(_) | Queue::Gone(_) => None,
        };
        let service = Some(self.service).filter(|service| !service.is_null());
        for stream in self.streams.take().into_iter().filter_map(own).chain(service) {
            // SAFETY: as above.
            let _ = unsafe { self.driver().cuStreamDestroy_v2(stream) };
        }
    }
}

struct EventMark {
    driver: &'static Driver,
    event: CUevent,
}

impl EventMark {
    /// An event of the current context.
    fn new(driver: &'static Driver, flags: CUevent_flags) -> Result<Self, CudaError> {
        let mut event = ptr::null_mut();
        // SAFETY: a context is current; `drop` destroys the event.
        unsafe { driver.cuEventCreate(out(&mut event), flags as u32) }?;
        Ok(Self { driver, event })
    }

    fn record(&self, stream: CUstream) -> Result<(), CudaError> {
        // SAFETY: event and stream are live, and their context current.
        unsafe { self.driver.cuEventRecord(self.event, stream) }
    }
}

struct EventWatch {
    start: EventMark,
    end: EventMark,
    stream: CUstream,
}

impl Stopwatch for EventWatch {
    fn stop(&mut self) -> Result<(), Error> {
        Ok(self.end.record(self.stream)?)
    }

    fn elapsed(&self) -> Result<Duration, Error> {
        let mut milliseconds = 0.0;
        let driver = self.start.driver;
        // SAFETY: both events are live and were recorded with timing.
        unsafe { driver.cuEventElapsedTime(out(&mut milliseconds), self.start.event, self.end.event) }?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) * 1e-3))
    }
}

impl Marker for EventMark {
    fn reached(&self) -> bool {
        // SAFETY: the event is live.
        unsafe { self.driver.event_is_reached(self.event) }
    }
}

impl Marker for Rc<EventMark> {
    fn reached(&self) -> bool {
        self.as_ref().reached()
    }
}

impl Drop for EventMark {
    fn drop(&mut self) {
        // SAFETY: the event is live, and destroyed once.
        let _ = unsafe { self.driver.cuEventDestroy_v2(self.event) };
    }
}

/// A pool that keeps its memory: giving it back to the system could wait for kernels.
fn new_pool(gpu: &Gpu) -> Result<CUmemoryPool, CudaError> {
    let props = CUmemPoolProps {
        allocType: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        handleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
        location: CUmemLocation {
            type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: gpu.device,
        },
        win32SecurityAttributes: ptr::null_mut(),
        reserved: [0; 64],
    };
    let (mut pool, mut keep) = (ptr::null_mut(), u64::MAX);
    // SAFETY: the props name a device that exists.
    unsafe { gpu.driver.cuMemPoolCreate(out(&mut pool), input(&props)) }?;
    // SAFETY: the pool is live, and this attribute is a 64-bit number.
    let kept = unsafe {
        gpu.driver.cuMemPoolSetAttribute(
            pool,
            CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
            out(&mut keep),
        )
    };
    kept.map(|()| pool).inspect_err(|_| {
        // SAFETY: nobody has it.
        let _ = unsafe { gpu.driver.cuMemPoolDestroy(pool) };
    })
}
