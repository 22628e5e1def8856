//! Numbers of 8 bits: `e4m3`, a sign, 4 bits of exponent and 3 of mantissa, up to 448 and down to 2^-9, without infinities.
//!
//! | type | bytes | `.f32()`, `from_f32` | CUDA |
//! |---|---|---|---|
//! | [`E4m3x4`], [`E4m3x8`] | 4, 8 | `cvt.rn.satfinite.e4m3x2.f32` | `__nv_fp8x4_e4m3` |
//!
//! What is beyond the range becomes its end, so that numbers are scaled first: by [`MAX`] over the largest of some hundred.
//! Before sm_90 the conversion is some ten instructions for each number.
//!
//! ```
//! use shmem::fp8::{E4m3x4, MAX};
//! let x = [0.01f32, -3.0, 0.5, 70.0];
//! let scale = 70.0 / MAX;
//! let back = E4m3x4::from_f32(x.map(|x| x / scale)).f32().map(|x| x * scale);
//! assert_eq!(back[3], 70.0);
//! assert!((back[1] + 3.0).abs() < 3.0 / 16.0);
//! ```

use crate::{KernelArg, Pod, Zeroable, arch};

/// The largest finite e4m3.
pub const MAX: f32 = 448.0;
/// NaN, of either sign.
const NAN: u8 = 0x7f;

macro_rules! vectors { ($($(#[doc = $doc:literal])* $name:ident = $n:literal;)*) => { $(
    $(#[doc = $doc])*
    #[repr(C, align($n))]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct $name(pub [u8; $n]);

    // SAFETY: an array of bytes; its size is its alignment, so that there is no padding.
    unsafe impl Zeroable for $name {}
    // SAFETY: as above.
    unsafe impl Pod for $name {}
    // SAFETY: plain bits, laid out alike on both sides.
    unsafe impl KernelArg for $name {}

    impl $name {
        /// Rounds to nearest, ties to even; beyond ±448 that. A NaN becomes `0x7f`. The same bits on GPUs and on the simulator.
        ///
        /// PTX `cvt.rn.satfinite.e4m3x2.f32`.
        ///
        /// ```
        /// # use shmem::fp8::*;
        #[doc = concat!("assert_eq!(", stringify!($name), "::from_f32([1e9; ", stringify!($n), "]).f32(), [MAX; ", stringify!($n), "]);")]
        /// ```
        #[inline(always)]
        pub fn from_f32(numbers: [f32; $n]) -> Self {
            let mut codes = [0; $n];
            let mut i = 0;
            while i < $n {
                let [low, high] = arch::pack_e4m3([numbers[i], numbers[i + 1]]).to_le_bytes();
                (codes[i], codes[i + 1]) = (low, high);
                i += 2;
            }
            Self(codes)
        }

        /// The numbers as f32, exactly. A NaN stays one.
        #[inline(always)]
        pub fn f32(self) -> [f32; $n] {
            let mut numbers = [0.0; $n];
            let mut i = 0;
            while i < $n {
                numbers[i] = decode(self.0[i]);
                i += 1;
            }
            numbers
        }
    }
)* } }
vectors! {
    /// Four e4m3.
    E4m3x4 = 4;
    /// Eight e4m3.
    E4m3x8 = 8;
}

/// A number as an e4m3, where no instruction does it.
#[inline(always)]
pub(crate) fn encode(x: f32) -> u8 {
    let sign = (x.to_bits() >> 24) as u8 & 0x80;
    let size = x.abs();
    if x.is_nan() {
        return NAN;
    }
    let code = if size < 1.0 / 64.0 {
        // Steps of 2^-9: what an f32 of this size has for its last bit, so that the addition rounds.
        const STEPS: f32 = (1 << 14) as f32;
        (size + STEPS).to_bits() - STEPS.to_bits()
    } else {
        // 20 bits of the mantissa go, half of the last one that stays is added; the exponent's bias is 7, not 127.
        let bits = size.min(MAX).to_bits();
        ((bits + 0x7_ffff + (bits >> 20 & 1)) >> 20) - (120 << 3)
    };
    sign | code as u8
}

#[inline(always)]
fn decode(code: u8) -> f32 {
    let (sign, size) = (u32::from(code & 0x80) << 24, u32::from(code & NAN));
    let number = if size == u32::from(NAN) {
        f32::NAN
    } else {
        // As an f32 whose exponent is 120 too small: 2^-126 times e4m3's own subnormals are f32's.
        f32::from_bits(size << 20) * f32::from_bits((127 + 120) << 23)
    };
    f32::from_bits(number.to_bits() | sign)
}

#[cfg(test)]
mod tests {
    use super::{E4m3x4, MAX, NAN, decode, encode};

    /// By the format's definition.
    fn number(code: u8) -> f64 {
        let (exponent, mantissa) = (i32::from(code >> 3 & 15), f64::from(code & 7));
        let size = match exponent {
            0 => mantissa / 8.0 * 2f64.powi(-6),
            _ => (1.0 + mantissa / 8.0) * 2f64.powi(exponent - 7),
        };
        if code & 0x80 == 0 { size } else { -size }
    }

    #[test]
    fn every_code_is_its_number() {
        for code in (0..=255).filter(|code| code & NAN != NAN) {
            assert_eq!(f64::from(decode(code)).to_bits(), number(code).to_bits(), "{code:#x}");
            assert_eq!(encode(decode(code)), code);
        }
        assert!(decode(NAN).is_nan() && decode(NAN | 0x80).is_nan());
        assert_eq!(encode(f32::NAN), NAN);
        assert_eq!(encode(-f32::NAN), NAN);
    }

    /// Numbers between two codes, on the midpoint and beside it.
    #[test]
    fn the_nearest_code_is_taken_the_even_one_of_two() {
        for code in 0..0x7e_u8 {
            let (low, high) = (decode(code), decode(code + 1));
            let middle = f32::midpoint(low, high);
            let even = if code % 2 == 0 { code } else { code + 1 };
            assert_eq!(encode(middle), even, "{middle}");
            assert_eq!(encode(middle.next_down()), code, "below {middle}");
            assert_eq!(encode(middle.next_up()), code + 1, "above {middle}");
            assert_eq!(encode(-middle), even | 0x80);
        }
        assert_eq!(encode(1e-30), 0);
        for large in [MAX, 449.0, 1e30, f32::INFINITY] {
            assert_eq!(encode(large), 0x7e);
            assert_eq!(encode(-large), 0xfe);
        }
    }

    #[test]
    fn a_vector_keeps_the_order() {
        assert_eq!(E4m3x4::from_f32([1.0, -2.0, 0.5, 3.0]).0, [0x38, 0xc0, 0x30, 0x44]);
    }
}
