//! The CUDA driver's functions, each checked: a failure names the call, its values and the result.
//!
//! Types are cudarc's `sys`. Its functions are not used: they return `CUresult` as a Rust enum with the results of CUDA 12.0,
//! a newer driver returns others, and they panic where an older driver lacks a function. So the table below is loaded from
//! the library that cudarc finds, with results as numbers.

use super::error::CudaError;
use cudarc::driver::sys::{self, CUcontext, CUdevice, CUdevice_attribute, CUevent, CUfunction, CUfunction_attribute};
use cudarc::driver::sys::{CUgraph, CUgraphExec, CUlaunchConfig, CUmodule, CUstream, CUstreamCaptureMode};
use cudarc::driver::sys::{CUjit_option, CUmemAccessDesc, CUmemAllocationGranularity_flags, CUmemAllocationProp};
use cudarc::driver::sys::{
    CUmemAllocationHandleType, CUmemGenericAllocationHandle, CUmemPool_attribute, CUmemPoolProps, CUmemRangeHandleType,
    CUmemoryPool,
};
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::fmt;
use std::marker::PhantomData;
use std::sync::OnceLock;

pub(super) const OUT_OF_MEMORY: u32 = 2;
pub(super) const NO_DEVICE: u32 = 100;
pub(super) const STUB_LIBRARY: u32 = 34;
pub(super) const NOT_FOUND: u32 = 500;
const SUCCESS: u32 = 0;
const NOT_READY: u32 = 600;

macro_rules! driver {
    (checked { $(fn $name:ident($($arg:ident: $t:ty),*);)* } plain { $(fn $plain:ident($($p:ty),*);)* }) => {
        /// The driver's functions by their names in the manual.
        #[allow(non_snake_case)]
        pub(super) struct Driver {
            $($name: unsafe extern "C" fn($($t),*) -> u32,)*
            $($plain: unsafe extern "C" fn($($p),*) -> u32,)*
            /// Since CUDA 12.4.
            cuFuncLoad: Option<unsafe extern "C" fn(CUfunction) -> u32>,
        }

        impl Driver {
            /// # Safety
            /// The library is there.
            unsafe fn load() -> Result<Self, CudaError> {
                // SAFETY: the caller's; the symbols have these signatures since CUDA 12.0.
                unsafe {
                    Ok(Self {
                        $($name: function(stringify!($name), concat!(stringify!($name), "\0"))?,)*
                        $($plain: function(stringify!($plain), concat!(stringify!($plain), "\0"))?,)*
                        cuFuncLoad: sys::culib().get(b"cuFuncLoad\0").ok().map(|symbol| *symbol),
                    })
                }
            }

            $(
                /// # Safety
                /// As the CUDA driver API manual says for the call.
                #[allow(non_snake_case, clippy::too_many_arguments)]
                pub(super) unsafe fn $name(&self, $($arg: $t),*) -> Result<(), CudaError> {
                    // SAFETY: the caller's.
                    match unsafe { (self.$name)($($arg),*) } {
                        SUCCESS => Ok(()),
                        code => Err(self.refused(stringify!($name), &[$((stringify!($arg), &$arg as &dyn fmt::Debug)),*], code)),
                    }
                }
            )*
        }
    };
}

driver! {
    checked {
        fn cuInit(flags: c_uint);
        fn cuDriverGetVersion(version: Out<c_int>);
        fn cuDeviceGetCount(count: Out<c_int>);
        fn cuDeviceGet(device: Out<CUdevice>, ordinal: c_int);
        fn cuDeviceGetName(name: Out<c_char>, len: c_int, device: CUdevice);
        fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: CUdevice);
        fn cuDeviceGetAttribute(value: Out<c_int>, attribute: CUdevice_attribute, device: CUdevice);
        fn cuDeviceCanAccessPeer(can: Out<c_int>, device: CUdevice, peer: CUdevice);
        fn cuDeviceGetPCIBusId(id: Out<c_char>, len: c_int, device: CUdevice);
        fn cuDeviceGetUuid_v2(uuid: Out<[u8; 16]>, device: CUdevice);

        fn cuDevicePrimaryCtxRetain(context: Out<CUcontext>, device: CUdevice);
        fn cuDevicePrimaryCtxRelease_v2(device: CUdevice);
        fn cuCtxSetCurrent(context: CUcontext);
        fn cuCtxPushCurrent_v2(context: CUcontext);
        fn cuCtxPopCurrent_v2(context: Out<CUcontext>);

        fn cuMemAddressReserve(address: Out<Address>, size: usize, alignment: usize, hint: Address, flags: c_ulonglong);
        fn cuMemAddressFree(address: Address, size: usize);
        fn cuMemGetAllocationGranularity(granularity: Out<usize>, prop: In<CUmemAllocationProp>, option: CUmemAllocationGranularity_flags);
        fn cuMemCreate(handle: Out<CUmemGenericAllocationHandle>, size: usize, prop: In<CUmemAllocationProp>, flags: c_ulonglong);
        fn cuMemRelease(handle: CUmemGenericAllocationHandle);
        fn cuMemExportToShareableHandle(exported: Out<c_void>, handle: CUmemGenericAllocationHandle, kind: CUmemAllocationHandleType, flags: c_ulonglong);
        fn cuMemImportFromShareableHandle(handle: Out<CUmemGenericAllocationHandle>, exported: *mut c_void, kind: CUmemAllocationHandleType);
        fn cuMemRetainAllocationHandle(handle: Out<CUmemGenericAllocationHandle>, address: Address);
        fn cuMemGetAllocationPropertiesFromHandle(prop: Out<CUmemAllocationProp>, handle: CUmemGenericAllocationHandle);
        fn cuMemGetAddressRange_v2(base: Out<Address>, size: Out<usize>, address: Address);
        fn cuMemMap(address: Address, size: usize, offset: usize, handle: CUmemGenericAllocationHandle, flags: c_ulonglong);
        fn cuMemUnmap(address: Address, size: usize);
        fn cuMemSetAccess(address: Address, size: usize, desc: *const CUmemAccessDesc, count: usize);
        fn cuMemAlloc_v2(address: Out<Address>, size: usize);
        fn cuMemFree_v2(address: Address);
        fn cuMemGetHandleForAddressRange(handle: Out<c_void>, address: Address, size: usize, kind: CUmemRangeHandleType, flags: c_ulonglong);
        fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>);

        fn cuMemPoolCreate(pool: Out<CUmemoryPool>, props: In<CUmemPoolProps>);
        fn cuMemPoolSetAttribute(pool: CUmemoryPool, attribute: CUmemPool_attribute, value: Out<u64>);
        fn cuMemPoolDestroy(pool: CUmemoryPool);
        fn cuMemAllocFromPoolAsync(address: Out<Address>, size: usize, pool: CUmemoryPool, stream: CUstream);
        fn cuMemFreeAsync(address: Address, stream: CUstream);
        fn cuMemHostAlloc(address: Out<*mut c_void>, size: usize, flags: c_uint);
        fn cuMemHostGetDevicePointer_v2(device: Out<Address>, host: *mut c_void, flags: c_uint);
        fn cuMemHostRegister_v2(address: *mut c_void, size: usize, flags: c_uint);
        fn cuMemHostUnregister(address: *mut c_void);
        fn cuMemFreeHost(address: *mut c_void);

        fn cuMemcpyHtoDAsync_v2(to: Address, from: *const c_void, size: usize, stream: CUstream);
        fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: Address, size: usize, stream: CUstream);
        fn cuMemcpyDtoDAsync_v2(to: Address, from: Address, size: usize, stream: CUstream);
        fn cuMemsetD8Async(to: Address, value: u8, size: usize, stream: CUstream);

        fn cuStreamCreate(stream: Out<CUstream>, flags: c_uint);
        fn cuStreamDestroy_v2(stream: CUstream);
        fn cuStreamGetCtx(stream: CUstream, context: Out<CUcontext>);
        fn cuStreamBeginCapture_v2(stream: CUstream, mode: CUstreamCaptureMode);
        fn cuStreamEndCapture(stream: CUstream, graph: Out<CUgraph>);
        fn cuGraphInstantiateWithFlags(exec: Out<CUgraphExec>, graph: CUgraph, flags: c_ulonglong);
        fn cuGraphUpload(exec: CUgraphExec, stream: CUstream);
        fn cuGraphLaunch(exec: CUgraphExec, stream: CUstream);
        fn cuGraphExecDestroy(exec: CUgraphExec);
        fn cuGraphDestroy(graph: CUgraph);
        fn cuEventCreate(event: Out<CUevent>, flags: c_uint);
        fn cuEventRecord(event: CUevent, stream: CUstream);
        fn cuEventDestroy_v2(event: CUevent);
        fn cuEventElapsedTime(milliseconds: Out<f32>, start: CUevent, end: CUevent);

        fn cuModuleLoadDataEx(module: Out<CUmodule>, image: *const c_void, options: c_uint, names: *mut CUjit_option, values: *mut *mut c_void);
        fn cuModuleUnload(module: CUmodule);
        fn cuModuleGetGlobal_v2(address: Out<Address>, bytes: Out<usize>, module: CUmodule, name: Name<'_>);
        fn cuModuleGetFunction(function: Out<CUfunction>, module: CUmodule, name: Name<'_>);
        fn cuFuncGetAttribute(value: Out<c_int>, attribute: CUfunction_attribute, function: CUfunction);
        fn cuFuncSetAttribute(function: CUfunction, attribute: CUfunction_attribute, value: c_int);
        fn cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: Out<c_int>, function: CUfunction, threads: c_int, shared_bytes: usize);
        fn cuOccupancyMaxActiveClusters(clusters: Out<c_int>, function: CUfunction, config: &CUlaunchConfig);
        fn cuLaunchKernel(function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: CUstream, params: *mut *mut c_void, extra: *mut *mut c_void);
        fn cuLaunchCooperativeKernel(function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: CUstream, params: *mut *mut c_void);
        fn cuLaunchKernelEx(config: &CUlaunchConfig, function: CUfunction, params: *mut *mut c_void, extra: *mut *mut c_void);
    }
    plain {
        fn cuGetErrorName(u32, Out<*const c_char>);
        fn cuStreamQuery(CUstream);
        fn cuEventQuery(CUevent);
    }
}

/// # Safety
/// The library is there, and the symbol is a function of type `F`.
unsafe fn function<F: Copy>(name: &'static str, symbol: &'static str) -> Result<F, CudaError> {
    // SAFETY: the caller's.
    let found = unsafe { sys::culib().get(symbol.as_bytes()) };
    found
        .map(|symbol| *symbol)
        .map_err(|_| CudaError::OldDriver { function: name })
}

impl Driver {
    /// CUDA version of the driver.
    pub(super) fn version(&self) -> Result<(u32, u32), CudaError> {
        let mut version = 0;
        // SAFETY: the driver is there.
        unsafe { self.cuDriverGetVersion(out(&mut version)) }?;
        Ok((version as u32 / 1000, version as u32 % 1000 / 10))
    }

    /// The driver of this process, initialised.
    pub(super) fn find() -> Result<&'static Self, CudaError> {
        static DRIVER: OnceLock<Result<Driver, CudaError>> = OnceLock::new();
        let found = DRIVER.get_or_init(|| {
            // SAFETY: loads and unloads the library; its initialisers do no harm.
            if !unsafe { sys::is_culib_present() } {
                let looked_for = short_list(&cudarc::get_lib_name_candidates("cuda"));
                return Err(CudaError::NoDriver { looked_for });
            }
            // SAFETY: the library is there.
            unsafe { Self::load() }
        });
        let driver = found.as_ref().map_err(Clone::clone)?;
        // SAFETY: may be called any number of times.
        unsafe { driver.cuInit(0) }?;
        Ok(driver)
    }

    #[cold]
    fn refused(&self, function: &str, values: &[(&str, &dyn fmt::Debug)], code: u32) -> CudaError {
        let values: Vec<_> = values
            .iter()
            .map(|(name, value)| format!("{name}: {value:?}"))
            .collect();
        CudaError::Call {
            call: format!("{function}({})", values.join(", ")),
            result: self.name_of(code),
            code,
        }
    }

    fn name_of(&self, code: u32) -> String {
        let mut name = std::ptr::null();
        // SAFETY: takes any number and gives a static text, or null with an error for one that it does not know.
        let known = unsafe { (self.cuGetErrorName)(code, out(&mut name)) } == SUCCESS && !name.is_null();
        if !known {
            return "an unknown result".to_owned();
        }
        // SAFETY: a static text.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }

    /// Whether everything on the stream has run.
    ///
    /// # Safety
    /// The stream is live, and its context current.
    pub(super) unsafe fn stream_is_idle(&self, stream: CUstream) -> Result<bool, CudaError> {
        // SAFETY: the caller's.
        match unsafe { (self.cuStreamQuery)(stream) } {
            SUCCESS => Ok(true),
            NOT_READY => Ok(false),
            code => Err(self.refused("cuStreamQuery", &[("stream", &stream)], code)),
        }
    }

    /// Whether everything before the event has run.
    ///
    /// # Safety
    /// The event is live.
    pub(super) unsafe fn event_is_reached(&self, event: CUevent) -> bool {
        // SAFETY: the caller's.
        unsafe { (self.cuEventQuery)(event) == SUCCESS }
    }

    /// Loads the function onto the device now rather than at its first launch.
    ///
    /// # Safety
    /// The function is live, and its context current.
    pub(super) unsafe fn load_function(&self, function: CUfunction) -> Result<(), CudaError> {
        if let Some(load) = self.cuFuncLoad {
            // SAFETY: the caller's.
            return match unsafe { load(function) } {
                SUCCESS => Ok(()),
                code => Err(self.refused("cuFuncLoad", &[("function", &function)], code)),
            };
        }
        let mut registers = 0;
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS;
        // SAFETY: the caller's. Until 12.4, getting a function loaded it; asking for an attribute makes sure.
        unsafe { self.cuFuncGetAttribute(out(&mut registers), attribute, function) }
    }
}

/// Names that tell what was looked for: each once, and of many the first few.
fn short_list(names: &[String]) -> String {
    const TOLD: usize = 3;
    let mut once: Vec<&str> = Vec::new();
    for name in names {
        if !once.contains(&name.as_str()) {
            once.push(name);
        }
    }
    // The name that Linux drivers have comes late in the list.
    once.sort_by_key(|name| (!name.starts_with("libcuda.so"), name.len()));
    let more = once.len().saturating_sub(TOLD);
    once.truncate(TOLD);
    match more {
        0 => once.join(", "),
        more => format!("{} and {more} names more", once.join(", ")),
    }
}

/// Where a call writes a result. Not worth showing in an error.
#[repr(transparent)]
pub(super) struct Out<T>(*mut T);

pub(super) fn out<T>(place: &mut T) -> Out<T> {
    Out(place)
}

/// As [`out`], for the first of several elements.
pub(super) fn out_at<T>(place: *mut T) -> Out<T> {
    Out(place)
}

/// A pointer to what a function reads, which is too long to be told.
#[repr(transparent)]
pub(super) struct In<T>(*const T);

pub(super) fn input<T>(value: &T) -> In<T> {
    In(value)
}

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for In<T> {}

impl<T> fmt::Debug for In<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("_")
    }
}

impl<T> Out<T> {
    /// For the driver's `void *`, behind which lies a `T`.
    pub(super) fn untyped(self) -> Out<c_void> {
        Out(self.0.cast())
    }
}

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Out<T> {}

impl<T> fmt::Debug for Out<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("_")
    }
}

/// A device address.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Address(pub(super) u64);

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A symbol.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Name<'a>(*const c_char, PhantomData<&'a CStr>);

impl<'a> Name<'a> {
    pub(super) fn new(name: &'a CStr) -> Self {
        Self(name.as_ptr(), PhantomData)
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: made from a CStr that is still borrowed.
        write!(f, "{:?}", unsafe { CStr::from_ptr(self.0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_looked_for_are_told_once_and_shortly() {
        let names = [
            "cuda.dll",
            "libcuda.so",
            "libcuda64.so",
            "libcuda.so",
            "libcuda.so.1",
            "x.so",
        ]
        .map(str::to_owned);
        assert_eq!(short_list(&names), "libcuda.so, libcuda.so.1, x.so and 2 names more");
        assert_eq!(short_list(&names[..2]), "libcuda.so, cuda.dll");
    }
}
