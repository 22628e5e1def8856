//! An adapter that was opened for commands.

use super::library::Functions;
use super::sys;
use crate::calls::{Device, Object, RegisterPage};
use crate::error::IbgdaError;
use crate::memory::Memory;
use shmem_mlx5::cmd::Status;
use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::Arc;

/// What was made, in order; ended in the opposite one.
enum Made {
    Domain(*mut sys::Pd),
    Page(*mut sys::Uar),
    Umem(*mut sys::Umem),
    Key(*mut sys::Mr),
    Object(*mut sys::DevxObj),
}

pub(super) struct Opened {
    functions: Arc<Functions>,
    name: String,
    context: *mut sys::Context,
    domain: Option<(*mut sys::Pd, u32)>,
    made: Vec<Made>,
}

// SAFETY: libibverbs lets every thread use what any thread made, and this value uses it from one at a time.
unsafe impl Send for Opened {}

const DEVX: &str = "DevX needs Linux 5.0 or newer with mlx5_ib, firmware that has it (`mlxconfig -d .. query | grep UCTX_EN`), and read and write permission on /dev/infiniband/uverbs*";
const PINNED: &str = "device memory needs Linux 6.0 or newer with dma-buf, or the module nvidia-peermem (`modprobe nvidia-peermem`); host memory needs `ulimit -l unlimited`";
const PAGES: &str = "fewer processes at this adapter, or more registers (`mlxconfig`: LOG_MAX_UAR, NUM_OF_VFS)";

impl Opened {
    pub(super) fn open(functions: &Arc<Functions>, device: *mut sys::Device, name: String) -> Result<Self, IbgdaError> {
        let mut attr = sys::ContextAttr {
            flags: sys::CONTEXT_DEVX,
            comp_mask: 0,
        };
        // SAFETY: the device is one of a list that is not freed yet.
        let context = unsafe { (functions.mlx5dv_open_device)(device, &raw mut attr) };
        if context.is_null() {
            return Err(IbgdaError::Call {
                adapter: name,
                call: "mlx5dv_open_device",
                cause: io::Error::last_os_error(),
                advice: DEVX,
            });
        }
        Ok(Self {
            functions: functions.clone(),
            name,
            context,
            domain: None,
            made: Vec::new(),
        })
    }

    fn failed(&self, call: &'static str, cause: io::Error, advice: &'static str) -> IbgdaError {
        IbgdaError::Call {
            adapter: self.name.clone(),
            call,
            cause,
            advice,
        }
    }

    /// Why a command failed: the firmware's words where it has any.
    fn command_failed(&self, call: &'static str, cause: io::Error, input: &[u8], output: &[u8]) -> IbgdaError {
        match crate::calls::check(&self.name, input, output) {
            Err(refused) => refused,
            Ok(()) => self.failed(call, cause, DEVX),
        }
    }

    fn pd(&mut self) -> Result<(*mut sys::Pd, u32), IbgdaError> {
        if let Some(domain) = self.domain {
            return Ok(domain);
        }
        // SAFETY: an open device.
        let pd = unsafe { (self.functions.ibv_alloc_pd)(self.context) };
        if pd.is_null() {
            return Err(self.failed("ibv_alloc_pd", io::Error::last_os_error(), "too many are in use"));
        }
        self.made.push(Made::Domain(pd));
        let mut out = sys::DvPd::default();
        let mut object = self.object();
        (object.pd, object.pd_out) = (pd, &raw mut out);
        // SAFETY: the domain from above, and a place for the answer.
        let status = unsafe { (self.functions.mlx5dv_init_obj)(&raw mut object, sys::OBJ_PD) };
        if status != 0 {
            return Err(self.failed("mlx5dv_init_obj", io::Error::from_raw_os_error(status.abs()), DEVX));
        }
        Ok(*self.domain.insert((pd, out.pdn)))
    }

    #[expect(clippy::unused_self, reason = "an object of this adapter's")]
    fn object(&self) -> sys::DvObj {
        sys::DvObj {
            others: [ptr::null_mut(); 10],
            ah: ptr::null_mut(),
            ah_out: ptr::null_mut(),
            pd: ptr::null_mut(),
            pd_out: ptr::null_mut(),
        }
    }

    /// By its dma-buf, else by its address.
    fn register<T>(
        &self,
        memory: &Memory,
        bytes: u64,
        by_dma_buf: impl FnOnce(c_int, u64) -> Option<*mut T>,
        by_address: impl FnOnce(*mut c_void) -> *mut T,
    ) -> Result<*mut T, IbgdaError> {
        let mut first = None;
        if let Some(dma_buf) = &memory.dma_buf {
            match by_dma_buf(dma_buf.fd.as_raw_fd(), dma_buf.offset) {
                Some(made) if !made.is_null() => return Ok(made),
                Some(_) => first = Some(io::Error::last_os_error().to_string()),
                None => first = Some("this rdma-core does not know it".into()),
            }
        }
        let made = by_address(ptr::with_exposed_provenance_mut(memory.address as usize));
        if !made.is_null() {
            return Ok(made);
        }
        let last = io::Error::last_os_error();
        Err(IbgdaError::Register {
            adapter: self.name.clone(),
            address: memory.address,
            bytes,
            cause: match first {
                None => last,
                Some(first) => io::Error::new(last.kind(), format!("by dma-buf: {first}; by address: {last}")),
            },
            advice: PINNED,
        })
    }
}

impl Device for Opened {
    fn domain(&mut self) -> Result<u32, IbgdaError> {
        Ok(self.pd()?.1)
    }

    fn event_queue(&mut self) -> Result<u8, IbgdaError> {
        let mut number = 0;
        // SAFETY: an open device, and a place for the answer.
        let status = unsafe { (self.functions.mlx5dv_devx_query_eqn)(self.context, 0, &raw mut number) };
        match u8::try_from(number) {
            Ok(number) if status == 0 => Ok(number),
            _ => Err(self.failed(
                "mlx5dv_devx_query_eqn",
                io::Error::from_raw_os_error(status.abs()),
                DEVX,
            )),
        }
    }

    fn page(&mut self) -> Result<RegisterPage, IbgdaError> {
        let allocate = |flags| {
            // SAFETY: an open device.
            unsafe { (self.functions.mlx5dv_devx_alloc_uar)(self.context, flags) }
        };
        // A page of its own where this version has them, else the context's.
        let mut uar = allocate(sys::UAR_NC_DEDICATED);
        if uar.is_null() {
            uar = allocate(sys::UAR_NC);
        }
        if uar.is_null() {
            return Err(self.failed("mlx5dv_devx_alloc_uar", io::Error::last_os_error(), PAGES));
        }
        self.made.push(Made::Page(uar));
        // SAFETY: not null, and not freed before the device is closed.
        let uar = unsafe { *uar };
        Ok(RegisterPage {
            number: uar.page_id,
            address: uar.base_addr.expose_provenance() as u64,
            register: uar.reg_addr.expose_provenance() as u64,
        })
    }

    fn umem(&mut self, memory: &Memory, bytes: u64) -> Result<u32, IbgdaError> {
        let (functions, context) = (&self.functions, self.context);
        let umem = self.register(
            memory,
            bytes,
            |fd, offset| {
                let mut input = sys::UmemIn {
                    addr: ptr::without_provenance_mut(offset as usize),
                    size: bytes as usize,
                    access: sys::ACCESS_LOCAL_WRITE,
                    // All of an adapter's page or more, as libmlx5 itself says.
                    pgsz_bitmap: !0xfff,
                    comp_mask: sys::UMEM_DMABUF,
                    dmabuf_fd: fd,
                };
                // SAFETY: an open device; the kernel checks the dma-buf and the range.
                functions
                    .mlx5dv_devx_umem_reg_ex
                    .map(|register| unsafe { register(context, &raw mut input) })
            },
            // SAFETY: an open device; the kernel checks the range.
            |address| unsafe {
                (functions.mlx5dv_devx_umem_reg)(context, address, bytes as usize, sys::ACCESS_LOCAL_WRITE)
            },
        )?;
        self.made.push(Made::Umem(umem));
        // SAFETY: not null, and there until the device is closed.
        Ok(unsafe { (*umem).umem_id })
    }

    fn key(&mut self, start: u64, memory: &Memory, bytes: u64) -> Result<u32, IbgdaError> {
        let (pd, _) = self.pd()?;
        let functions = &self.functions;
        let access =
            sys::ACCESS_LOCAL_WRITE | sys::ACCESS_REMOTE_WRITE | sys::ACCESS_REMOTE_READ | sys::ACCESS_REMOTE_ATOMIC;
        let mr = self.register(
            memory,
            bytes,
            |fd, offset| {
                functions.ibv_reg_dmabuf_mr.map(|register| {
                    // SAFETY: a domain of this device; the kernel checks the dma-buf and the range.
                    unsafe { register(pd, offset, bytes as usize, start, fd, access as c_int) }
                })
            },
            // SAFETY: as above.
            |address| unsafe { (functions.ibv_reg_mr_iova2)(pd, address, bytes as usize, start, access) },
        )?;
        self.made.push(Made::Key(mr));
        // SAFETY: not null, and there until the device is closed.
        let (local, remote) = unsafe { ((*mr).lkey, (*mr).rkey) };
        if local != remote {
            return Err(IbgdaError::Capability {
                adapter: self.name.clone(),
                what: "key for remote use",
                seen: remote.into(),
                expected: "the one for local use",
                advice: "no mlx5 driver is known that does this: report it",
            });
        }
        Ok(local)
    }

    fn create(&mut self, input: &[u8], output: &mut [u8]) -> Result<Object, IbgdaError> {
        let (from, to) = (input.as_ptr().cast(), output.as_mut_ptr().cast());
        // SAFETY: an open device, and both blocks as long as is said.
        let object =
            unsafe { (self.functions.mlx5dv_devx_obj_create)(self.context, from, input.len(), to, output.len()) };
        if object.is_null() {
            let cause = io::Error::last_os_error();
            return Err(self.command_failed("mlx5dv_devx_obj_create", cause, input, output));
        }
        self.made.push(Made::Object(object));
        Ok(Object(self.made.len() - 1))
    }

    fn modify(&mut self, object: Object, input: &[u8], output: &mut [u8]) -> Result<(), IbgdaError> {
        let Some(&Made::Object(object)) = self.made.get(object.0) else {
            let cause = io::Error::from(io::ErrorKind::NotFound);
            return Err(self.failed("mlx5dv_devx_obj_modify", cause, "an object of another device was named"));
        };
        let (from, to) = (input.as_ptr().cast(), output.as_mut_ptr().cast());
        // SAFETY: an object of this device, and both blocks as long as is said.
        let status = unsafe { (self.functions.mlx5dv_devx_obj_modify)(object, from, input.len(), to, output.len()) };
        self.done("mlx5dv_devx_obj_modify", status, input, output)
    }

    fn query(&mut self, input: &[u8], output: &mut [u8]) -> Result<(), IbgdaError> {
        let (from, to) = (input.as_ptr().cast(), output.as_mut_ptr().cast());
        // SAFETY: an open device, and both blocks as long as is said.
        let status =
            unsafe { (self.functions.mlx5dv_devx_general_cmd)(self.context, from, input.len(), to, output.len()) };
        self.done("mlx5dv_devx_general_cmd", status, input, output)
    }

    fn neighbour(&mut self, port: u8, gid_index: u8, gid: [u8; 16]) -> Result<[u8; 6], IbgdaError> {
        let (pd, _) = self.pd()?;
        let half = |at| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&gid[at..at + 8]);
            u64::from_ne_bytes(bytes)
        };
        let mut attr = sys::AhAttr {
            dgid: [half(0), half(8)],
            sgid_index: gid_index,
            hop_limit: 64,
            is_global: 1,
            port_num: port,
            ..sys::AhAttr::default()
        };
        // SAFETY: a domain of this device, and its attributes.
        let ah = unsafe { (self.functions.ibv_create_ah)(pd, &raw mut attr) };
        if ah.is_null() {
            let advice = "the peer's address is not reached from this port: `ip neigh`, `ping` over its interface; SHMEM_GID_INDEX chooses another address";
            return Err(self.failed("ibv_create_ah", io::Error::last_os_error(), advice));
        }
        let mut out = sys::DvAh {
            av: ptr::null_mut(),
            comp_mask: 0,
        };
        let mut object = self.object();
        (object.ah, object.ah_out) = (ah, &raw mut out);
        // SAFETY: the handle from above, and a place for the answer.
        let status = unsafe { (self.functions.mlx5dv_init_obj)(&raw mut object, sys::OBJ_AH) };
        // SAFETY: null, or part of the handle, which is not ended yet.
        let mac = unsafe { out.av.as_ref() }.map(|av| av.rmac);
        // SAFETY: made above, and not used any more.
        unsafe { (self.functions.ibv_destroy_ah)(ah) };
        match mac {
            Some(mac) if status == 0 => Ok(mac),
            _ => Err(self.failed("mlx5dv_init_obj", io::Error::from_raw_os_error(status.abs()), DEVX)),
        }
    }
}

impl Opened {
    fn done(&self, call: &'static str, status: c_int, input: &[u8], output: &[u8]) -> Result<(), IbgdaError> {
        if status == 0 && Status::of(output) == Status::Ok {
            return Ok(());
        }
        Err(self.command_failed(call, io::Error::from_raw_os_error(status.abs()), input, output))
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let functions = &self.functions;
        while let Some(made) = self.made.pop() {
            // SAFETY: each was made by this device and is ended once, after all that was made of it. What can't be ended, the
            // kernel ends with the device.
            unsafe {
                match made {
                    Made::Domain(pd) => {
                        (functions.ibv_dealloc_pd)(pd);
                    }
                    Made::Page(uar) => (functions.mlx5dv_devx_free_uar)(uar),
                    Made::Umem(umem) => {
                        (functions.mlx5dv_devx_umem_dereg)(umem);
                    }
                    Made::Key(mr) => {
                        (functions.ibv_dereg_mr)(mr);
                    }
                    Made::Object(object) => {
                        (functions.mlx5dv_devx_obj_destroy)(object);
                    }
                }
            }
        }
        // SAFETY: opened by `open`, and nothing of it is left.
        unsafe { (functions.ibv_close_device)(self.context) };
    }
}
