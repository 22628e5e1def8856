//! Float functions that `core` lacks: on a GPU there is no `std`.
//!
//! `abs`, `min`, `max`, `clamp`, `recip`, `copysign` are core's own. Plain names are the accurate form; `fast_` is one
//! `.approx` instruction. Errors are in units of the last place (ulp), or as the PTX manual says them.
//!
//! | call | types | GPU | error |
//! |---|---|---|---|
//! | `sqrt`, `mul_add`, `floor`, `ceil`, `trunc`, `round_ties_even` | f32 f64 | `sqrt.rn`, `fma.rn`, `cvt.rmi`, `.rpi`, `.rzi`, `.rni` | exact or correctly rounded |
//! | `rsqrt` | f32 f64 | `sqrt.rn`, then `rcp.rn` | 1.5 ulp |
//! | `powi` | f32 f64 | multiplications | about log2 n ulp |
//! | `exp2` | f32 | `ex2.approx` | 2^-22 relative |
//! | `exp`, `log2`, `ln`, `sin`, `cos` | f32 | software | 3 ulp |
//! | `tanh` | f32 | software | 6 ulp |
//! | `fast_recip` | f32 | `rcp.approx.ftz` | 1 ulp |
//! | `fast_sqrt`, `fast_rsqrt` | f32 | `sqrt.approx.ftz`, `rsqrt.approx.ftz` | 2^-22.9 relative |
//! | `fast_exp2`, `fast_exp` | f32 | `ex2.approx.ftz` | 2^-22 relative; `fast_exp` more where x is large |
//! | `fast_log2`, `fast_ln` | f32 | `lg2.approx.ftz` | 2^-22 absolute within (0.5, 2), 2^-22 relative elsewhere |
//! | `fast_sin`, `fast_cos` | f32 | `sin.approx.ftz`, `cos.approx.ftz` | 2^-20.5 absolute within -2π..2π, 2^-14.7 within -100π..100π |
//! | `fast_tanh` | f32 | `tanh.approx` | 2^-11 relative |
//!
//! `.ftz`: numbers below 2^-126 count as 0. On the simulator all of them are the host's: equal bits are promised for the first
//! two rows only.
//!
//! ```
//! use shmem::prelude::*;
//! shmem_sim::run(1, 1, 1, || {
//!     assert_eq!(4f32.rsqrt(), 0.5);
//!     assert!((1f32.fast_exp() - 1f32.exp()).abs() < 1e-5);
//! }).unwrap();
//! ```

use crate::arch;
#[cfg(any(target_arch = "nvptx64", test))]
mod software;

/// What f32 and f64 have as instructions. The table of errors is [the module's](self).
///
/// ```
/// use shmem::prelude::*;
/// fn length<T: FloatExt + core::ops::Mul<Output = T>>(x: T, y: T) -> T {
///     x.mul_add(x, y * y).sqrt()
/// }
/// assert_eq!(length(3f32, 4f32), 5.0);
/// assert_eq!(length(3f64, 4f64), 5.0);
/// ```
pub trait FloatExt: Copy {
    /// The square root, correctly rounded; NaN of what is negative (`sqrt.rn`).
    #[must_use]
    fn sqrt(self) -> Self;
    /// One over the square root (`sqrt.rn`, `rcp.rn`).
    #[must_use]
    fn rsqrt(self) -> Self;
    /// The largest integer that is not above (`cvt.rmi`).
    #[must_use]
    fn floor(self) -> Self;
    /// The smallest integer that is not below (`cvt.rpi`).
    #[must_use]
    fn ceil(self) -> Self;
    /// The integer part (`cvt.rzi`).
    #[must_use]
    fn trunc(self) -> Self;
    /// The nearest integer, of two the even one (`cvt.rni`).
    #[must_use]
    fn round_ties_even(self) -> Self;
    /// `self * a + b`, rounded once (`fma.rn`).
    #[must_use]
    fn mul_add(self, a: Self, b: Self) -> Self;
    /// The n-th power, by repeated squaring.
    #[must_use]
    fn powi(self, n: i32) -> Self;
}

macro_rules! float_ext { ($($t:ty: $sqrt:ident $floor:ident $ceil:ident $trunc:ident $round:ident $fma:ident;)*) => { $(
    impl FloatExt for $t {
        #[inline(always)]
        fn sqrt(self) -> Self {
            arch::$sqrt(self)
        }
        #[inline(always)]
        fn rsqrt(self) -> Self {
            1.0 / arch::$sqrt(self)
        }
        #[inline(always)]
        fn floor(self) -> Self {
            arch::$floor(self)
        }
        #[inline(always)]
        fn ceil(self) -> Self {
            arch::$ceil(self)
        }
        #[inline(always)]
        fn trunc(self) -> Self {
            arch::$trunc(self)
        }
        #[inline(always)]
        fn round_ties_even(self) -> Self {
            arch::$round(self)
        }
        #[inline(always)]
        fn mul_add(self, a: Self, b: Self) -> Self {
            arch::$fma(self, a, b)
        }
        #[inline]
        fn powi(self, n: i32) -> Self {
            let (mut square, mut left, mut power) = (self, n.unsigned_abs(), 1.0);
            while left != 0 {
                if left & 1 != 0 {
                    power *= square;
                }
                square *= square;
                left >>= 1;
            }
            if n < 0 { 1.0 / power } else { power }
        }
    }
)* } }
float_ext! {
    f32: sqrt_f32 floor_f32 ceil_f32 trunc_f32 round_f32 fma_f32;
    f64: sqrt_f64 floor_f64 ceil_f64 trunc_f64 round_f64 fma_f64;
}

macro_rules! f32_ext {
    (accurate { $($(#[doc = $doc:literal])* $name:ident;)* } fast { $($(#[doc = $fast_doc:literal])* $fast:ident;)* }) => {
        /// Functions of f32: the accurate ones, and as `fast_` the GPU's approximations. The table of errors is
        /// [the module's](self).
        ///
        /// ```
        /// use shmem::prelude::*;
        /// assert!((0.5f32.tanh() - 0.462_117_16).abs() < 1e-6);
        /// assert!((0.5f32.fast_tanh() - 0.462_117_16).abs() < 1e-3);
        /// ```
        pub trait F32Ext: FloatExt {
            $($(#[doc = $doc])* #[must_use] fn $name(self) -> Self;)*
            $($(#[doc = $fast_doc])* #[must_use] fn $fast(self) -> Self;)*
        }

        impl F32Ext for f32 {
            $(
                #[inline]
                fn $name(self) -> Self {
                    #[cfg(target_arch = "nvptx64")]
                    return software::$name(self);
                    #[cfg(not(target_arch = "nvptx64"))]
                    return f32::$name(self);
                }
            )*
            $(#[inline(always)] fn $fast(self) -> Self { arch::$fast(self) })*
        }
    };
}
f32_ext! {
    accurate {
        /// 2 to the power of it.
        exp2;
        /// e to the power of it.
        exp;
        /// The logarithm to base 2; NaN of what is negative.
        log2;
        /// The natural logarithm; NaN of what is negative.
        ln;
        /// The sine of radians, reduced in f64: 3 ulp up to 2^40.
        sin;
        /// The cosine of radians, reduced in f64: 3 ulp up to 2^40.
        cos;
        /// The hyperbolic tangent.
        tanh;
    }
    fast {
        /// `rcp.approx.ftz.f32`
        fast_recip;
        /// `sqrt.approx.ftz.f32`
        fast_sqrt;
        /// `rsqrt.approx.ftz.f32`
        fast_rsqrt;
        /// `ex2.approx.ftz.f32`
        fast_exp2;
        /// `ex2.approx.ftz.f32` of the product with log2 e.
        fast_exp;
        /// `lg2.approx.ftz.f32`
        fast_log2;
        /// `lg2.approx.ftz.f32`, times ln 2.
        fast_ln;
        /// `sin.approx.ftz.f32`
        fast_sin;
        /// `cos.approx.ftz.f32`
        fast_cos;
        /// `tanh.approx.f32`
        fast_tanh;
    }
}
