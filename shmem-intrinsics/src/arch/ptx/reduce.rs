//! Reductions and matches of lanes: LLVM's convergent intrinsics, as in `converge`.

use core::arch::{asm, global_asm};

macro_rules! intrinsics { ($($name:ident($($x:ident: $t:ty),*) -> $r:ty = $link:literal;)*) => {
    mod raw {
        unsafe extern "unadjusted" {
            $(#[link_name = $link] pub(super) fn $name($($x: $t),*) -> $r;)*
        }
    }
    $(
        #[inline(always)]
        pub(crate) fn $name($($x: $t),*) -> $r {
            // SAFETY: the caller is one of the mask's lanes, and all of them call it.
            unsafe { raw::$name($($x),*) }
        }
    )*
} }
intrinsics! {
    shfl_up(mask: u32, value: u32, by: u32, clamp: u32) -> u32 = "llvm.nvvm.shfl.sync.up.i32";
    shfl_down(mask: u32, value: u32, by: u32, clamp: u32) -> u32 = "llvm.nvvm.shfl.sync.down.i32";
    match_any_32(mask: u32, value: u32) -> u32 = "llvm.nvvm.match.any.sync.i32";
    match_any_64(mask: u32, value: u64) -> u32 = "llvm.nvvm.match.any.sync.i64";
    redux_add(value: u32, mask: u32) -> u32 = "llvm.nvvm.redux.sync.add";
    redux_umin(value: u32, mask: u32) -> u32 = "llvm.nvvm.redux.sync.umin";
    redux_umax(value: u32, mask: u32) -> u32 = "llvm.nvvm.redux.sync.umax";
    redux_min(value: i32, mask: u32) -> i32 = "llvm.nvvm.redux.sync.min";
    redux_max(value: i32, mask: u32) -> i32 = "llvm.nvvm.redux.sync.max";
    redux_and(value: u32, mask: u32) -> u32 = "llvm.nvvm.redux.sync.and";
    redux_or(value: u32, mask: u32) -> u32 = "llvm.nvvm.redux.sync.or";
    redux_xor(value: u32, mask: u32) -> u32 = "llvm.nvvm.redux.sync.xor";
}

#[inline(always)]
pub(crate) fn shuffle_up(mask: u32, value: u32, by: u32) -> u32 {
    shfl_up(mask, value, by, 0)
}

#[inline(always)]
pub(crate) fn shuffle_down(mask: u32, value: u32, by: u32) -> u32 {
    shfl_down(mask, value, by, 31)
}

macro_rules! extremes { ($($name:ident = $instruction:literal, $t:ident, $bits:ident, $class:ident;)*) => { $(
    #[inline(always)]
    pub(crate) fn $name(a: $t, b: $t) -> $t {
        let r: $bits;
        // SAFETY: computes a number.
        unsafe {
            asm!(
                concat!($instruction, " {r}, {a}, {b};"),
                r = out($class) r, a = in($class) a.to_bits(), b = in($class) b.to_bits(),
                options(pure, nomem, nostack),
            );
        }
        $t::from_bits(r)
    }
)* } }
// core's leave open which zero they return.
extremes! {
    min_f32 = "min.f32", f32, u32, reg32;
    max_f32 = "max.f32", f32, u32, reg32;
    min_f64 = "min.f64", f64, u64, reg64;
    max_f64 = "max.f64", f64, u64, reg64;
}

global_asm!(
    ".shared .align 16 .b8 shmem_reduce[{bytes}];",
    bytes = const crate::reduce::SCRATCH_BYTES,
);

#[inline(always)]
pub(crate) fn reduce_scratch() -> u64 {
    let at: u32;
    // SAFETY: takes an address.
    unsafe { asm!("mov.u32 {at}, shmem_reduce;", at = out(reg32) at, options(pure, nomem, nostack)) };
    u64::from(at)
}
