//! Conversions to numbers of 8 bits and back.
use shmem::fp8::{E4m3x4, E4m3x8};
use shmem::prelude::*;
use shmem::vector::F32x4;

/// Numbers by four and by eight, and what four become.
#[kernel]
pub fn round_fp8(src: Global<F32x4>, codes: Global<E4m3x4>, wide: Global<E4m3x8>, back: Global<F32x4>) {
    for i in Block.strided(src.len() as u32) {
        let four = E4m3x4::from_f32(src.load(i).0);
        codes.store(i, four);
        back.store(i, F32x4(four.f32()));
    }
    for i in Block.strided(wide.len() as u32) {
        let (F32x4([a, b, c, d]), F32x4([e, f, g, h])) = (src.load(2 * i), src.load(2 * i + 1));
        wide.store(i, E4m3x8::from_f32([a, b, c, d, e, f, g, h]));
    }
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::suite::{Case, full_or_little, noise};
    use anyhow::ensure;
    use shmem::bytemuck::cast_slice;
    use shmem_host::{Pe, collective_launch};

    pub const CASES: &[Case] = &[Case {
        name: "f32 to e4m3 and back, by bits",
        run: rounding,
    }];

    /// By the format's definition; 0x7f is no number.
    fn number(code: u8) -> f64 {
        match code >> 3 {
            0 => f64::from(code) / 512.0,
            exponent => f64::from(8 + (code & 7)) / 8.0 * 2f64.powi(i32::from(exponent) - 7),
        }
    }

    /// The nearest code, the even one of two.
    fn nearest(x: f32) -> u8 {
        if x.is_nan() {
            return 0x7f;
        }
        let far = |code: &u8| ((number(*code) - f64::from(x.abs()).min(448.0)).abs(), code % 2);
        let code = (0..0x7f).min_by(|a, b| far(a).partial_cmp(&far(b)).expect("no NaN"));
        code.expect("codes") | (x.to_bits() >> 24) as u8 & 0x80
    }

    fn rounding(pe: &Pe) -> anyhow::Result<()> {
        let all: usize = full_or_little(8192, 512);
        let values: Vec<f32> = (0..all)
            .map(|i| match i {
                // Each code, and the middle between it and the next.
                _ if i < 254 => {
                    let (code, next) = ((i / 2) as u8, (i.div_ceil(2) as u8).min(0x7e));
                    f64::midpoint(number(code), number(next)) as f32
                }
                254 => f32::NAN,
                255 => -f32::NAN,
                256 => f32::NEG_INFINITY,
                257 => -0.0,
                // Mostly around the range.
                _ => f32::from_bits(noise(5, i as u64) as u32 % 0x1000_0000 + 0x3800_0000 | (i as u32) << 31),
            })
            .collect();
        let (src, back) = (pe.buffer::<F32x4>(all / 4)?, pe.buffer::<F32x4>(all / 4)?);
        let (codes, wide) = (pe.buffer::<E4m3x4>(all / 4)?, pe.buffer::<E4m3x8>(all / 8)?);
        src.write(cast_slice(&values))?;
        collective_launch!(pe, round_fp8<<<1, 256>>>(&src, &codes, &wide, &back))?;
        let (codes, wide, back) = (codes.to_vec()?, wide.to_vec()?, back.to_vec()?);
        let (codes, wide, back): (&[u8], &[u8], &[f32]) = (cast_slice(&codes), cast_slice(&wide), cast_slice(&back));
        for (i, &x) in values.iter().enumerate() {
            let expected = nearest(x);
            ensure!(
                codes[i] == expected && wide[i] == expected,
                "{x}: {:#x} by four, {:#x} by eight, expected {expected:#x}",
                codes[i],
                wide[i]
            );
            let same =
                f64::from(back[i].abs()) == number(expected & 0x7f) && back[i].is_sign_negative() == (expected > 0x7f);
            ensure!(
                same || x.is_nan() && back[i].is_nan(),
                "{expected:#x} became {}",
                back[i]
            );
        }
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
