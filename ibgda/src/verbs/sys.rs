//! What is used of `infiniband/verbs.h` and `infiniband/mlx5dv.h`, as C has it. `tests/layout.rs` compares it with what
//! a C compiler makes of the headers.

use std::ffi::{c_char, c_int, c_uint, c_void};

macro_rules! opaque { ($($(#[$doc:meta])* $name:ident;)*) => { $(
    $(#[$doc])*
    #[repr(C)]
    #[derive(Debug)]
    pub struct $name {
        opaque: [u8; 0],
    }
)* } }
opaque! {
    /// `struct ibv_device`.
    Device;
    /// `struct ibv_context`.
    Context;
    /// `struct ibv_pd`.
    Pd;
    /// `struct ibv_ah`.
    Ah;
    /// `struct mlx5dv_devx_obj`.
    DevxObj;
}

/// `struct ibv_port_attr`, which is longer in newer versions: with room behind its end.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PortAttr {
    /// [`PORT_ACTIVE`] where it is up.
    pub state: c_int,
    /// Largest packet that the port could take.
    pub max_mtu: c_int,
    /// Largest packet that it takes now: 1 (256 bytes) to 5 (4096).
    pub active_mtu: c_int,
    /// Entries of its GID table.
    pub gid_tbl_len: c_int,
    /// Unused here.
    pub port_cap_flags: u32,
    /// Unused here.
    pub max_msg_sz: u32,
    /// Unused here.
    pub bad_pkey_cntr: u32,
    /// Unused here.
    pub qkey_viol_cntr: u32,
    /// Entries of its table of partition keys.
    pub pkey_tbl_len: u16,
    /// Local identifier.
    pub lid: u16,
    /// Unused here.
    pub sm_lid: u16,
    /// Unused here.
    pub lmc: u8,
    /// Unused here.
    pub max_vl_num: u8,
    /// Unused here.
    pub sm_sl: u8,
    /// Unused here.
    pub subnet_timeout: u8,
    /// Unused here.
    pub init_type_reply: u8,
    /// Unused here.
    pub active_width: u8,
    /// Unused here.
    pub active_speed: u8,
    /// Unused here.
    pub phys_state: u8,
    /// [`LINK_INFINIBAND`] or [`LINK_ETHERNET`].
    pub link_layer: u8,
    /// Unused here.
    pub flags: u8,
    /// Unused here.
    pub port_cap_flags2: u16,
    /// For newer versions.
    pub room: [u32; 8],
}

/// `struct ibv_gid_entry`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct GidEntry {
    /// As `union ibv_gid`, which is aligned to 8.
    pub gid: [u64; 2],
    /// Index in its table.
    pub gid_index: u32,
    /// Whose table.
    pub port_num: u32,
    /// [`GID_IB`], [`GID_ROCE_V1`] or [`GID_ROCE_V2`].
    pub gid_type: u32,
    /// Unused here.
    pub ndev_ifindex: u32,
}

/// `struct ibv_mr`.
#[repr(C)]
#[derive(Debug)]
pub struct Mr {
    /// Whose.
    pub context: *mut Context,
    /// Whose.
    pub pd: *mut Pd,
    /// Where.
    pub addr: *mut c_void,
    /// How much.
    pub length: usize,
    /// Unused here.
    pub handle: u32,
    /// Key for local use.
    pub lkey: u32,
    /// Key for remote use.
    pub rkey: u32,
}

/// `struct ibv_ah_attr`, with its `struct ibv_global_route` first.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct AhAttr {
    /// The target's GID.
    pub dgid: [u64; 2],
    /// Unused here.
    pub flow_label: u32,
    /// Own entry of the GID table.
    pub sgid_index: u8,
    /// Hops.
    pub hop_limit: u8,
    /// Unused here.
    pub traffic_class: u8,
    /// End of `struct ibv_global_route`.
    pub padding: u8,
    /// Unused here.
    pub dlid: u16,
    /// Unused here.
    pub sl: u8,
    /// Unused here.
    pub src_path_bits: u8,
    /// Unused here.
    pub static_rate: u8,
    /// 1: the route counts.
    pub is_global: u8,
    /// Own port.
    pub port_num: u8,
}

/// `struct mlx5dv_context_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ContextAttr {
    /// [`CONTEXT_DEVX`].
    pub flags: u32,
    /// 0.
    pub comp_mask: u64,
}

/// `struct mlx5dv_pd`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DvPd {
    /// Its number in commands.
    pub pdn: u32,
    /// 0.
    pub comp_mask: u64,
}

/// `struct mlx5_wqe_av`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Av {
    /// Unused here.
    pub key: u64,
    /// Unused here.
    pub dqp_dct: u32,
    /// Unused here.
    pub stat_rate_sl: u8,
    /// Unused here.
    pub fl_mlid: u8,
    /// Unused here.
    pub rlid: u16,
    /// Unused here.
    pub reserved: [u8; 4],
    /// The MAC address.
    pub rmac: [u8; 6],
    /// Unused here.
    pub tclass: u8,
    /// Unused here.
    pub hop_limit: u8,
    /// Unused here.
    pub grh_gid_fl: u32,
    /// Unused here.
    pub rgid: [u8; 16],
}

/// `struct mlx5dv_ah`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DvAh {
    /// What entries would hold.
    pub av: *mut Av,
    /// 0.
    pub comp_mask: u64,
}

/// `struct mlx5dv_obj`: pairs of pointers in and out.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DvObj {
    /// Queue pair, completion queue, shared receive queue, work queue, device memory: unused here.
    pub others: [*mut c_void; 10],
    /// Address handle in.
    pub ah: *mut Ah,
    /// Address handle out.
    pub ah_out: *mut DvAh,
    /// Protection domain in.
    pub pd: *mut Pd,
    /// Protection domain out.
    pub pd_out: *mut DvPd,
}

/// `struct mlx5dv_devx_umem`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Umem {
    /// Its number in commands.
    pub umem_id: u32,
}

/// `struct mlx5dv_devx_umem_in`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UmemIn {
    /// Address; offset in the dma-buf.
    pub addr: *mut c_void,
    /// Bytes.
    pub size: usize,
    /// [`ACCESS_LOCAL_WRITE`].
    pub access: u32,
    /// Sizes of pages that are possible, or-ed.
    pub pgsz_bitmap: u64,
    /// [`UMEM_DMABUF`].
    pub comp_mask: u64,
    /// The dma-buf.
    pub dmabuf_fd: c_int,
}

/// `struct mlx5dv_devx_uar`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Uar {
    /// Its register.
    pub reg_addr: *mut c_void,
    /// Its page.
    pub base_addr: *mut c_void,
    /// Its number in commands.
    pub page_id: u32,
    /// Unused here.
    pub mmap_off: i64,
    /// 0.
    pub comp_mask: u64,
}

/// `IBV_PORT_ACTIVE`.
pub const PORT_ACTIVE: c_int = 4;
/// `IBV_LINK_LAYER_INFINIBAND`.
pub const LINK_INFINIBAND: u8 = 1;
/// `IBV_LINK_LAYER_ETHERNET`.
pub const LINK_ETHERNET: u8 = 2;
/// `IBV_GID_TYPE_IB`.
pub const GID_IB: u32 = 0;
/// `IBV_GID_TYPE_ROCE_V1`.
pub const GID_ROCE_V1: u32 = 1;
/// `IBV_GID_TYPE_ROCE_V2`.
pub const GID_ROCE_V2: u32 = 2;
/// `IBV_ACCESS_LOCAL_WRITE`.
pub const ACCESS_LOCAL_WRITE: c_uint = 1;
/// `IBV_ACCESS_REMOTE_WRITE`.
pub const ACCESS_REMOTE_WRITE: c_uint = 2;
/// `IBV_ACCESS_REMOTE_READ`.
pub const ACCESS_REMOTE_READ: c_uint = 4;
/// `IBV_ACCESS_REMOTE_ATOMIC`.
pub const ACCESS_REMOTE_ATOMIC: c_uint = 8;
/// `MLX5DV_CONTEXT_FLAGS_DEVX`.
pub const CONTEXT_DEVX: u32 = 1;
/// `MLX5DV_OBJ_AH`.
pub const OBJ_AH: u64 = 1 << 5;
/// `MLX5DV_OBJ_PD`.
pub const OBJ_PD: u64 = 1 << 6;
/// `MLX5DV_UMEM_MASK_DMABUF`.
pub const UMEM_DMABUF: u64 = 1;
/// `MLX5DV_UAR_ALLOC_TYPE_NC`: the one page of the context whose stores are not combined.
pub const UAR_NC: u32 = 1;
/// `MLX5DV_UAR_ALLOC_TYPE_NC_DEDICATED`: a page of one's own of that kind, in newer versions.
pub const UAR_NC_DEDICATED: u32 = 1 << 31;

/// A function of one of the libraries, by its C type.
macro_rules! functions { ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => { $(
    $(#[$doc])*
    #[allow(non_camel_case_types, reason = "as C calls it")]
    pub type $name = unsafe extern "C" fn($($argument: $type),*) $(-> $result)?;
)* } }
functions! {
    /// Lists devices.
    ibv_get_device_list(count: *mut c_int) -> *mut *mut Device;
    /// Frees such a list.
    ibv_free_device_list(list: *mut *mut Device);
    /// A device's name.
    ibv_get_device_name(device: *mut Device) -> *const c_char;
    /// Opens a device to look at it.
    ibv_open_device(device: *mut Device) -> *mut Context;
    /// Closes one.
    ibv_close_device(context: *mut Context) -> c_int;
    /// Asks for a port.
    ibv_query_port(context: *mut Context, port: u8, attr: *mut PortAttr) -> c_int;
    /// Asks for GIDs.
    _ibv_query_gid_table(context: *mut Context, entries: *mut GidEntry, max: usize, flags: u32, size: usize) -> isize;
    /// Makes a protection domain.
    ibv_alloc_pd(context: *mut Context) -> *mut Pd;
    /// Ends one.
    ibv_dealloc_pd(pd: *mut Pd) -> c_int;
    /// Registers memory by its address.
    ibv_reg_mr_iova2(pd: *mut Pd, addr: *mut c_void, length: usize, iova: u64, access: c_uint) -> *mut Mr;
    /// Registers memory by its dma-buf.
    ibv_reg_dmabuf_mr(pd: *mut Pd, offset: u64, length: usize, iova: u64, fd: c_int, access: c_int) -> *mut Mr;
    /// Ends a registration.
    ibv_dereg_mr(mr: *mut Mr) -> c_int;
    /// Resolves an address.
    ibv_create_ah(pd: *mut Pd, attr: *mut AhAttr) -> *mut Ah;
    /// Ends that.
    ibv_destroy_ah(ah: *mut Ah) -> c_int;
    /// Whether a device is an mlx5 one.
    mlx5dv_is_supported(device: *mut Device) -> bool;
    /// Opens a device for commands.
    mlx5dv_open_device(device: *mut Device, attr: *mut ContextAttr) -> *mut Context;
    /// Tells what an object is to the adapter.
    mlx5dv_init_obj(object: *mut DvObj, kind: u64) -> c_int;
    /// A command that makes an object.
    mlx5dv_devx_obj_create(context: *mut Context, input: *const c_void, inlen: usize, output: *mut c_void, outlen: usize) -> *mut DevxObj;
    /// A command that changes one.
    mlx5dv_devx_obj_modify(object: *mut DevxObj, input: *const c_void, inlen: usize, output: *mut c_void, outlen: usize) -> c_int;
    /// Ends an object.
    mlx5dv_devx_obj_destroy(object: *mut DevxObj) -> c_int;
    /// A command that asks.
    mlx5dv_devx_general_cmd(context: *mut Context, input: *const c_void, inlen: usize, output: *mut c_void, outlen: usize) -> c_int;
    /// Registers memory for commands, by its address.
    mlx5dv_devx_umem_reg(context: *mut Context, addr: *mut c_void, size: usize, access: u32) -> *mut Umem;
    /// The same by its dma-buf.
    mlx5dv_devx_umem_reg_ex(context: *mut Context, input: *mut UmemIn) -> *mut Umem;
    /// Ends that.
    mlx5dv_devx_umem_dereg(umem: *mut Umem) -> c_int;
    /// Makes a page of registers.
    mlx5dv_devx_alloc_uar(context: *mut Context, flags: u32) -> *mut Uar;
    /// Ends one.
    mlx5dv_devx_free_uar(uar: *mut Uar);
    /// The event queue of a vector.
    mlx5dv_devx_query_eqn(context: *mut Context, vector: u32, eqn: *mut u32) -> c_int;
}
