//! One device: what it can do, and its primary context.

use super::driver::{Driver, OUT_OF_MEMORY, out, out_at};
use super::error::CudaError;
use crate::backend::Limits;
use crate::device_use::Uuid;
use crate::{Error, HeapError};
use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::sys::{CUcontext, CUdevice, CUstream, CUstream_flags};
use std::ffi::{CStr, c_char};
use std::ptr;

/// Streams don't wait for work on the legacy default stream, which others in this process may use.
const NON_BLOCKING: u32 = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;

pub(super) struct Gpu {
    pub(super) driver: &'static Driver,
    pub(super) device: CUdevice,
    pub(super) name: String,
    /// 90 for sm_90.
    pub(super) arch: u32,
    pub(super) multiprocessors: u32,
    pub(super) memory: u64,
    /// Cycles of a multiprocessor in a nanosecond, at the most.
    pub(super) clock_per_ns: f64,
    pub(super) limits: Limits,
    /// Memory can be given to other processes as file descriptors.
    pub(super) shareable: bool,
    /// A NIC can reach memory that is mapped by the virtual memory calls.
    pub(super) rdma: bool,
    /// The driver takes programmatic launches, in graphs too.
    pub(super) programmatic: bool,
    context: CUcontext,
    /// For writes that must not stand behind a kernel: the abort word, a module's state.
    pub(super) control: CUstream,
}

// SAFETY: a context and a stream may be used from any thread; the driver locks what it needs to.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

impl Gpu {
    pub(super) fn count(driver: &Driver) -> Result<i32, CudaError> {
        let mut count = 0;
        // SAFETY: the driver is initialised.
        unsafe { driver.cuDeviceGetCount(out(&mut count)) }?;
        Ok(count)
    }

    /// The device's UUID, without a context.
    pub(super) fn uuid(driver: &Driver, ordinal: i32) -> Result<Uuid, CudaError> {
        let (mut device, mut uuid) = (0, [0; 16]);
        // SAFETY: the driver is initialised, and says so where there is no such device.
        unsafe { driver.cuDeviceGet(out(&mut device), ordinal) }?;
        // SAFETY: the device exists.
        unsafe { driver.cuDeviceGetUuid_v2(out(&mut uuid), device) }?;
        Ok(Uuid(uuid))
    }

    /// A device in words, without a context.
    pub(super) fn summary(driver: &Driver, ordinal: i32) -> Result<String, CudaError> {
        let (mut device, mut memory) = (0, 0);
        // SAFETY: the driver is initialised, and says so where there is no such device.
        unsafe { driver.cuDeviceGet(out(&mut device), ordinal) }?;
        // SAFETY: the device exists.
        unsafe { driver.cuDeviceTotalMem_v2(out(&mut memory), device) }?;
        let get = |attribute| attribute_of(driver, device, attribute);
        let major = get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let multiprocessors = get(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let (name, uuid, gigabytes) = (name(driver, device)?, Self::uuid(driver, ordinal)?, memory >> 30);
        Ok(format!(
            "{name} (device {ordinal}, {uuid}): sm_{major}{minor}, {multiprocessors} multiprocessors, {gigabytes} GiB"
        ))
    }

    pub(super) fn open(driver: &'static Driver, ordinal: i32) -> Result<Self, CudaError> {
        let mut device = 0;
        // SAFETY: the driver is initialised, and says so where there is no such device.
        unsafe { driver.cuDeviceGet(out(&mut device), ordinal) }?;
        let name = name(driver, device)?;
        let get = |attribute| attribute_of(driver, device, attribute);
        let needs = [
            (Attribute::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, "unified addressing"),
            (
                Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                "virtual memory management",
            ),
            (
                Attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH,
                "cooperative launches",
            ),
            (Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, "memory pools"),
        ];
        for (attribute, what) in needs {
            if get(attribute)? == 0 {
                return Err(CudaError::Unsupported {
                    device: ordinal,
                    name,
                    what,
                });
            }
        }
        let mut memory = 0;
        // SAFETY: the device exists.
        unsafe { driver.cuDeviceTotalMem_v2(out(&mut memory), device) }?;
        let major = get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let limits = Limits {
            threads: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            block: [
                get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)?,
                get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)?,
                get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)?,
            ],
            grid: [
                get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
                get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
                get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
            ],
            // The axes alone limit them.
            blocks: u64::MAX,
            shared_bytes: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        };
        let kilohertz = get(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?;
        let multiprocessors = get(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let shareable = get(Attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)? != 0;
        let rdma = get(Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED)? != 0;
        let programmatic = driver.version()? >= (12, 3);
        let mut context = ptr::null_mut();
        // SAFETY: the device exists; `drop` releases the context.
        unsafe { driver.cuDevicePrimaryCtxRetain(out(&mut context), device) }?;
        let mut gpu = Self {
            driver,
            device,
            name,
            arch: 10 * major + minor,
            multiprocessors,
            memory: memory as u64,
            clock_per_ns: f64::from(kilohertz) * 1e-6,
            limits,
            shareable,
            rdma,
            programmatic,
            context,
            control: ptr::null_mut(),
        };
        gpu.control = {
            let _current = gpu.enter()?;
            gpu.new_stream()?
        };
        Ok(gpu)
    }

    /// The context, for what is freed while the device is there, with no way to it.
    pub(super) fn context(&self) -> Context {
        Context {
            driver: self.driver,
            raw: self.context,
        }
    }

    /// Makes the context current on this thread for good.
    pub(super) fn make_current(&self) -> Result<(), CudaError> {
        // SAFETY: the context is retained.
        unsafe { self.driver.cuCtxSetCurrent(self.context) }
    }

    /// Makes the context current on this thread for a while.
    pub(super) fn enter(&self) -> Result<Entered, CudaError> {
        self.context().enter()
    }

    /// A stream of the current context.
    pub(super) fn new_stream(&self) -> Result<CUstream, CudaError> {
        let mut stream = ptr::null_mut();
        // SAFETY: a context is current.
        unsafe { self.driver.cuStreamCreate(out(&mut stream), NON_BLOCKING) }?;
        Ok(stream)
    }

    /// Whether the stream is of this context, which is current.
    ///
    /// # Safety
    /// The stream is live, or null.
    pub(super) unsafe fn owns(&self, stream: CUstream) -> Result<bool, CudaError> {
        let mut context = ptr::null_mut();
        // SAFETY: the caller's.
        unsafe { self.driver.cuStreamGetCtx(stream, out(&mut context)) }?;
        Ok(context == self.context)
    }

    /// Whether kernels of this device reach the memory of another that this process sees by load and store.
    pub(super) fn reaches(&self, ordinal: i32) -> Result<bool, CudaError> {
        let mut other = 0;
        // SAFETY: the driver is initialised, and says so where there is no such device.
        unsafe { self.driver.cuDeviceGet(out(&mut other), ordinal) }?;
        if self.device == other {
            return Ok(true);
        }
        let mut can = 0;
        // SAFETY: both devices exist.
        unsafe { self.driver.cuDeviceCanAccessPeer(out(&mut can), self.device, other) }?;
        Ok(can != 0)
    }

    /// Where it is on the PCI bus, as in `0000:3B:00.0`; None where that is no text.
    pub(super) fn bus_id(&self) -> Result<Option<String>, CudaError> {
        let mut id: [c_char; 32] = [0; 32];
        // SAFETY: the device exists; the text and its end fit in the array.
        unsafe {
            self.driver
                .cuDeviceGetPCIBusId(out_at(id.as_mut_ptr()), id.len() as i32, self.device)
        }?;
        // SAFETY: the array was zero, and the driver leaves a zero at the text's end.
        Ok(unsafe { CStr::from_ptr(id.as_ptr()) }.to_str().ok().map(str::to_owned))
    }

    /// Bytes of memory that are free, and all of them. The context is current.
    fn memory_left(&self) -> Result<(u64, u64), CudaError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: a context is current.
        unsafe { self.driver.cuMemGetInfo_v2(out(&mut free), out(&mut total)) }?;
        Ok((free as u64, total as u64))
    }

    /// Memory that the driver refused, as an error of the allocation that needed it.
    pub(super) fn out_of_memory(&self, pe: u32, asked: u64, cause: CudaError) -> Error {
        let left = || {
            let _current = self.enter()?;
            self.memory_left()
        };
        match (cause.code(), left()) {
            (Some(OUT_OF_MEMORY), Ok((free, total))) => HeapError::OutOfMemory {
                pe,
                asked,
                free,
                total,
                device: self.describe(),
            }
            .into(),
            _ => cause.into(),
        }
    }

    pub(super) fn describe(&self) -> String {
        format!("{} (device {})", self.name, self.device)
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // A refusal means that the context is lost already.
        if let Ok(_current) = self.enter()
            && !self.control.is_null()
        {
            // SAFETY: nobody else has the stream.
            let _ = unsafe { self.driver.cuStreamDestroy_v2(self.control) };
        }
        // SAFETY: retained in `open`, and nothing uses it any more.
        let _ = unsafe { self.driver.cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// A device's primary context. Whoever has it ends before the [`Gpu`].
#[derive(Clone, Copy)]
pub(super) struct Context {
    pub(super) driver: &'static Driver,
    raw: CUcontext,
}

// SAFETY: a context may be used from any thread; the driver locks what it needs to.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Makes it current on this thread for a while.
    pub(super) fn enter(self) -> Result<Entered, CudaError> {
        // SAFETY: the context is retained.
        unsafe { self.driver.cuCtxPushCurrent_v2(self.raw) }?;
        Ok(Entered { driver: self.driver })
    }
}

/// Puts back the context that was current before.
pub(super) struct Entered {
    driver: &'static Driver,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut left = ptr::null_mut();
        // SAFETY: `enter` pushed one.
        let _ = unsafe { self.driver.cuCtxPopCurrent_v2(out(&mut left)) };
    }
}

fn attribute_of(driver: &Driver, device: CUdevice, attribute: Attribute) -> Result<u32, CudaError> {
    let mut value = 0;
    // SAFETY: the device exists.
    unsafe { driver.cuDeviceGetAttribute(out(&mut value), attribute, device) }?;
    Ok(value as u32)
}

fn name(driver: &Driver, device: CUdevice) -> Result<String, CudaError> {
    let mut name: [c_char; 128] = [0; 128];
    // SAFETY: the device exists; the text and its end fit in the array.
    unsafe { driver.cuDeviceGetName(out_at(name.as_mut_ptr()), name.len() as i32, device) }?;
    // SAFETY: the array was zero, and the driver leaves a zero at the text's end.
    Ok(unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned())
}
