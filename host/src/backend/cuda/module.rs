//! PTX on a device: compiled by the driver, told which PE it is, with every function loaded.
//!
//! Constants belong to a module, so each PE has one of its own. Loading beside a kernel that waits can deadlock, so the
//! first PE that needs a package's kernels loads them for all PEs of its device, and all functions at once.

use super::driver::{Address, NOT_FOUND, Name, out};
use super::error::CudaError;
use super::gpu::Gpu;
use super::poll::settle;
use super::timeline::Timeline;
use crate::Error;
use crate::images::{self, Header, ImageError};
use cudarc::driver::sys::{CUfunction, CUjit_option, CUmodule};
use shmem::state::{DeviceState, STATE_SYMBOL};
use shmem::timeline::RING_SYMBOL;
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr;

/// Room for what the driver's compiler says.
const LOG: usize = 16 << 10;

/// One PE's copy of a PTX text.
pub(super) struct Module {
    raw: CUmodule,
    tiles: HashMap<String, u32>,
    /// Blocks that a cluster may have.
    cluster: u32,
    programmatic: bool,
}

// SAFETY: a module may be used from any thread.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Module {
    /// Loads the text for a PE, compiled unless it is assembled already. The device's context is current.
    pub(super) fn load(
        gpu: &Gpu,
        pe: u32,
        ptx: &str,
        assembled: Option<&[u8]>,
        state: &DeviceState,
        timeline: Option<&Timeline>,
    ) -> Result<Self, Error> {
        let header = Header::read(ptx)?;
        let module = Self {
            // A driver that is older than the assembler may refuse what that made.
            raw: match assembled.map(|cubin| load(gpu, cubin)) {
                Some(Ok(module)) => module,
                Some(Err(_)) | None => compile(gpu, pe, ptx)?,
            },
            tiles: images::tiles(ptx),
            cluster: header.largest_cluster(),
            programmatic: gpu.programmatic && header.programmatic(),
        };
        let prepared = module.prepare(gpu, ptx, state).and_then(|()| match timeline {
            Some(timeline) => module.write_ring(gpu, pe, timeline),
            None => Ok(()),
        });
        match prepared {
            Ok(()) => Ok(module),
            Err(error) => {
                module.unload(gpu);
                Err(error)
            }
        }
    }

    fn prepare(&self, gpu: &Gpu, ptx: &str, state: &DeviceState) -> Result<(), Error> {
        self.write_state(gpu, state)?;
        for symbol in images::entries(ptx) {
            let missing = || ImageError::NotInImage {
                kernel: symbol.to_owned(),
                symbol: symbol.to_owned(),
            };
            let function = self.function(gpu, symbol)?.ok_or_else(missing)?;
            // SAFETY: the module is live, and its context current.
            unsafe { gpu.driver.load_function(function) }?;
        }
        Ok(())
    }

    /// Tells the module which PE it belongs to.
    fn write_state(&self, gpu: &Gpu, state: &DeviceState) -> Result<(), Error> {
        let (mut address, mut bytes) = (Address(0), 0);
        let symbol = CString::new(STATE_SYMBOL).expect("a symbol has no zero byte");
        // SAFETY: the module is live, and its context current.
        unsafe {
            gpu.driver
                .cuModuleGetGlobal_v2(out(&mut address), out(&mut bytes), self.raw, Name::new(&symbol))
        }?;
        if bytes != size_of::<DeviceState>() {
            return Err(ImageError::Damaged {
                part: "the constant SHMEM_STATE in this program's size",
            }
            .into());
        }
        let from = ptr::from_ref(state).cast();
        // SAFETY: both sides have that many bytes, and `state` lives until the copy has ended, below.
        unsafe { gpu.driver.cuMemcpyHtoDAsync_v2(address, from, bytes, gpu.control) }?;
        // SAFETY: the stream is live, and its context current.
        Ok(settle(|| unsafe { gpu.driver.stream_is_idle(gpu.control) })?)
    }

    /// Tells the module where its records go, if it has any.
    fn write_ring(&self, gpu: &Gpu, pe: u32, timeline: &Timeline) -> Result<(), Error> {
        let (mut address, mut bytes) = (Address(0), 0);
        let symbol = CString::new(RING_SYMBOL).expect("a symbol has no zero byte");
        // SAFETY: the module is live, and its context current.
        let found = unsafe {
            gpu.driver
                .cuModuleGetGlobal_v2(out(&mut address), out(&mut bytes), self.raw, Name::new(&symbol))
        };
        match found {
            Err(e) if e.code() == Some(NOT_FOUND) => {
                timeline.loaded(false);
                return Ok(());
            }
            other => other?,
        }
        let ring = timeline.ring(pe);
        if bytes != size_of_val(&ring) {
            return Err(ImageError::Damaged {
                part: "the constant SHMEM_TIMELINE in this program's size",
            }
            .into());
        }
        timeline.loaded(true);
        let from = (&raw const ring).cast();
        // SAFETY: both sides have that many bytes, and `ring` lives until the copy has ended, below.
        unsafe { gpu.driver.cuMemcpyHtoDAsync_v2(address, from, bytes, gpu.control) }?;
        // SAFETY: the stream is live, and its context current.
        Ok(settle(|| unsafe { gpu.driver.stream_is_idle(gpu.control) })?)
    }

    /// The entry of this name, if there is one.
    pub(super) fn function(&self, gpu: &Gpu, symbol: &str) -> Result<Option<CUfunction>, CudaError> {
        let Ok(name) = CString::new(symbol) else {
            return Ok(None);
        };
        let mut function = ptr::null_mut();
        // SAFETY: the module is live, and its context current.
        match unsafe {
            gpu.driver
                .cuModuleGetFunction(out(&mut function), self.raw, Name::new(&name))
        } {
            Ok(()) => Ok(Some(function)),
            Err(e) if e.code() == Some(NOT_FOUND) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Lanes of the largest SubWarp that the kernel uses.
    pub(super) fn tile(&self, symbol: &str) -> u32 {
        self.tiles.get(symbol).copied().unwrap_or(1)
    }

    pub(super) fn cluster(&self) -> u32 {
        self.cluster
    }

    /// Its programmatic kernels may be launched so.
    pub(super) fn programmatic(&self) -> bool {
        self.programmatic
    }

    /// Frees it. No kernel of it runs, and its device's context is current.
    pub(super) fn unload(&self, gpu: &Gpu) {
        // SAFETY: the caller's. A refusal means that the context is lost, and the module with it.
        let _ = unsafe { gpu.driver.cuModuleUnload(self.raw) };
    }
}

/// Loads what is assembled for the device.
fn load(gpu: &Gpu, cubin: &[u8]) -> Result<CUmodule, CudaError> {
    let (mut module, image) = (ptr::null_mut(), cubin.as_ptr().cast());
    // SAFETY: a context is current; the image is a whole cubin, as the assembler made it; no options.
    unsafe {
        gpu.driver
            .cuModuleLoadDataEx(out(&mut module), image, 0, ptr::null_mut(), ptr::null_mut())
    }?;
    Ok(module)
}

fn compile(gpu: &Gpu, pe: u32, ptx: &str) -> Result<CUmodule, ImageError> {
    tracing::info!(
        pe,
        bytes = ptx.len(),
        "the driver compiles PTX, a second for some 100 KiB; shmem_build::kernels().assemble() does it when the program is built"
    );
    let text = CString::new(ptx).map_err(|_| ImageError::Damaged {
        part: "text without zero bytes",
    })?;
    let mut log = vec![0u8; LOG];
    let mut options = [
        CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
        CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    ];
    let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), ptr::without_provenance_mut(LOG)];
    let mut module = ptr::null_mut();
    // SAFETY: a context is current; the text ends with a zero; options and values are two each, and the log has that size.
    let loaded = unsafe {
        gpu.driver.cuModuleLoadDataEx(
            out(&mut module),
            text.as_ptr().cast(),
            options.len() as u32,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    loaded.map(|()| module).map_err(|cause| {
        let said = log.split(|byte| *byte == 0).next().unwrap_or_default();
        let log = String::from_utf8_lossy(said).trim().to_owned();
        ImageError::Compile {
            pe,
            cause: cause.to_string(),
            log,
        }
    })
}

/// Refuses PTX that can't work, before the driver sees it.
pub(super) fn check(kernel: &str, ptx: &str, gpu: &Gpu) -> Result<(), ImageError> {
    Header::read(ptx)?.check(kernel, gpu.arch)
}
