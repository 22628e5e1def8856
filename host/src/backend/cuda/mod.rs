//! GPUs as a platform, through the CUDA driver, which is found at run time.
//!
//! | file | what it holds |
//! |---|---|
//! | `driver`, `error` | the driver's functions, checked |
//! | `gpu` | a device and its primary context |
//! | `heap` | symmetric heaps by the virtual memory calls |
//! | `page` | fault records in host memory |
//! | `module` | PTX with a PE's state |
//! | `device` | what one PE holds: streams, buffers, functions |
//! | `graph` | captures |
//! | `timeline` | what kernels recorded of their calls |
//! | `poll` | waits that can be ended |

mod cluster;
mod device;
mod driver;
mod error;
mod gpu;
mod graph;
mod heap;
mod module;
mod page;
mod poll;
mod timeline;

pub use error::CudaError;

use super::{Device, KernelInfo, Platform};
use crate::Error;
use crate::config::{ConfigError, Settings};
use crate::images::{ImageError, choose};
use crate::register::{RegisterError, UserMemory};
use device::CudaDevice;
use driver::{Address, Driver};
use gpu::Gpu;
use heap::Heap;
use module::Module;
use page::Page;
use poll::settle;
use shmem::state::{DeviceState, MAX_PES, SystemArea};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use timeline::Timeline;

/// A driver with at least one device.
pub(crate) struct Devices {
    driver: &'static Driver,
    count: u32,
}

impl Devices {
    pub(crate) fn find() -> Result<Self, CudaError> {
        let driver = Driver::find()?;
        match Gpu::count(driver)? {
            ..=0 => Err(CudaError::NoDevice),
            count => Ok(Self {
                driver,
                count: count as u32,
            }),
        }
    }
}

impl Devices {
    /// The devices in words.
    pub(crate) fn describe(&self) -> Result<Vec<String>, CudaError> {
        (0..self.count).map(|i| Gpu::summary(self.driver, i as i32)).collect()
    }

    /// CUDA version of the driver, where there is one.
    pub(crate) fn driver_version() -> Option<(u32, u32)> {
        let (driver, mut version) = (Driver::find().ok()?, 0);
        // SAFETY: the driver is there.
        unsafe { driver.cuDriverGetVersion(driver::out(&mut version)) }.ok()?;
        Some((version as u32 / 1000, version as u32 % 1000 / 10))
    }
}

pub(crate) struct Cuda {
    /// For each device, its PEs' modules: by package and PE, and those loaded from text.
    modules: Vec<Mutex<Modules>>,
    pages: Vec<Page>,
    heap: Heap,
    states: Vec<DeviceState>,
    /// Which device each PE is on.
    owners: Vec<usize>,
    /// A kernel that can't be stopped still uses all this, so that it stays for the life of the process.
    abandoned: AtomicBool,
    timeline: Option<Timeline>,
    /// Last: what is above needs their contexts.
    gpus: Vec<Gpu>,
}

#[derive(Default)]
struct Modules {
    packages: HashMap<(u64, u32), Module>,
    texts: Vec<Module>,
}

impl Cuda {
    pub(crate) fn start(settings: &Settings, devices: &Devices) -> Result<Arc<Self>, Error> {
        let Devices { driver, count } = *devices;
        let pes = settings.pes_or(count)?;
        let gpus: Vec<_> = (0..count.min(pes))
            .map(|i| Gpu::open(driver, i as i32))
            .collect::<Result<_, _>>()?;
        let owners: Vec<_> = (0..pes as usize).map(|pe| pe % gpus.len()).collect();
        let most = gpus.iter().map(|gpu| gpu.multiprocessors).min().unwrap_or(0) * gpus.len() as u32;
        if pes > most {
            return Err(ConfigError::TooManyForDevices {
                asked: pes,
                devices: count,
                most,
            }
            .into());
        }
        let system = SystemArea::new(pes);
        let memory = gpus.iter().map(|gpu| gpu.memory).max().unwrap_or(0);
        let asked = settings.heap_or(memory, pes, system.bytes)?;
        let heap = Heap::reserve(&gpus, &owners, asked)?;
        let mut cuda = Self {
            modules: gpus.iter().map(|_| Mutex::default()).collect(),
            pages: vec![],
            heap,
            states: vec![],
            owners,
            abandoned: AtomicBool::new(false),
            timeline: None,
            gpus,
        };
        cuda.timeline = Timeline::start(&cuda.gpus, &cuda.owners)?;
        for pe in 0..pes {
            let (page, state) = cuda.prepare(pe, &system, settings.time_limit_ns())?;
            cuda.pages.push(page);
            cuda.states.push(state);
        }
        Ok(Arc::new(cuda))
    }

    /// Makes what a PE's kernels need before any kernel of the World runs.
    fn prepare(&self, pe: u32, system: &SystemArea, time_limit_ns: u64) -> Result<(Page, DeviceState), Error> {
        let gpu = self.gpu(pe);
        let _current = gpu.enter()?;
        let page = Page::new(gpu.driver)?;
        let fresh = self
            .heap
            .back(pe, system.bytes)
            .map_err(|refused| self.no_memory(pe, refused))?;
        if let Some((address, bytes)) = fresh {
            // SAFETY: fresh memory of that size.
            unsafe { gpu.driver.cuMemsetD8Async(address, 0, bytes as usize, gpu.control) }?;
            // SAFETY: the stream is live, and its context current.
            settle(|| unsafe { gpu.driver.stream_is_idle(gpu.control) })?;
        }
        let mut peer_base = [0; MAX_PES];
        for (peer, base) in (0..self.pes()).zip(&mut peer_base) {
            if gpu.reaches(self.gpu(peer))? {
                *base = self.heap.start(peer).0;
            }
        }
        let state = DeviceState {
            my_pe: pe,
            n_pes: self.pes(),
            heap_base: self.heap.start(pe).0,
            heap_bytes: self.heap_bytes(),
            fault: page.record.0,
            time_limit_ns,
            world_sync: system.world_sync,
            node_sync: system.node_sync,
            node_start: 0,
            node_size: self.pes(),
            peer_base,
        };
        Ok((page, state))
    }

    fn gpu(&self, pe: u32) -> &Gpu {
        &self.gpus[self.owners[pe as usize]]
    }

    /// PEs on the same device as this one, itself among them.
    fn sharers(&self, pe: u32) -> impl Iterator<Item = u32> {
        let owner = self.owners[pe as usize];
        (0..self.pes()).filter(move |pe| self.owners[*pe as usize] == owner)
    }

    fn modules(&self, pe: u32) -> &Mutex<Modules> {
        &self.modules[self.owners[pe as usize]]
    }

    /// Loads a kernel's package for all PEs of the device, unless that has been done.
    fn load_package(&self, modules: &mut Modules, pe: u32, kernel: &KernelInfo) -> Result<(), Error> {
        let (gpu, package) = (self.gpu(pe), (kernel.images)());
        if package.list.is_empty() {
            let (kernel, reason) = (kernel.name.to_owned(), package.absent.to_owned());
            return Err(ImageError::NoImages { kernel, reason }.into());
        }
        if modules.packages.contains_key(&(package.id, pe)) {
            return Ok(());
        }
        let image = choose(kernel.name, package.list, gpu.arch)?;
        module::check(kernel.name, image.ptx, gpu)?;
        for pe in self.sharers(pe) {
            let module = Module::load(gpu, pe, image.ptx, &self.states[pe as usize], self.timeline.as_ref())?;
            modules.packages.insert((package.id, pe), module);
        }
        Ok(())
    }

    /// A chunk that the driver refused, as an error of the allocation that needed it.
    fn no_memory(&self, pe: u32, refused: heap::Refused) -> Error {
        let heap::Refused { size: asked, cause } = refused;
        self.out_of_memory(pe, asked, cause)
    }

    fn out_of_memory(&self, pe: u32, asked: u64, cause: CudaError) -> Error {
        let gpu = self.gpu(pe);
        match (cause.code(), gpu.memory_left()) {
            (Some(driver::OUT_OF_MEMORY), Ok((free, total))) => crate::HeapError::OutOfMemory {
                pe,
                asked,
                free,
                total,
                device: gpu.describe(),
            }
            .into(),
            _ => cause.into(),
        }
    }
}

impl Platform for Cuda {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn pes(&self) -> u32 {
        self.owners.len() as u32
    }

    fn heap_bytes(&self) -> u64 {
        self.heap.stride()
    }

    fn hold(&self, pe: u32, memory: UserMemory<'_>, _bytes: u64) -> Result<(), RegisterError> {
        let given = match memory {
            UserMemory::Device { .. } => "device memory",
            UserMemory::File(_) => "a file",
        };
        let (backend, takes) = (self.name(), "nothing yet");
        Err(RegisterError::OtherKind {
            pe,
            given,
            backend,
            takes,
        })
    }

    fn open(self: Arc<Self>, pe: u32) -> Result<Box<dyn Device>, Error> {
        Ok(Box::new(CudaDevice::open(self, pe)?))
    }

    fn abort(&self, _pe: u32, _cause: &str) {
        for pe in 0..self.pes() {
            let (gpu, word) = (self.gpu(pe), Address(self.heap.start(pe).0 + SystemArea::ABORT));
            // Where the device refuses, its context is lost and its kernels are gone.
            if let Ok(_current) = gpu.enter() {
                let one = self.pages[pe as usize].one();
                // SAFETY: both sides are live, 4 bytes each; the control stream is not behind a kernel.
                let _ = unsafe {
                    gpu.driver
                        .cuMemcpyHtoDAsync_v2(word, one, size_of::<u32>(), gpu.control)
                };
            }
        }
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        if let Some(timeline) = &self.timeline {
            timeline.finish(&self.gpus, &self.owners);
        }
        for (gpu, modules) in self.gpus.iter().zip(&mut self.modules) {
            let Modules { packages, texts } = modules.get_mut().unwrap_or_else(PoisonError::into_inner);
            if let Ok(_current) = gpu.enter() {
                packages.values().chain(&*texts).for_each(|module| module.unload(gpu));
            }
        }
        // Freeing pages needs a context, and the thread that drops the World may have none.
        let _current = self.gpus.first().map(Gpu::enter);
        self.pages.clear();
    }
}
