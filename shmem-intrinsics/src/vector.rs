//! Vectors: several numbers that move in one access, and halves that convert two at a time.
//!
//! | type | bytes | `.f32()`, `from_f32` | NVSHMEM, CUDA |
//! |---|---|---|---|
//! | [`F32x2`], [`F32x4`] | 8, 16 | | `float2`, `float4` |
//! | [`U32x2`], [`U32x4`], [`U64x2`] | 8, 16, 16 | | `uint2`, `uint4`, `ulonglong2` |
//! | [`F16x2`], [`F16x8`] | 4, 16 | `cvt.rn.f16x2.f32` | `__half2` |
//! | [`Bf16x2`], [`Bf16x8`] | 4, 16 | `cvt.rn.bf16x2.f32` | `__nv_bfloat162` |
//!
//! A vector is aligned to its size, so that `load` and `store` of one are a single instruction. To PTX it is still separate
//! accesses of its parts: wait on a word, not on a vector.
//!
//! ```
//! use shmem::prelude::*;
//! use shmem::vector::F32x4;
//! shmem_sim::run(1, 1, 8, || {
//!     let x = shmem_sim::symmetric::<f32>(32).cast::<F32x4>(); // 8 lines of 16 bytes
//!     x.store(thread::index(), F32x4([1.0, 2.0, 3.0, 4.0]));
//!     assert_eq!((x.load(thread::index()) + F32x4([1.0; 4])).0[3], 5.0);
//! }).unwrap();
//! ```

use crate::{KernelArg, Pod, Zeroable, arch, bf16, f16};

macro_rules! vectors { ($($(#[doc = $doc:literal])* $name:ident = [$t:ty; $n:literal], $align:literal;)*) => { $(
    $(#[doc = $doc])*
    #[repr(C, align($align))]
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub struct $name(pub [$t; $n]);

    // SAFETY: an array of plain numbers; its size is its alignment, so that there is no padding.
    unsafe impl Zeroable for $name {}
    // SAFETY: as above.
    unsafe impl Pod for $name {}
    // SAFETY: plain bits, laid out alike on both sides.
    unsafe impl KernelArg for $name {}

    impl From<[$t; $n]> for $name {
        #[inline(always)]
        fn from(parts: [$t; $n]) -> Self {
            Self(parts)
        }
    }
    impl From<$name> for [$t; $n] {
        #[inline(always)]
        fn from(vector: $name) -> Self {
            vector.0
        }
    }
    const _: () = assert!(size_of::<$name>() == $align && align_of::<$name>() == $align);
)* } }

vectors! {
    /// Two f32.
    F32x2 = [f32; 2], 8;
    /// Four f32.
    F32x4 = [f32; 4], 16;
    /// Two u32.
    U32x2 = [u32; 2], 8;
    /// Four u32.
    U32x4 = [u32; 4], 16;
    /// Two u64.
    U64x2 = [u64; 2], 16;
    /// Two f16; the first is the lower half of the word.
    F16x2 = [f16; 2], 4;
    /// Two bf16; the first is the lower half of the word.
    Bf16x2 = [bf16; 2], 4;
    /// Eight f16.
    F16x8 = [f16; 8], 16;
    /// Eight bf16.
    Bf16x8 = [bf16; 8], 16;
}

/// Arithmetic by elements.
macro_rules! arithmetic { ($($name:ident: $($op:ident $method:ident $assign:tt)*;)*) => { $($(
    impl core::ops::$op for $name {
        type Output = Self;
        #[inline(always)]
        fn $method(mut self, other: Self) -> Self {
            let mut i = 0;
            while i < self.0.len() {
                self.0[i] $assign other.0[i];
                i += 1;
            }
            self
        }
    }
)*)* } }
arithmetic! {
    F32x2: Add add += Sub sub -= Mul mul *=;
    F32x4: Add add += Sub sub -= Mul mul *=;
}

/// Conversions of halves, two at a time.
macro_rules! halves { ($($name:ident, $n:literal, $pair:literal, $unpack:ident, $pack:ident;)*) => { $(
    impl $name {
        /// The elements as f32, exactly. A NaN stays one.
        ///
        /// ```
        /// # use shmem::vector::*;
        #[doc = concat!("let x = ", stringify!($name), "::from_f32([1.5; ", stringify!($n), "]);")]
        #[doc = concat!("assert_eq!(x.f32(), [1.5; ", stringify!($n), "]);")]
        /// ```
        #[inline(always)]
        pub fn f32(self) -> [f32; $n] {
            // SAFETY: plain bits of the same size.
            let words: [u32; $n / 2] = unsafe { core::mem::transmute(self) };
            let mut parts = [0.0; $n];
            let mut i = 0;
            while i < words.len() {
                let [low, high] = arch::$unpack(words[i]);
                parts[2 * i] = low;
                parts[2 * i + 1] = high;
                i += 1;
            }
            parts
        }

        /// Rounds to nearest, ties to even; what is too large becomes infinite, a NaN the bits `0x7fff`. The same bits on
        /// GPUs and on the simulator.
        ///
        #[doc = concat!("PTX `", $pair, "`.")]
        ///
        /// ```
        /// # use shmem::vector::*;
        #[doc = concat!("let x = ", stringify!($name), "::from_f32([f32::INFINITY; ", stringify!($n), "]);")]
        /// assert!(x.0[0].is_infinite());
        /// ```
        #[inline(always)]
        pub fn from_f32(parts: [f32; $n]) -> Self {
            let mut words = [0; $n / 2];
            let mut i = 0;
            while i < words.len() {
                words[i] = arch::$pack([parts[2 * i], parts[2 * i + 1]]);
                i += 1;
            }
            // SAFETY: plain bits of the same size.
            unsafe { core::mem::transmute(words) }
        }
    }
)* } }
halves! {
    F16x2, 2, "cvt.rn.f16x2.f32", unpack_f16, pack_f16;
    F16x8, 8, "cvt.rn.f16x2.f32", unpack_f16, pack_f16;
    Bf16x2, 2, "cvt.rn.bf16x2.f32", unpack_bf16, pack_bf16;
    Bf16x8, 8, "cvt.rn.bf16x2.f32", unpack_bf16, pack_bf16;
}
