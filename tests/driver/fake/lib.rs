//! `libcuda.so` without a GPU: memory is the host's, kernels do not run, and everything that is made is counted.
//!
//! Tests put it where a program looks for the driver. It refuses misuse that a driver would refuse (memory mapped where
//! nothing is reserved, a context that is not there), and, told so, a call that there is nothing wrong with:
//!
//! | variable | meaning |
//! |---|---|
//! | `FAKE_CUDA_REPORT` | file for what is left when the process ends, `NAME COUNT` a line, and `calls COUNT` |
//! | `FAKE_CUDA_REFUSE` | the number of the call that is refused, from 1 |
//! | `FAKE_CUDA_MEMORY` | bytes of each device; 1 GiB if not given |
//! | `FAKE_CUDA_APART` | devices do not reach each other |
//! | `FAKE_CUDA_ONE` | one device rather than two |
//! | `FAKE_CUDA_BUSY` | what is launched never ends |
//! | `FAKE_CUDA_COUNT` | programmatic launches are reported, as if they were left |

mod copies;
mod memory;
mod objects;

use copies::{Copies, Copy};
use cudarc::driver::sys::{CUlaunchAttributeID, CUlaunchConfig};
use memory::Memory;
use objects::Objects;
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

const SUCCESS: u32 = 0;
const INVALID_VALUE: u32 = 1;
const OUT_OF_MEMORY: u32 = 2;
const NO_SUCH_CONTEXT: u32 = 201;
const NOT_FOUND: u32 = 500;
const NOT_READY: u32 = 600;
const NOT_SUPPORTED: u32 = 801;

struct State {
    calls: u64,
    objects: Objects,
    memory: Memory,
    copies: Copies,
    /// Streams with work that never ends.
    busy: Vec<usize>,
}

static STATE: Mutex<State> = Mutex::new(State {
    calls: 0,
    objects: Objects::new(),
    memory: Memory::new(),
    copies: Copies::new(),
    busy: Vec::new(),
});

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some()
}

/// Counts a call; an error where this one is to be refused.
fn call(state: &mut State) -> Result<(), u32> {
    state.calls += 1;
    match number("FAKE_CUDA_REFUSE") {
        Some(refused) if refused == state.calls => Err(OUT_OF_MEMORY),
        _ => Ok(()),
    }
}

thread_local! {
    /// Contexts of this thread, the current one last.
    static CONTEXTS: std::cell::RefCell<Vec<usize>> = const { std::cell::RefCell::new(vec![]) };
}

fn current() -> Result<usize, u32> {
    CONTEXTS
        .with_borrow(|all| all.last().copied().filter(|context| *context != 0))
        .ok_or(NO_SUCH_CONTEXT)
}

/// Driver functions: each counts, and its body says what it does. What `releases` is gone even where the
/// call is refused; what works `always` is not refused: a driver would only do so where all is lost.
macro_rules! driver {
    ($(fn $name:ident($($arg:ident: $t:ty),* $(,)?) $([$release:ident])? |$state:ident| $body:block)*) => {$(
        /// # Safety
        /// As the CUDA driver API manual says.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, unused_variables, clippy::too_many_arguments, clippy::missing_safety_doc, reason = "the driver's own names")]
        pub unsafe extern "C" fn $name($($arg: $t),*) -> u32 {
            let mut guard = state();
            let (kind, called) = (stringify!($($release)?), call(&mut guard));
            let called = if kind == "always" { Ok(()) } else { called };
            if kind.is_empty() && let Err(code) = called {
                return code;
            }
            let $state = &mut *guard;
            // SAFETY: the caller's pointers are what the manual wants.
            #[allow(unused_mut)]
            let mut body = || -> Result<(), u32> { #[allow(unused_unsafe)] unsafe { $body } };
            let result = body();
            match result.and(called) {
                Ok(()) => SUCCESS,
                Err(code) => code,
            }
        }
    )*};
}

driver! {
    fn cuInit(flags: c_uint) |s| { Ok(()) }
    fn cuDriverGetVersion(version: *mut c_int) |s| { *version = 13000; Ok(()) }
    fn cuDeviceGetCount(count: *mut c_int) |s| { *count = if is_set("FAKE_CUDA_ONE") { 1 } else { 2 }; Ok(()) }
    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) |s| { *device = ordinal; Ok(()) }
    fn cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int) |s| {
        name.copy_from(c"Fake".as_ptr(), 5);
        Ok(())
    }
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) |s| { *bytes = memory::of_device() as usize; Ok(()) }
    fn cuDeviceGetPCIBusId(id: *mut c_char, len: c_int, device: c_int) |s| {
        id.copy_from(c"0000:0F:00.0".as_ptr(), 13);
        Ok(())
    }
    fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) |s| { *uuid = [device as u8 + 1; 16]; Ok(()) }
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) |s| {
        *value = match attribute {
            // Threads of a block, along each axis too.
            1..=4 => 1024,
            // Blocks of a grid along each axis.
            5..=7 => 65535,
            // Cycles per millisecond, multiprocessors, 9.0, shared memory of a block.
            13 => 1_980_000,
            16 => 132,
            75 => 9,
            76 => 0,
            97 => 232_448,
            _ => 1,
        };
        Ok(())
    }
    fn cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) |s| { *can = c_int::from(!is_set("FAKE_CUDA_APART")); Ok(()) }

    fn cuDevicePrimaryCtxRetain(context: *mut usize, device: c_int) |s| {
        s.objects.count("contexts", 1);
        *context = device as usize + 1;
        Ok(())
    }
    fn cuDevicePrimaryCtxRelease_v2(device: c_int) [releases] |s| { s.objects.count("contexts", -1); Ok(()) }
    fn cuCtxSetCurrent(context: usize) |s| {
        CONTEXTS.with_borrow_mut(|all| { all.pop(); all.push(context); });
        Ok(())
    }
    fn cuCtxPushCurrent_v2(context: usize) [always] |s| { CONTEXTS.with_borrow_mut(|all| all.push(context)); Ok(()) }
    fn cuCtxPopCurrent_v2(context: *mut usize) [always] |s| {
        *context = CONTEXTS.with_borrow_mut(Vec::pop).ok_or(NO_SUCH_CONTEXT)?;
        Ok(())
    }

    fn cuMemAddressReserve(address: *mut u64, size: usize, alignment: usize, hint: u64, flags: c_ulonglong) |s| {
        *address = s.memory.reserve(size)?;
        s.objects.count("reservations", 1);
        Ok(())
    }
    fn cuMemAddressFree(address: u64, size: usize) [releases] |s| { s.objects.count("reservations", -1); s.memory.unreserve(address, size) }
    fn cuMemGetAllocationGranularity(granularity: *mut usize, prop: *const c_void, option: c_uint) |s| { *granularity = 2 << 20; Ok(()) }
    fn cuMemCreate(handle: *mut u64, size: usize, prop: *const memory::Prop, flags: c_ulonglong) |s| {
        *handle = s.memory.create(size, *prop)?;
        s.objects.count("handles", 1);
        Ok(())
    }
    fn cuMemRelease(handle: u64) [releases] |s| { s.objects.count("handles", -1); s.memory.release(handle) }
    fn cuMemExportToShareableHandle(exported: *mut c_int, handle: u64, kind: c_uint, flags: c_ulonglong) |s| {
        *exported = s.memory.export(handle)?;
        Ok(())
    }
    fn cuMemImportFromShareableHandle(handle: *mut u64, exported: usize, kind: c_uint) |s| {
        *handle = s.memory.import(exported as c_int)?;
        s.objects.count("handles", 1);
        Ok(())
    }
    fn cuMemRetainAllocationHandle(handle: *mut u64, address: u64) |s| {
        *handle = s.memory.retain(address)?;
        s.objects.count("handles", 1);
        Ok(())
    }
    fn cuMemGetAllocationPropertiesFromHandle(prop: *mut memory::Prop, handle: u64) |s| { *prop = s.memory.prop(handle)?; Ok(()) }
    fn cuMemGetAddressRange_v2(base: *mut u64, size: *mut usize, address: u64) |s| {
        (*base, *size) = s.memory.range(address)?;
        Ok(())
    }
    fn cuMemMap(address: u64, size: usize, offset: usize, handle: u64, flags: c_ulonglong) |s| {
        s.memory.map(address, size, handle)?;
        s.objects.count("mappings", 1);
        Ok(())
    }
    fn cuMemUnmap(address: u64, size: usize) [releases] |s| { s.objects.count("mappings", -1); s.memory.unmap(address, size) }
    fn cuMemSetAccess(address: u64, size: usize, desc: *const c_void, count: usize) |s| {
        if count == 0 { Err(INVALID_VALUE) } else { s.memory.open(address, size) }
    }
    fn cuMemAlloc_v2(address: *mut u64, size: usize) |s| { current()?; *address = s.objects.allocate("buffers", size)?; Ok(()) }
    fn cuMemFree_v2(address: u64) [releases] |s| { s.objects.deallocate("buffers", address) }
    // As of a driver without dma-bufs: adapters are told addresses.
    fn cuMemGetHandleForAddressRange(handle: *mut c_int, address: u64, size: usize, kind: c_uint, flags: c_ulonglong) |s| { Err(NOT_SUPPORTED) }
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) |s| {
        current()?;
        (*free, *total) = (s.memory.left() as usize, memory::of_device() as usize);
        Ok(())
    }

    fn cuMemPoolCreate(pool: *mut usize, props: *const c_void) |s| { *pool = s.objects.make("pools"); Ok(()) }
    fn cuMemPoolSetAttribute(pool: usize, attribute: c_uint, value: *mut c_void) |s| { Ok(()) }
    fn cuMemPoolDestroy(pool: usize) [releases] |s| { s.objects.count("pools", -1); Ok(()) }
    fn cuMemAllocFromPoolAsync(address: *mut u64, size: usize, pool: usize, stream: usize) |s| { *address = s.objects.allocate("buffers", size)?; Ok(()) }
    fn cuMemFreeAsync(address: u64, stream: usize) [releases] |s| { s.objects.deallocate("buffers", address) }
    fn cuMemHostAlloc(address: *mut u64, size: usize, flags: c_uint) |s| { current()?; *address = s.objects.allocate("host pages", size)?; Ok(()) }
    fn cuMemHostGetDevicePointer_v2(device: *mut u64, host: u64, flags: c_uint) |s| { *device = host; Ok(()) }
    fn cuMemHostRegister_v2(address: u64, size: usize, flags: c_uint) |s| { current()?; s.objects.count("registered", 1); Ok(()) }
    fn cuMemHostUnregister(address: u64) [releases] |s| { s.objects.count("registered", -1); Ok(()) }
    fn cuMemFreeHost(address: u64) [releases] |s| { s.objects.deallocate("host pages", address) }

    fn cuMemcpyHtoDAsync_v2(to: *mut u8, from: *const u8, size: usize, stream: usize) |s| {
        // A module's constants have no memory here.
        if to as usize > objects::CONSTANTS { to.copy_from(from, size); }
        Ok(())
    }
    fn cuMemcpyDtoHAsync_v2(to: *mut u8, from: *const u8, size: usize, stream: usize) |s| { to.copy_from(from, size); Ok(()) }
    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, size: usize, stream: usize) |s| { s.copies.enqueue(stream, Copy { to, from, size }); Ok(()) }
    fn cuMemsetD8Async(to: *mut u8, value: u8, size: usize, stream: usize) |s| { to.write_bytes(value, size); Ok(()) }

    fn cuStreamCreate(stream: *mut usize, flags: c_uint) |s| { current()?; *stream = s.objects.make("streams"); Ok(()) }
    fn cuStreamDestroy_v2(stream: usize) [releases] |s| { s.objects.count("streams", -1); Ok(()) }
    fn cuStreamGetCtx(stream: usize, context: *mut usize) |s| { *context = current()?; Ok(()) }
    fn cuStreamBeginCapture_v2(stream: usize, mode: c_uint) |s| { s.copies.begin(stream); Ok(()) }
    fn cuStreamEndCapture(stream: usize, graph: *mut usize) |s| { *graph = s.objects.make("graphs"); s.copies.become_part(stream, *graph); Ok(()) }
    fn cuGraphInstantiateWithFlags(exec: *mut usize, graph: usize, flags: c_ulonglong) |s| {
        *exec = s.objects.make("executables");
        s.copies.become_part(graph, *exec);
        Ok(())
    }
    fn cuGraphUpload(exec: usize, stream: usize) |s| { Ok(()) }
    fn cuGraphLaunch(exec: usize, stream: usize) |s| { s.copies.launch(exec); Ok(()) }
    fn cuGraphExecDestroy(exec: usize) [releases] |s| { s.objects.count("executables", -1); Ok(()) }
    fn cuGraphDestroy(graph: usize) [releases] |s| { s.objects.count("graphs", -1); Ok(()) }
    fn cuEventCreate(event: *mut usize, flags: c_uint) |s| { current()?; *event = s.objects.make("events"); Ok(()) }
    fn cuEventRecord(event: usize, stream: usize) |s| { Ok(()) }
    fn cuEventDestroy_v2(event: usize) [releases] |s| { s.objects.count("events", -1); Ok(()) }
    fn cuEventElapsedTime(milliseconds: *mut f32, start: usize, end: usize) |s| { *milliseconds = 1.0; Ok(()) }

    fn cuModuleLoadDataEx(module: *mut usize, image: *const c_void, options: c_uint, names: *mut c_uint, values: *mut *mut c_void) |s| {
        current()?;
        *module = s.objects.make("modules");
        Ok(())
    }
    fn cuModuleUnload(module: usize) [releases] |s| { s.objects.count("modules", -1); Ok(()) }
    fn cuModuleGetGlobal_v2(address: *mut u64, bytes: *mut usize, module: usize, name: *const c_char) |s| {
        if CStr::from_ptr(name).to_str() != Ok(shmem::state::STATE_SYMBOL) {
            return Err(NOT_FOUND);
        }
        (*address, *bytes) = (objects::CONSTANTS as u64, size_of::<shmem::state::DeviceState>());
        Ok(())
    }
    fn cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) |s| { *function = 1; Ok(()) }
    fn cuFuncGetAttribute(value: *mut c_int, attribute: c_uint, function: usize) |s| { *value = if attribute == 0 { 1024 } else { 0 }; Ok(()) }
    fn cuFuncSetAttribute(function: usize, attribute: c_uint, value: c_int) |s| { Ok(()) }
    fn cuFuncLoad(function: usize) |s| { Ok(()) }
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: usize, threads: c_int, shared: usize) |s| { *blocks = 2; Ok(()) }
    fn cuOccupancyMaxActiveClusters(clusters: *mut c_int, function: usize, config: *const c_void) |s| { *clusters = 2; Ok(()) }
    fn cuLaunchKernel(function: usize, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, shared: c_uint, stream: usize, params: *mut c_void, extra: *mut c_void) |s| { launched(s, stream); Ok(()) }
    fn cuLaunchCooperativeKernel(function: usize, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, shared: c_uint, stream: usize, params: *mut c_void) |s| { launched(s, stream); Ok(()) }
    fn cuLaunchKernelEx(config: *const CUlaunchConfig, function: usize, params: *mut c_void, extra: *mut c_void) |s| {
        let config = &*config;
        let attributes = std::slice::from_raw_parts(config.attrs, config.numAttrs as usize);
        let programmatic = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        if is_set("FAKE_CUDA_COUNT") && attributes.iter().any(|attribute| attribute.id == programmatic) {
            s.objects.count("programmatic launches", 1);
        }
        launched(s, config.hStream as usize);
        Ok(())
    }
    fn cuStreamQuery(stream: usize) |s| { if s.busy.contains(&stream) { Err(NOT_READY) } else { Ok(()) } }
    fn cuEventQuery(event: usize) |s| { Ok(()) }
}

fn launched(state: &mut State, stream: usize) {
    if is_set("FAKE_CUDA_BUSY") {
        state.busy.push(stream);
    }
}

/// # Safety
/// As the CUDA driver API manual says.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the driver's own name")]
pub unsafe extern "C" fn cuGetErrorName(_code: c_uint, name: *mut *const c_char) -> u32 {
    // SAFETY: the caller's pointer is what the manual wants.
    unsafe { *name = c"CUDA_ERROR_OF_THE_FAKE".as_ptr() };
    SUCCESS
}

extern "C" fn report() {
    let Some(path) = std::env::var_os("FAKE_CUDA_REPORT") else {
        return;
    };
    let state = state();
    // Whoever looks whether there is a driver loads and unloads it.
    if state.calls == 0 {
        return;
    }
    let mut text = format!("calls {}\n", state.calls);
    for (name, count) in state.objects.left() {
        // Writing to a string can't fail.
        let _ = writeln!(text, "{name} {count}");
    }
    // Processes of one test write one after the other.
    let file = std::fs::File::options().append(true).create(true).open(path);
    if let Ok(mut file) = file {
        let _ = file.write_all(text.as_bytes());
    }
}

#[used]
#[unsafe(link_section = ".fini_array")]
static REPORT: extern "C" fn() = report;
