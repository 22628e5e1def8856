//! What a GPU has no accurate instruction for. Series are Taylor's: on the reduced ranges one term more changes nothing in f32.

use crate::arch::{exp2_f32, fma_f32 as fma, fma_f64, round_f32, round_f64};
use core::f32::consts::LOG2_E;

/// ln 2 in two parts; the first has so few bits that its product with an exponent is exact.
const LN_2_HIGH: f32 = 0.693_145_75;
const LN_2_LOW: f32 = 1.428_606_8e-6;

/// `x[0] + z (x[1] + z (..))`
#[inline(always)]
fn polynomial<const N: usize>(z: f32, x: [f32; N]) -> f32 {
    let mut sum = x[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        sum = fma(sum, z, x[i]);
    }
    sum
}

/// 2^n for -126..=127.
#[inline(always)]
fn power_of_2(n: i32) -> f32 {
    f32::from_bits(((n + 127) as u32) << 23)
}

#[inline(always)]
pub(super) fn exp2(x: f32) -> f32 {
    exp2_f32(x)
}

/// e^x = 2^n e^r, |r| <= ln 2 / 2.
pub(super) fn exp(x: f32) -> f32 {
    // Beyond these it is 0, or infinite.
    let x = x.clamp(-105.0, 89.0);
    let n = round_f32(x * LOG2_E);
    let r = fma(n, -LN_2_LOW, fma(n, -LN_2_HIGH, x));
    let n = n as i32;
    // 2^n alone may be too large or too small to be a number.
    exp2_f32(r * LOG2_E) * power_of_2(n / 2) * power_of_2(n - n / 2)
}

/// x = 2^n m with m around 1; returns n and ln m.
#[inline(always)]
fn split(x: f32) -> (f32, f32) {
    let (x, shift) = if x < f32::MIN_POSITIVE {
        (x * 8_388_608.0, 23)
    } else {
        (x, 0)
    };
    let exponent = (x.to_bits().wrapping_sub(core::f32::consts::FRAC_1_SQRT_2.to_bits()) as i32) >> 23;
    let f = f32::from_bits(x.to_bits().wrapping_sub((exponent << 23) as u32)) - 1.0;
    // ln(1 + f) = 2 atanh(s) = 2s + s r, and 2s = f - s f: the large part is exact.
    let s = f / (2.0 + f);
    let z = s * s;
    let r = z * polynomial(z, [2.0 / 3.0, 2.0 / 5.0, 2.0 / 7.0, 2.0 / 9.0, 2.0 / 11.0]);
    ((exponent - shift) as f32, f - s * (f - r))
}

/// Where a logarithm is no number, or none of the series.
#[inline(always)]
fn outside(x: f32) -> Option<f32> {
    if x > 0.0 && x < f32::INFINITY {
        None
    } else if x == 0.0 {
        Some(f32::NEG_INFINITY)
    } else if x > 0.0 {
        Some(x)
    } else {
        Some(f32::NAN)
    }
}

pub(super) fn log2(x: f32) -> f32 {
    if let Some(result) = outside(x) {
        return result;
    }
    let (n, ln) = split(x);
    fma(ln, LOG2_E, n)
}

pub(super) fn ln(x: f32) -> f32 {
    if let Some(result) = outside(x) {
        return result;
    }
    let (n, ln) = split(x);
    fma(n, LN_2_HIGH, fma(n, LN_2_LOW, ln))
}

/// The distance from the nearest multiple of π/2, and which multiple that is, modulo 4.
#[inline(always)]
fn quadrant(x: f32) -> (f32, u32) {
    use core::f64::consts::{FRAC_2_PI, FRAC_PI_2};
    const REST: f64 = 6.123_233_995_736_766e-17;
    let x = f64::from(x);
    let n = round_f64(x * FRAC_2_PI);
    (fma_f64(n, -REST, fma_f64(n, -FRAC_PI_2, x)) as f32, n as i64 as u32 & 3)
}

#[inline(always)]
fn sine(r: f32) -> f32 {
    let z = r * r;
    fma(
        r * z,
        polynomial(z, [-1.0 / 6.0, 1.0 / 120.0, -1.0 / 5040.0, 1.0 / 362_880.0]),
        r,
    )
}

#[inline(always)]
fn cosine(r: f32) -> f32 {
    let z = r * r;
    polynomial(
        z,
        [1.0, -0.5, 1.0 / 24.0, -1.0 / 720.0, 1.0 / 40320.0, -1.0 / 3_628_800.0],
    )
}

#[inline(always)]
fn turned(r: f32, quadrant: u32) -> f32 {
    let value = if quadrant & 1 == 0 { sine(r) } else { cosine(r) };
    if quadrant & 2 == 0 { value } else { -value }
}

pub(super) fn sin(x: f32) -> f32 {
    let (r, n) = quadrant(x);
    turned(r, n)
}

pub(super) fn cos(x: f32) -> f32 {
    let (r, n) = quadrant(x);
    turned(r, n.wrapping_add(1))
}

pub(super) fn tanh(x: f32) -> f32 {
    let a = x.abs();
    let t = if a < 0.25 {
        let z = a * a;
        fma(
            a * z,
            polynomial(z, [-1.0 / 3.0, 2.0 / 15.0, -17.0 / 315.0, 62.0 / 2835.0]),
            a,
        )
    } else {
        1.0 - 2.0 / (exp(2.0 * a) + 1.0)
    };
    t.copysign(x)
}

#[cfg(test)]
mod tests;
