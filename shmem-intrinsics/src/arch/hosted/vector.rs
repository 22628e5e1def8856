//! Conversions of halves, with the bits that the GPU's instructions give.

use crate::{bf16, f16};

/// What a GPU makes of every NaN.
const NAN: u16 = 0x7fff;

pub(crate) fn unpack_f16(word: u32) -> [f32; 2] {
    [word as u16, (word >> 16) as u16].map(|h| {
        let value = f16::from_bits(h).to_f32();
        if value.is_nan() {
            f32::from_bits(0x7fff_ffff)
        } else {
            value
        }
    })
}

pub(crate) fn unpack_bf16(word: u32) -> [f32; 2] {
    [f32::from_bits(word << 16), f32::from_bits(word & 0xffff_0000)]
}

pub(crate) fn pack_f16(parts: [f32; 2]) -> u32 {
    pack(parts.map(|x| if x.is_nan() { NAN } else { f16::from_f32(x).to_bits() }))
}

pub(crate) fn pack_bf16(parts: [f32; 2]) -> u32 {
    pack(parts.map(|x| if x.is_nan() { NAN } else { bf16::from_f32(x).to_bits() }))
}

fn pack([low, high]: [u16; 2]) -> u32 {
    u32::from(low) | u32::from(high) << 16
}
