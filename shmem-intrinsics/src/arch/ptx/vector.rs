//! Conversions of halves: one instruction for two.

use core::arch::asm;

#[inline(always)]
pub(crate) fn unpack_f16(word: u32) -> [f32; 2] {
    let (low, high): (u32, u32);
    // SAFETY: converts numbers.
    unsafe {
        asm!("cvt.f32.f16 {l}, {h};", l = out(reg32) low, h = in(reg16) word as u16, options(pure, nomem, nostack));
        asm!("cvt.f32.f16 {l}, {h};", l = out(reg32) high, h = in(reg16) (word >> 16) as u16, options(pure, nomem, nostack));
    }
    [f32::from_bits(low), f32::from_bits(high)]
}

/// A bf16 is the upper half of its f32.
#[inline(always)]
pub(crate) fn unpack_bf16(word: u32) -> [f32; 2] {
    [f32::from_bits(word << 16), f32::from_bits(word & 0xffff_0000)]
}

macro_rules! packs { ($($name:ident = $instruction:literal;)*) => { $(
    #[inline(always)]
    pub(crate) fn $name([low, high]: [f32; 2]) -> u32 {
        let word: u32;
        // SAFETY: converts numbers. The instruction's first source is the upper half.
        unsafe {
            asm!(
                concat!($instruction, " {w}, {h}, {l};"),
                w = out(reg32) word,
                h = in(reg32) high.to_bits(),
                l = in(reg32) low.to_bits(),
                options(pure, nomem, nostack),
            );
        }
        word
    }
)* } }
packs! { pack_f16 = "cvt.rn.f16x2.f32"; pack_bf16 = "cvt.rn.bf16x2.f32"; }
