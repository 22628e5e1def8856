//! Errors of the software functions, against the host's f64. The host's exp2 stands for the instruction.

use super::*;

/// Numbers that cover the range from `from` to `to` densely, by bits.
fn numbers(from: f32, to: f32) -> impl Iterator<Item = f32> {
    let (a, b) = (from.to_bits(), to.to_bits());
    let step = ((b - a) / 200_000).max(1) as usize;
    (a..=b).step_by(step).map(f32::from_bits)
}

/// The largest error in units of the last place of the true value.
fn worst(numbers: impl Iterator<Item = f32>, ours: fn(f32) -> f32, truth: fn(f64) -> f64) -> f64 {
    let mut worst = (0.0, 0.0);
    for x in numbers {
        let (got, expected) = (f64::from(ours(x)), truth(f64::from(x)));
        let rounded = expected as f32;
        if rounded.is_infinite() {
            assert!(got.is_infinite() || got > 3.4e38, "of {x}: {got}");
            continue;
        }
        let ulp = f64::from(f32::from_bits(rounded.abs().to_bits() + 1)) - f64::from(rounded.abs());
        let error = (got - expected).abs() / ulp;
        assert!(error.is_finite(), "of {x}: {got}, expected {expected}");
        if error > worst.0 {
            worst = (error, x);
        }
    }
    println!("{} ulp at {}", worst.0, worst.1);
    worst.0
}

#[test]
fn errors_are_as_documented() {
    // One ulp is left for what ex2.approx adds.
    assert!(worst(numbers(1e-9, 89.5), exp, f64::exp) < 2.0);
    assert!(worst(numbers(-1e-9, -110.0), exp, f64::exp) < 2.0);
    assert!(worst(numbers(1e-45, f32::MAX), ln, f64::ln) < 2.0);
    assert!(worst(numbers(0.5, 2.0), ln, f64::ln) < 2.0);
    assert!(worst(numbers(1e-45, f32::MAX), log2, f64::log2) < 3.0);
    assert!(worst(numbers(0.5, 2.0), log2, f64::log2) < 3.0);
    assert!(worst(numbers(1e-9, 1.1e12), sin, f64::sin) < 2.0);
    assert!(worst(numbers(1e-9, 1.1e12), cos, f64::cos) < 2.0);
    assert!(worst(numbers(1e-9, 20.0), tanh, f64::tanh) < 5.0);
    assert!(worst(numbers(-1e-9, -20.0), tanh, f64::tanh) < 5.0);
}

#[test]
#[expect(clippy::float_cmp, reason = "these are exact")]
fn special_numbers() {
    let inf = f32::INFINITY;
    assert_eq!(
        [exp(inf), exp(-inf), exp(0.0), exp(100.0), exp(-200.0)],
        [inf, 0.0, 1.0, inf, 0.0]
    );
    assert_eq!(
        [ln(inf), ln(0.0), ln(1.0), log2(8.0), log2(0.0), exp2(3.0)],
        [inf, -inf, 0.0, 3.0, -inf, 8.0]
    );
    assert_eq!(
        [sin(0.0), cos(0.0), tanh(inf), tanh(-inf), tanh(0.0)],
        [0.0, 1.0, 1.0, -1.0, 0.0]
    );
    for f in [exp, ln, log2, sin, cos, tanh] {
        assert!(f(f32::NAN).is_nan());
    }
    assert!(ln(-1.0).is_nan() && log2(-inf).is_nan() && sin(inf).is_nan() && cos(-inf).is_nan());
}
