//! Conversions to 8 bits: one instruction for two, from sm_90 on.

use crate::fp8::encode;
use core::arch::asm;

/// The first number is the lower half.
#[inline(always)]
pub(crate) fn pack_e4m3([low, high]: [f32; 2]) -> u16 {
    let has: u32;
    // SAFETY: sets a register. ptxas drops what the image doesn't use.
    unsafe {
        asm!("mov.u32 {h}, 1; // shmem-before-90 mov.u32 {h}, 0;", h = out(reg32) has, options(pure, nomem, nostack));
    }
    if has == 0 {
        return u16::from(encode(low)) | u16::from(encode(high)) << 8;
    }
    let codes: u16;
    // SAFETY: converts numbers. The instruction's first source is the upper half.
    unsafe {
        asm!(
            "cvt.rn.satfinite.e4m3x2.f32 {c}, {h}, {l}; // shmem-before-90 mov.u16 {c}, 0;",
            c = out(reg16) codes,
            h = in(reg32) high.to_bits(),
            l = in(reg32) low.to_bits(),
            options(pure, nomem, nostack),
        );
    }
    codes
}
