//! libibverbs and libmlx5 in one, without an adapter: what the set-up calls, on emulated ones. Registers are memory of this
//! process. Tests load it by its file name, and ask it for more:
//!
//! | function | what |
//! |---|---|
//! | `fake_poll` | the adapters do what registers say, and all that follows |
//! | `fake_refuse(name, errno)` | from now on that function fails so; 0: no more. `old`: no pages of registers of one's own |
//! | `fake_left` | how many objects there are |
//! | `fake_faults` | how many violations there were since the last call |
//! | `fake_devices(count)` | how many adapters are listed, 2 at most; -1: the list fails as where the kernel has no modules |

#![allow(clippy::missing_safety_doc, missing_docs, reason = "as C has them")]
#![allow(non_snake_case, reason = "names of C")]

use rustix::fd::BorrowedFd;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use shmem_hca::{Access, Config, Domain, Fabric, Link, Pinned, Place, Space, firmware, identity};
use shmem_ibgda::verbs::sys::{
    self, Ah, AhAttr, Av, Context, ContextAttr, Device, DevxObj, DvObj, GidEntry, Mr, Pd, PortAttr, Uar, Umem, UmemIn,
};
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

const NAMES: [&CStr; 3] = [c"mlx5_0", c"mlx5_1", c"other_0"];
const EREMOTEIO: c_int = 121;
const EINVAL: c_int = 22;

struct State {
    fabric: Fabric<Pinned>,
    adapters: [shmem_hca::Adapter; 2],
    devices: i32,
    refused: HashMap<String, c_int>,
    left: i64,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

struct Locked(MutexGuard<'static, Option<State>>);

impl std::ops::Deref for Locked {
    type Target = State;
    fn deref(&self) -> &State {
        self.0.as_ref().expect("made when it was locked")
    }
}

impl std::ops::DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut State {
        self.0.as_mut().expect("made when it was locked")
    }
}

fn state() -> Locked {
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    state.get_or_insert_with(|| {
        // Processes that play machines each have adapters of their own.
        let closed = std::env::var_os("FAKE_VERBS_FAR").is_none();
        let mut fabric = Fabric::new(
            Pinned::new(),
            Config {
                closed,
                ..Config::polled()
            },
        );
        let adapters = [fabric.add_adapter(), fabric.add_adapter()];
        for adapter in adapters {
            fabric.set_link(adapter, Link::Ethernet);
        }
        State {
            fabric,
            adapters,
            devices: 2,
            refused: HashMap::new(),
            left: 0,
        }
    });
    Locked(state)
}

fn set_errno(value: c_int) {
    // SAFETY: errno of this thread.
    unsafe { *libc::__errno_location() = value }
}

/// The errno with which a function is to fail.
fn refused(name: &str) -> Option<c_int> {
    state().refused.get(name).copied().inspect(|&errno| set_errno(errno))
}

/// Functions of the libraries: where one is refused, it returns what is said, with errno set.
macro_rules! functions { ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? = $fail:expr; $body:block)*) => { $(
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
        if let Some(errno) = refused(stringify!($name)) {
            #[allow(clippy::redundant_closure_call, reason = "what it returns may depend on errno")]
            return ($fail)(errno);
        }
        $body
    }
)* } }

fn null<T>(_: c_int) -> *mut T {
    ptr::null_mut()
}

fn code(errno: c_int) -> c_int {
    errno
}

/// What a pointer that was given out stands for.
fn made<T>(value: T) -> *mut T {
    state().left += 1;
    Box::into_raw(Box::new(value))
}

/// SAFETY: a pointer from `made` that is not ended yet.
unsafe fn end<T>(value: *mut T) {
    state().left -= 1;
    // SAFETY: the caller's.
    drop(unsafe { Box::from_raw(value) });
}

/// An opened device.
struct Open {
    adapter: usize,
    domain: Option<Domain>,
}

/// SAFETY: a context that was given out.
unsafe fn open<'a>(context: *mut Context) -> &'a mut Open {
    // SAFETY: the caller's.
    unsafe { &mut *context.cast() }
}

struct PdState {
    context: *mut Context,
    number: u32,
}

struct ObjectState {
    adapter: usize,
    opcode: u16,
    number: u32,
}

/// A page of registers.
#[repr(align(4096))]
struct Registers(#[expect(dead_code, reason = "only its address is used")] [u64; 512]);

/// Memory that adapters may touch from now on.
fn pin(address: *mut c_void, bytes: usize) -> Place {
    // SAFETY: registered memory stays, as the set-up demands.
    unsafe { state().fabric.memory_mut().add(Space(0), address.cast(), bytes) }
}

/// The memory of a "dma-buf".
fn map(fd: c_int, offset: u64, bytes: usize) -> Option<*mut c_void> {
    // SAFETY: open during the call.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    // SAFETY: at an address that the system chooses.
    unsafe {
        mmap(
            ptr::null_mut(),
            bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            fd,
            offset,
        )
    }
    .ok()
}

fn umem(context: *mut Context, place: Place, bytes: usize) -> *mut Umem {
    // SAFETY: an open device, as the caller of the C function says.
    let adapter = unsafe { open(context) }.adapter;
    let mut state = state();
    let adapter = state.adapters[adapter];
    let Ok(umem_id) = state.fabric.register_umem(adapter, place, bytes as u64) else {
        set_errno(EINVAL);
        return ptr::null_mut();
    };
    drop(state);
    made(Umem { umem_id })
}

fn key(pd: *mut Pd, place: Place, bytes: usize, iova: u64) -> *mut Mr {
    // SAFETY: a domain that was given out, of an open device.
    let domain = unsafe { open((*pd.cast::<PdState>()).context) }.domain;
    let Some(domain) = domain else {
        set_errno(EINVAL);
        return ptr::null_mut();
    };
    let key = state()
        .fabric
        .add_key(domain, 0x33, iova, bytes as u64, place, Access::ALL);
    let Ok(key) = key else {
        set_errno(EINVAL);
        return ptr::null_mut();
    };
    made(Mr {
        context: ptr::null_mut(),
        pd,
        addr: ptr::null_mut(),
        length: bytes,
        handle: 0,
        lkey: key,
        rkey: key,
    })
}

/// SAFETY: blocks as long as is said.
unsafe fn command(adapter: usize, input: *const c_void, inlen: usize, output: *mut c_void, outlen: usize) -> bool {
    // SAFETY: the caller's.
    let (input, output) = unsafe {
        (
            std::slice::from_raw_parts(input.cast::<u8>(), inlen),
            std::slice::from_raw_parts_mut(output.cast::<u8>(), outlen),
        )
    };
    let mut state = state();
    let adapter = state.adapters[adapter];
    state.fabric.command(adapter, input, output);
    for refusal in state.fabric.take_refusals() {
        eprintln!("{refusal}");
    }
    output.first() == Some(&0)
}

functions! {
    fn ibv_get_device_list(count: *mut c_int) -> *mut *mut Device = null; {
        let devices = state().devices;
        let Ok(devices) = usize::try_from(devices) else {
            set_errno(libc::ENOSYS);
            return ptr::null_mut();
        };
        // Devices are their numbers from 1; the last of a list is none of mlx5's.
        let mut list: [*mut Device; 4] = [ptr::null_mut(); 4];
        for (i, device) in list.iter_mut().enumerate().take(devices) {
            *device = ptr::without_provenance_mut(i + 1);
        }
        list[devices] = ptr::without_provenance_mut(3);
        // SAFETY: a place for the count.
        unsafe { *count = devices as c_int + 1 };
        made(list).cast()
    }
    fn ibv_free_device_list(list: *mut *mut Device) = |_| (); {
        // SAFETY: from above.
        unsafe { end(list.cast::<[*mut Device; 4]>()) };
    }
    fn ibv_get_device_name(device: *mut Device) -> *const c_char = |_| ptr::null(); {
        NAMES[device.addr() - 1].as_ptr()
    }
    fn ibv_open_device(device: *mut Device) -> *mut Context = null; {
        assert!(device.addr() < 3, "none of mlx5's");
        made(Open { adapter: device.addr() - 1, domain: None }).cast()
    }
    fn mlx5dv_open_device(device: *mut Device, attr: *mut ContextAttr) -> *mut Context = null; {
        // SAFETY: the caller's.
        if unsafe { (*attr).flags } != sys::CONTEXT_DEVX {
            set_errno(EINVAL);
            return ptr::null_mut();
        }
        made(Open { adapter: device.addr() - 1, domain: None }).cast()
    }
    fn ibv_close_device(context: *mut Context) -> c_int = code; {
        // SAFETY: opened above.
        unsafe { end(context.cast::<Open>()) };
        0
    }
    fn mlx5dv_is_supported(device: *mut Device) -> bool = |_| false; {
        device.addr() < 3
    }
    fn ibv_query_port(context: *mut Context, port: u8, attr: *mut PortAttr) -> c_int = code; {
        let _ = context;
        if port != 1 {
            return EINVAL;
        }
        // SAFETY: the caller's.
        let attr = unsafe { &mut *attr };
        (attr.state, attr.active_mtu, attr.link_layer) = (sys::PORT_ACTIVE, 4, sys::LINK_ETHERNET);
        // More than its firmware takes: that has a word to say as well.
        attr.pkey_tbl_len = 8;
        0
    }
    fn _ibv_query_gid_table(context: *mut Context, entries: *mut GidEntry, max: usize, flags: u32, size: usize) -> isize = |e| -(e as isize); {
        // SAFETY: an open device.
        let adapter = state().adapters[unsafe { open(context) }.adapter];
        let identity = adapter.identity();
        assert!(max >= 4 && flags == 0 && size == size_of::<GidEntry>());
        let all = [
            (0, sys::GID_ROCE_V1, identity.link_local),
            (identity::ROCE_V2[0], sys::GID_ROCE_V2, identity.link_local),
            (2, sys::GID_ROCE_V1, identity.ipv4),
            (identity::ROCE_V2[1], sys::GID_ROCE_V2, identity.ipv4),
        ];
        for (i, (index, kind, gid)) in all.into_iter().enumerate() {
            let (high, low) = gid.split_at(8);
            let half = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("8 bytes"));
            let entry = GidEntry {
                gid: [half(high), half(low)],
                gid_index: index.into(),
                port_num: 1,
                gid_type: kind,
                ndev_ifindex: 0,
            };
            // SAFETY: room for more than this many.
            unsafe { entries.add(i).write(entry) };
        }
        4
    }
    fn ibv_alloc_pd(context: *mut Context) -> *mut Pd = null; {
        // SAFETY: an open device.
        let open = unsafe { open(context) };
        let mut state = state();
        let adapter = state.adapters[open.adapter];
        let domain = state.fabric.add_domain(adapter).expect("the adapter is there");
        drop(state);
        open.domain = Some(domain);
        made(PdState { context, number: domain.number() }).cast()
    }
    fn ibv_dealloc_pd(pd: *mut Pd) -> c_int = code; {
        // SAFETY: from above.
        unsafe { end(pd.cast::<PdState>()) };
        0
    }
    fn ibv_reg_mr_iova2(pd: *mut Pd, addr: *mut c_void, length: usize, iova: u64, access: c_uint) -> *mut Mr = null; {
        assert_eq!(access, 15);
        key(pd, pin(addr, length), length, iova)
    }
    fn ibv_reg_dmabuf_mr(pd: *mut Pd, offset: u64, length: usize, iova: u64, fd: c_int, access: c_int) -> *mut Mr = null; {
        assert_eq!(access, 15);
        let Some(address) = map(fd, offset, length) else {
            set_errno(EINVAL);
            return ptr::null_mut();
        };
        key(pd, pin(address, length), length, iova)
    }
    fn ibv_dereg_mr(mr: *mut Mr) -> c_int = code; {
        // SAFETY: from above; its domain is ended after it.
        let (key, domain) = unsafe { ((*mr).lkey, open((*(*mr).pd.cast::<PdState>()).context).domain) };
        if let Some(domain) = domain {
            let removed = state().fabric.remove_key(domain, key);
            assert_eq!(removed, Ok(()), "a key that is not there was ended");
        }
        // SAFETY: not ended yet.
        unsafe { end(mr) };
        0
    }
    fn ibv_create_ah(pd: *mut Pd, attr: *mut AhAttr) -> *mut Ah = null; {
        let _ = pd;
        // SAFETY: the caller's.
        let attr = unsafe { *attr };
        assert_eq!((attr.is_global, attr.port_num), (1, 1));
        let mut gid = [0; 16];
        gid[..8].copy_from_slice(&attr.dgid[0].to_ne_bytes());
        gid[8..].copy_from_slice(&attr.dgid[1].to_ne_bytes());
        let adapters = state().adapters;
        let of = |a: &shmem_hca::Adapter| if attr.sgid_index == 1 { a.identity().link_local } else { a.identity().ipv4 };
        let Some(found) = adapters.iter().find(|a| of(a) == gid) else {
            set_errno(libc::ENETUNREACH);
            return ptr::null_mut();
        };
        made(Av { rmac: found.identity().mac, ..Av::default() }).cast()
    }
    fn ibv_destroy_ah(ah: *mut Ah) -> c_int = code; {
        // SAFETY: from above.
        unsafe { end(ah.cast::<Av>()) };
        0
    }
    fn mlx5dv_init_obj(object: *mut DvObj, kind: u64) -> c_int = code; {
        // SAFETY: the caller's.
        let object = unsafe { &mut *object };
        // SAFETY: what was given out, and places for the answers.
        unsafe {
            match kind {
                sys::OBJ_PD => (*object.pd_out).pdn = (*object.pd.cast::<PdState>()).number,
                sys::OBJ_AH => (*object.ah_out).av = object.ah.cast(),
                _ => return EINVAL,
            }
        }
        0
    }
    fn mlx5dv_devx_obj_create(context: *mut Context, input: *const c_void, inlen: usize, output: *mut c_void, outlen: usize) -> *mut DevxObj = null; {
        // SAFETY: an open device, and blocks as long as is said.
        let (adapter, head) = unsafe { (open(context).adapter, std::slice::from_raw_parts(input.cast::<u8>(), 2)) };
        // SAFETY: as above.
        if !unsafe { command(adapter, input, inlen, output, outlen) } {
            set_errno(EREMOTEIO);
            return ptr::null_mut();
        }
        // SAFETY: as above.
        let answer = unsafe { std::slice::from_raw_parts(output.cast::<u8>(), outlen) };
        made(ObjectState {
            adapter,
            opcode: u16::from_be_bytes([head[0], head[1]]),
            number: firmware::tables::answer::NUMBER.get(answer) as u32,
        })
        .cast()
    }
    fn mlx5dv_devx_obj_modify(object: *mut DevxObj, input: *const c_void, inlen: usize, output: *mut c_void, outlen: usize) -> c_int = code; {
        // SAFETY: from above, and blocks as long as is said.
        let (object, bytes) = unsafe { (&*object.cast::<ObjectState>(), std::slice::from_raw_parts(input.cast::<u8>(), inlen)) };
        if firmware::tables::answer::NUMBER.get(bytes) as u32 != object.number {
            return EINVAL;
        }
        // SAFETY: as above.
        if unsafe { command(object.adapter, input, inlen, output, outlen) } { 0 } else { EREMOTEIO }
    }
    fn mlx5dv_devx_obj_destroy(object: *mut DevxObj) -> c_int = code; {
        // SAFETY: from above.
        let state = unsafe { &*object.cast::<ObjectState>() };
        let mut bytes = [0u8; 16];
        bytes[..2].copy_from_slice(&(state.opcode + 1).to_be_bytes());
        firmware::tables::answer::NUMBER.set(&mut bytes, state.number.into());
        let mut answer = [0u8; 16];
        // SAFETY: blocks of 16 bytes.
        let done = unsafe { command(state.adapter, bytes.as_ptr().cast(), 16, answer.as_mut_ptr().cast(), 16) };
        assert!(done, "an object in use was ended");
        // SAFETY: not ended yet.
        unsafe { end(object.cast::<ObjectState>()) };
        0
    }
    fn mlx5dv_devx_general_cmd(context: *mut Context, input: *const c_void, inlen: usize, output: *mut c_void, outlen: usize) -> c_int = code; {
        // SAFETY: an open device, and blocks as long as is said.
        if unsafe { command(open(context).adapter, input, inlen, output, outlen) } { 0 } else { EREMOTEIO }
    }
    fn mlx5dv_devx_umem_reg(context: *mut Context, addr: *mut c_void, size: usize, access: u32) -> *mut Umem = null; {
        assert_eq!(access, 1);
        umem(context, pin(addr, size), size)
    }
    fn mlx5dv_devx_umem_reg_ex(context: *mut Context, input: *mut UmemIn) -> *mut Umem = null; {
        // SAFETY: the caller's.
        let input = unsafe { *input };
        assert_eq!((input.comp_mask, input.access, input.pgsz_bitmap), (1, 1, !0xfff));
        let Some(address) = map(input.dmabuf_fd, input.addr.addr() as u64, input.size) else {
            set_errno(EINVAL);
            return ptr::null_mut();
        };
        umem(context, pin(address, input.size), input.size)
    }
    fn mlx5dv_devx_umem_dereg(umem: *mut Umem) -> c_int = code; {
        // SAFETY: from above.
        unsafe { end(umem) };
        0
    }
    fn mlx5dv_devx_alloc_uar(context: *mut Context, flags: u32) -> *mut Uar = null; {
        if flags == sys::UAR_NC_DEDICATED && state().refused.contains_key("old") {
            set_errno(libc::EOPNOTSUPP);
            return ptr::null_mut();
        }
        // Adapters look at it for as long as the process lives.
        let page: *mut c_void = ptr::from_mut(Box::leak(Box::new(Registers([0; 512])))).cast();
        let place = pin(page, 4096);
        // SAFETY: an open device.
        let adapter = unsafe { open(context) }.adapter;
        let mut state = state();
        let adapter = state.adapters[adapter];
        let number = state.fabric.add_page(adapter, Some(place)).expect("a page's alignment").number();
        drop(state);
        made(Uar {
            reg_addr: page.wrapping_byte_add(0x800),
            base_addr: page,
            page_id: number,
            mmap_off: 0,
            comp_mask: 0,
        })
    }
    fn mlx5dv_devx_free_uar(uar: *mut Uar) = |_| (); {
        // SAFETY: from above.
        unsafe { end(uar) };
    }
    fn mlx5dv_devx_query_eqn(context: *mut Context, vector: u32, eqn: *mut u32) -> c_int = code; {
        let _ = context;
        assert_eq!(vector, 0);
        // SAFETY: the caller's.
        unsafe { *eqn = firmware::EVENT_QUEUE.into() };
        0
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn fake_poll() {
    state().fabric.poll();
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_refuse(name: *const c_char, errno: c_int) {
    // SAFETY: the caller's.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    let mut state = state();
    if errno == 0 {
        state.refused.remove(&name);
    } else {
        state.refused.insert(name, errno);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn fake_left() -> i64 {
    state().left
}

#[unsafe(no_mangle)]
pub extern "C" fn fake_faults() -> usize {
    let faults = state().fabric.take_violations();
    for fault in &faults {
        eprintln!("{fault}");
    }
    faults.len()
}

#[unsafe(no_mangle)]
pub extern "C" fn fake_devices(count: c_int) {
    state().devices = count;
}
