//! Float functions: within the documented errors of the truth.
use shmem::prelude::*;

/// One row of results per function.
#[kernel(max_block = 256)]
pub fn functions(x: Global<f32>, out: Global<f32>) {
    let i = thread::block_index() * thread::block_size() + thread::index();
    let v = x.load(i);
    let a = v.abs();
    let rows = [
        a.sqrt(),
        a.rsqrt(),
        v.floor(),
        v.ceil(),
        v.trunc(),
        v.round_ties_even(),
        v.mul_add(3.0, 0.1),
        v.powi(3),
        v.exp2(),
        v.exp(),
        a.log2(),
        a.ln(),
        v.sin(),
        v.cos(),
        v.tanh(),
        v.fast_recip(),
        a.fast_sqrt(),
        a.fast_rsqrt(),
        v.fast_exp2(),
        v.fast_exp(),
        a.fast_log2(),
        a.fast_ln(),
        v.fast_sin(),
        v.fast_cos(),
        v.fast_tanh(),
    ];
    let mut row = 0;
    while row < rows.len() {
        out.chunk(row, x.len()).store(i, rows[row]);
        row += 1;
    }
}

#[kernel(max_block = 256)]
pub fn functions_f64(x: Global<f64>, out: Global<f64>) {
    let i = thread::block_index() * thread::block_size() + thread::index();
    let v = x.load(i);
    let rows = [
        v.abs().sqrt(),
        v.abs().rsqrt(),
        v.floor(),
        v.ceil(),
        v.trunc(),
        v.round_ties_even(),
        v.mul_add(3.0, 0.1),
        v.powi(-2),
    ];
    let mut row = 0;
    while row < rows.len() {
        out.chunk(row, x.len()).store(i, rows[row]);
        row += 1;
    }
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::suite::{Case, full_or_little, noise};
    use anyhow::ensure;
    use shmem_host::{Pe, collective_launch};

    pub const CASES: &[Case] = &[
        Case {
            name: "float functions, f32",
            run: single,
        },
        Case {
            name: "float functions, f64",
            run: double,
        },
    ];

    /// How far a result may be from the truth.
    #[derive(Clone, Copy)]
    enum Error {
        Ulp(f64),
        /// 2 to the power of it, relative.
        Relative(f64),
        /// 2 to the power of it, absolute or relative.
        Either(f64),
    }
    use Error::{Either, Relative, Ulp};

    type Row = (&'static str, fn(f64) -> f64, Error, f64);

    /// Name, truth, error, and up to which |x| it is promised.
    const ROWS: [Row; 25] = [
        ("sqrt", |x| x.abs().sqrt(), Ulp(0.5), f64::MAX),
        ("rsqrt", |x| 1.0 / x.abs().sqrt(), Ulp(1.5), f64::MAX),
        ("floor", f64::floor, Ulp(0.0), f64::MAX),
        ("ceil", f64::ceil, Ulp(0.0), f64::MAX),
        ("trunc", f64::trunc, Ulp(0.0), f64::MAX),
        ("round_ties_even", f64::round_ties_even, Ulp(0.0), f64::MAX),
        ("mul_add", |x| x * 3.0 + f64::from(0.1f32), Ulp(0.500_001), f64::MAX),
        ("powi", |x| x * x * x, Ulp(3.0), f64::MAX),
        ("exp2", f64::exp2, Relative(-22.0), 120.0),
        ("exp", f64::exp, Ulp(3.0), f64::MAX),
        ("log2", |x| x.abs().log2(), Ulp(3.0), f64::MAX),
        ("ln", |x| x.abs().ln(), Ulp(3.0), f64::MAX),
        ("sin", f64::sin, Ulp(3.0), 1.1e12),
        ("cos", f64::cos, Ulp(3.0), 1.1e12),
        ("tanh", f64::tanh, Ulp(6.0), f64::MAX),
        ("fast_recip", |x| 1.0 / x, Relative(-22.9), 1e37),
        ("fast_sqrt", |x| x.abs().sqrt(), Relative(-22.0), f64::MAX),
        ("fast_rsqrt", |x| 1.0 / x.abs().sqrt(), Relative(-22.0), f64::MAX),
        ("fast_exp2", f64::exp2, Relative(-22.0), 120.0),
        ("fast_exp", f64::exp, Relative(-16.0), 80.0),
        ("fast_log2", |x| x.abs().log2(), Either(-22.0), f64::MAX),
        ("fast_ln", |x| x.abs().ln(), Either(-21.5), f64::MAX),
        ("fast_sin", f64::sin, Either(-20.5), std::f64::consts::TAU),
        ("fast_cos", f64::cos, Either(-20.5), std::f64::consts::TAU),
        ("fast_tanh", f64::tanh, Relative(-10.9), f64::MAX),
    ];

    /// Blocks, their threads, and all of these.
    fn shape() -> (u32, u32, usize) {
        full_or_little((16, 256, 4096), (2, 64, 128))
    }

    fn single(pe: &Pe) -> anyhow::Result<()> {
        let (blocks, threads, all) = shape();
        let x: Vec<f32> = (0..all)
            .map(|i| {
                let r = noise(9, i as u64);
                // Magnitudes 2^-20 to 2^20, of both signs, a quarter of them around 1.
                let exponent = if i % 4 == 0 {
                    126 + (r >> 32) % 3
                } else {
                    107 + (r >> 32) % 41
                } as u32;
                f32::from_bits((r as u32 & 0x807f_ffff) | exponent << 23)
            })
            .collect();
        let (src, out) = (pe.buffer::<f32>(all)?, pe.buffer::<f32>(all * ROWS.len())?);
        src.write(&x)?;
        collective_launch!(pe, functions<<<blocks, threads>>>(&src, &out))?;
        let out = out.to_vec()?;
        for ((name, truth, error, up_to), results) in ROWS.iter().zip(out.chunks(all)) {
            for (&x, &got) in x.iter().zip(results).filter(|(x, _)| f64::from(x.abs()) <= *up_to) {
                check(name, *error, x, got, truth(f64::from(x)))?;
            }
        }
        Ok(())
    }

    fn check(name: &str, error: Error, x: f32, got: f32, truth: f64) -> anyhow::Result<()> {
        let expected = truth as f32;
        if expected.is_infinite() || expected.abs() < f32::MIN_POSITIVE {
            // At the ends of the range: the sign and the side count.
            ensure!(
                (got - expected).abs() <= f32::MIN_POSITIVE || got == expected,
                "{name} of {x}: {got}, expected {expected}"
            );
            return Ok(());
        }
        let off = (f64::from(got) - truth).abs();
        let ulp = f64::from(f32::from_bits(expected.abs().to_bits() + 1)) - f64::from(expected.abs());
        let allowed = match error {
            Ulp(n) => n * ulp,
            Relative(e) => e.exp2() * truth.abs(),
            Either(e) => e.exp2() * truth.abs().max(1.0),
        };
        ensure!(
            off <= allowed,
            "{name} of {x}: {got}, expected {truth}, off by {} ulp",
            off / ulp
        );
        Ok(())
    }

    fn double(pe: &Pe) -> anyhow::Result<()> {
        let (blocks, threads, all) = shape();
        let x: Vec<f64> = (0..all).map(|i| (noise(5, i as u64) as i64 as f64) * 1e-15).collect();
        let (src, out) = (pe.buffer::<f64>(all)?, pe.buffer::<f64>(all * 8)?);
        src.write(&x)?;
        collective_launch!(pe, functions_f64<<<blocks, threads>>>(&src, &out))?;
        let out = out.to_vec()?;
        for (i, x) in x.into_iter().enumerate() {
            let got: Vec<f64> = (0..8).map(|row| out[row * all + i]).collect();
            let expected = [
                x.abs().sqrt(),
                1.0 / x.abs().sqrt(),
                x.floor(),
                x.ceil(),
                x.trunc(),
                x.round_ties_even(),
                x.mul_add(3.0, 0.1),
            ];
            ensure!(got[..7] == expected, "of {x}: {got:?}, expected {expected:?}");
            ensure!((got[7] * x * x - 1.0).abs() < 1e-15, "powi(-2) of {x}: {}", got[7]);
        }
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
