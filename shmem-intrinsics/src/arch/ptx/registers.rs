//! Special registers and the PE's state in constant memory.

use crate::state::{DeviceState, LAYOUT};
use core::arch::{asm, global_asm};
use core::mem::offset_of;

unsafe extern "unadjusted" {
    #[link_name = "llvm.nvvm.read.ptx.sreg.tid.x"]
    safe fn tid_x() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.tid.y"]
    safe fn tid_y() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.tid.z"]
    safe fn tid_z() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ntid.x"]
    safe fn ntid_x() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ntid.y"]
    safe fn ntid_y() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ntid.z"]
    safe fn ntid_z() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ctaid.x"]
    safe fn ctaid_x() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ctaid.y"]
    safe fn ctaid_y() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ctaid.z"]
    safe fn ctaid_z() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.nctaid.x"]
    safe fn nctaid_x() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.nctaid.y"]
    safe fn nctaid_y() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.nctaid.z"]
    safe fn nctaid_z() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.laneid"]
    safe fn laneid() -> u32;
}

macro_rules! triples { ($($name:ident = $x:ident $y:ident $z:ident;)*) => { $(
    #[inline(always)]
    pub(crate) fn $name() -> [u32; 3] { [$x(), $y(), $z()] }
)* } }
triples! {
    thread_idx = tid_x tid_y tid_z;
    block_dim = ntid_x ntid_y ntid_z;
    block_idx = ctaid_x ctaid_y ctaid_z;
    grid_dim = nctaid_x nctaid_y nctaid_z;
}

#[inline(always)]
pub(crate) fn lane_id() -> u32 {
    laneid()
}

/// The lane, for a tile of N lanes. The comment stays in the PTX of the kernel: the launch reads there that the block's
/// size must be a multiple of N.
#[inline(always)]
pub(crate) fn tile_lane_id<const N: u32>() -> u32 {
    let lane: u32;
    // SAFETY: reads a register.
    unsafe {
        asm!("mov.u32 {lane}, %laneid; // shmem-tile {n}", lane = out(reg32) lane, n = const N, options(pure, nomem, nostack));
    };
    lane
}

global_asm!(
    ".visible .const .align 8 .b8 SHMEM_STATE[{bytes}];",
    ".visible .global .align 8 .u64 SHMEM_LAYOUT = {layout};",
    bytes = const size_of::<DeviceState>(),
    layout = const LAYOUT,
);

// How the host knows such a text.
#[cfg(shmem_network)]
global_asm!(".visible .global .align 4 .u32 SHMEM_NETWORK = 1;");

macro_rules! state_fields { ($($name:ident: $t:ident $class:ident;)*) => { $(
    #[inline(always)]
    pub(crate) fn $name() -> $t {
        let value: $t;
        // SAFETY: the host wrote the state before the launch, and nothing changes it while kernels run.
        unsafe {
            asm!(
                concat!("ld.const.", stringify!($t), " {v}, [SHMEM_STATE+{o}];"),
                v = out($class) value,
                o = const offset_of!(DeviceState, $name),
                options(pure, nomem, nostack),
            );
        }
        value
    }
)* } }
state_fields! {
    my_pe: u32 reg32;
    n_pes: u32 reg32;
    heap_base: u64 reg64;
    fault: u64 reg64;
    time_limit_ns: u64 reg64;
    world_sync: u64 reg64;
    node_sync: u64 reg64;
    node_start: u32 reg32;
    node_size: u32 reg32;
    places: u64 reg64;
    network: u64 reg64;
}

/// Where PE `pe`'s heap begins, for this PE's loads and stores. `pe` is in the world.
#[inline(always)]
pub(crate) fn peer_base(pe: u32) -> u64 {
    let base: u64;
    // SAFETY: the table has MAX_PES entries, and worlds have no more PEs.
    unsafe {
        asm!(
            "{{ .reg .b64 %table, %entry;",
            "mov.u64 %table, SHMEM_STATE;",
            "mad.wide.u32 %entry, {pe}, 8, %table;",
            "ld.const.u64 {base}, [%entry+{o}]; }}",
            base = out(reg64) base,
            pe = in(reg32) pe,
            o = const offset_of!(DeviceState, peer_base),
            options(pure, nomem, nostack),
        );
    }
    base
}

/// Nanoseconds since some start that the whole machine shares; ticks coarsely.
#[inline(always)]
pub(crate) fn globaltimer() -> u64 {
    let ns: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mov.u64 {ns}, %globaltimer;", ns = out(reg64) ns, options(nomem, nostack)) };
    ns
}

macro_rules! shared_addresses { ($($name:ident = $symbol:literal;)*) => { $(
    #[inline(always)]
    pub(crate) fn $name() -> u64 {
        let at: u32;
        // SAFETY: takes an address.
        unsafe { asm!(concat!("mov.u32 {at}, ", $symbol, ";"), at = out(reg32) at, options(pure, nomem, nostack)) };
        u64::from(at)
    }
)* } }
global_asm!(
    ".shared .align 16 .b8 shmem_scratch[16];",
    ".extern .shared .align 16 .b8 shmem_dynamic[];"
);
shared_addresses! { scratch = "shmem_scratch"; dynamic_start = "shmem_dynamic"; }

#[inline(always)]
pub(crate) fn dynamic_shared() -> (u64, u64) {
    let bytes: u32;
    // SAFETY: reads a register.
    unsafe { asm!("mov.u32 {b}, %dynamic_smem_size;", b = out(reg32) bytes, options(pure, nomem, nostack)) };
    (dynamic_start(), u64::from(bytes))
}
