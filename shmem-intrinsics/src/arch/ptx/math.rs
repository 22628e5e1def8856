//! Float functions that are one instruction. The exact ones are LLVM's, which may fold them; approximations are `asm!`.

use core::arch::asm;
use core::f32::consts::{LN_2, LOG2_E};

unsafe extern "unadjusted" {
    #[link_name = "llvm.sqrt.f32"]
    pub(crate) safe fn sqrt_f32(x: f32) -> f32;
    #[link_name = "llvm.sqrt.f64"]
    pub(crate) safe fn sqrt_f64(x: f64) -> f64;
    #[link_name = "llvm.floor.f32"]
    pub(crate) safe fn floor_f32(x: f32) -> f32;
    #[link_name = "llvm.floor.f64"]
    pub(crate) safe fn floor_f64(x: f64) -> f64;
    #[link_name = "llvm.ceil.f32"]
    pub(crate) safe fn ceil_f32(x: f32) -> f32;
    #[link_name = "llvm.ceil.f64"]
    pub(crate) safe fn ceil_f64(x: f64) -> f64;
    #[link_name = "llvm.trunc.f32"]
    pub(crate) safe fn trunc_f32(x: f32) -> f32;
    #[link_name = "llvm.trunc.f64"]
    pub(crate) safe fn trunc_f64(x: f64) -> f64;
    #[link_name = "llvm.rint.f32"]
    pub(crate) safe fn round_f32(x: f32) -> f32;
    #[link_name = "llvm.rint.f64"]
    pub(crate) safe fn round_f64(x: f64) -> f64;
    #[link_name = "llvm.fma.f32"]
    pub(crate) safe fn fma_f32(x: f32, y: f32, z: f32) -> f32;
    #[link_name = "llvm.fma.f64"]
    pub(crate) safe fn fma_f64(x: f64, y: f64, z: f64) -> f64;
}

macro_rules! approximations { ($($name:ident = $instruction:literal;)*) => { $(
    #[inline(always)]
    pub(crate) fn $name(x: f32) -> f32 {
        let y: u32;
        // SAFETY: computes a number.
        unsafe {
            asm!(
                concat!($instruction, " {y}, {x};"),
                y = out(reg32) y,
                x = in(reg32) x.to_bits(),
                options(pure, nomem, nostack),
            );
        }
        f32::from_bits(y)
    }
)* } }
approximations! {
    exp2_f32 = "ex2.approx.f32";
    fast_recip = "rcp.approx.ftz.f32";
    fast_sqrt = "sqrt.approx.ftz.f32";
    fast_rsqrt = "rsqrt.approx.ftz.f32";
    fast_exp2 = "ex2.approx.ftz.f32";
    fast_log2 = "lg2.approx.ftz.f32";
    fast_sin = "sin.approx.ftz.f32";
    fast_cos = "cos.approx.ftz.f32";
    fast_tanh = "tanh.approx.f32";
}

#[inline(always)]
pub(crate) fn fast_exp(x: f32) -> f32 {
    fast_exp2(x * LOG2_E)
}

#[inline(always)]
pub(crate) fn fast_ln(x: f32) -> f32 {
    fast_log2(x) * LN_2
}
