//! Conversions to 8 bits, with the bits that the GPU's instruction gives.

use crate::fp8::encode;

pub(crate) fn pack_e4m3([low, high]: [f32; 2]) -> u16 {
    u16::from(encode(low)) | u16::from(encode(high)) << 8
}
