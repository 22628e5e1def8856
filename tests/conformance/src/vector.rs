//! Vectors: halves convert to the same bits everywhere; each vector is one access.
use shmem::prelude::*;
use shmem::vector::{Bf16x2, Bf16x8, F16x2, F16x8, F32x2, F32x4, U32x2, U32x4, U64x2};

/// Bits of f32 to bits of halves, two at a time and eight at a time.
#[kernel]
pub fn round(src: Global<f32>, f16s: Global<F16x2>, bf16s: Global<Bf16x2>, wide: Global<F16x8>, wider: Global<Bf16x8>) {
    let pairs = f16s.len() as u32;
    for i in Block.strided(pairs) {
        let pair = [src.load(2 * i), src.load(2 * i + 1)];
        f16s.store(i, F16x2::from_f32(pair));
        bf16s.store(i, Bf16x2::from_f32(pair));
    }
    for i in Block.strided(pairs / 4) {
        let mut eight = [0.0; 8];
        let mut k = 0;
        while k < 8 {
            eight[k as usize] = src.load(8 * i + k);
            k += 1;
        }
        wide.store(i, F16x8::from_f32(eight));
        wider.store(i, Bf16x8::from_f32(eight));
    }
}

/// All halves to the bits of f32.
#[kernel]
pub fn widen(f16s: Global<F16x2>, bf16s: Global<Bf16x2>, from_f16: Global<U32x2>, from_bf16: Global<U32x2>) {
    for i in Block.strided(f16s.len() as u32) {
        from_f16.store(i, U32x2(f16s.load(i).f32().map(f32::to_bits)));
        from_bf16.store(i, U32x2(bf16s.load(i).f32().map(f32::to_bits)));
    }
}

/// Every vector goes through symmetric memory of the right neighbour.
#[kernel(collective)]
pub fn carry(all: Collective, place: SymSlice<U64x2>, out: Global<U64x2>) {
    let (me, n) = (shmem::my_pe(), shmem::n_pes());
    let right = (me + 1) % n;
    if Block.leader() {
        let number = me + 1;
        shmem::p(place.cast::<F32x2>().at(0), F32x2([number as f32, 2.0]), right);
        shmem::p(
            place.cast::<F32x4>().at(1),
            F32x4([1.0, 2.0, 3.0, number as f32]),
            right,
        );
        shmem::p(place.cast::<U32x2>().at(4), U32x2([number, 5]), right);
        shmem::p(place.cast::<U32x4>().at(3), U32x4([6, 7, 8, number]), right);
        shmem::p(place.at(4), U64x2([9, u64::from(number)]), right);
    }
    all.barrier(Block, shmem::world());
    for i in Block.strided(5) {
        out.store(i, place.load(i));
    }
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::suite::{Case, full_or_little, noise};
    use anyhow::ensure;
    use shmem::bytemuck;
    use shmem_host::{Pe, collective_launch};

    pub const CASES: &[Case] = &[
        Case {
            name: "f32 to halves, by bits",
            run: rounding,
        },
        Case {
            name: "halves to f32, by bits",
            run: widening,
        },
        Case {
            name: "vectors in symmetric memory",
            run: carrying,
        },
    ];

    fn rounding(pe: &Pe) -> anyhow::Result<()> {
        let all = full_or_little(8192, 256);
        let special = [
            f32::NAN,
            -f32::NAN,
            f32::from_bits(0x7f80_0001),
            f32::INFINITY,
            f32::NEG_INFINITY,
            0.0,
            -0.0,
            1.0,
            65504.0,
            65519.9,
            65520.0,
            f32::MAX,
            f32::MIN_POSITIVE,
            f32::from_bits(1),
            5.960_464_5e-8,
            2.980_232_2e-8,
            2.980_232_6e-8,
            6.1e-5,
            1.000_488_3,
            1.001_464_8,
        ];
        let values: Vec<f32> = (0..all)
            .map(|i| match i {
                _ if i < special.len() => special[i],
                // Ties and their neighbours, of both kinds of halves.
                _ if i % 4 == 0 => f32::from_bits((noise(1, i as u64) as u32) << 12),
                _ if i % 4 == 1 => f32::from_bits(((noise(2, i as u64) as u32) << 16) | 0x8000),
                // The range of f16.
                _ if i % 4 == 2 => f32::from_bits(noise(3, i as u64) as u32 % 0x1400_0000 + 0x3300_0000),
                _ => f32::from_bits(noise(4, i as u64) as u32),
            })
            .collect();
        let src = pe.buffer::<f32>(all)?;
        let (f16s, bf16s) = (pe.buffer::<F16x2>(all / 2)?, pe.buffer::<Bf16x2>(all / 2)?);
        let (wide, wider) = (pe.buffer::<F16x8>(all / 8)?, pe.buffer::<Bf16x8>(all / 8)?);
        src.write(&values)?;
        collective_launch!(pe, round<<<1, 256>>>(&src, &f16s, &bf16s, &wide, &wider))?;
        let (f16s, bf16s, wide, wider) = (f16s.to_vec()?, bf16s.to_vec()?, wide.to_vec()?, wider.to_vec()?);
        let by_two: [&[u16]; 2] = [bytemuck::cast_slice(&f16s), bytemuck::cast_slice(&bf16s)];
        let by_eight: [&[u16]; 2] = [bytemuck::cast_slice(&wide), bytemuck::cast_slice(&wider)];
        for (i, x) in values.iter().enumerate() {
            let nan = |bits: u16| if x.is_nan() { 0x7fff } else { bits };
            let expected = [nan(f16::from_f32(*x).to_bits()), nan(bf16::from_f32(*x).to_bits())];
            let got = [by_two[0][i], by_two[1][i]];
            ensure!(
                got == expected,
                "{x} ({:#x}): f16, bf16 {got:#x?}, expected {expected:#x?}",
                x.to_bits()
            );
            ensure!(
                got == [by_eight[0][i], by_eight[1][i]],
                "{x}: eight at a time differ from two"
            );
        }
        Ok(())
    }

    fn widening(pe: &Pe) -> anyhow::Result<()> {
        let bits: Vec<u16> = (0..=u16::MAX).step_by(full_or_little(1, 61)).collect();
        let bits = &bits[..bits.len() / 2 * 2];
        let pairs = bits.len() / 2;
        let (f16s, bf16s) = (pe.buffer::<F16x2>(pairs)?, pe.buffer::<Bf16x2>(pairs)?);
        f16s.write(bytemuck::cast_slice(bits))?;
        bf16s.write(bytemuck::cast_slice(bits))?;
        let (from_f16, from_bf16) = (pe.buffer::<U32x2>(pairs)?, pe.buffer::<U32x2>(pairs)?);
        collective_launch!(pe, widen<<<1, 256>>>(&f16s, &bf16s, &from_f16, &from_bf16))?;
        let (from_f16, from_bf16) = (from_f16.to_vec()?, from_bf16.to_vec()?);
        let got: [&[u32]; 2] = [bytemuck::cast_slice(&from_f16), bytemuck::cast_slice(&from_bf16)];
        for (i, &h) in bits.iter().enumerate() {
            let wide = f16::from_bits(h).to_f32();
            let expected = if wide.is_nan() { 0x7fff_ffff } else { wide.to_bits() };
            ensure!(
                got[0][i] == expected,
                "f16 {h:#x}: {:#x}, expected {expected:#x}",
                got[0][i]
            );
            let expected = u32::from(h) << 16;
            ensure!(
                got[1][i] == expected,
                "bf16 {h:#x}: {:#x}, expected {expected:#x}",
                got[1][i]
            );
        }
        Ok(())
    }

    fn carrying(pe: &Pe) -> anyhow::Result<()> {
        let (place, out) = (pe.alloc::<U64x2>(5)?, pe.buffer::<U64x2>(5)?);
        collective_launch!(pe, carry<<<1, 32>>>(&place, &out))?;
        let number = (pe.id() + pe.n() - 1) % pe.n() + 1;
        let got = out.to_vec()?;
        let words: &[[u32; 4]] = bytemuck::cast_slice(&got);
        let f = |x: f32| x.to_bits();
        ensure!(words[0][..2] == [f(number as f32), f(2.0)], "{words:?}");
        ensure!(words[1] == [f(1.0), f(2.0), f(3.0), f(number as f32)], "{words:?}");
        ensure!(
            words[2][..2] == [number, 5] && words[3] == [6, 7, 8, number],
            "{words:?}"
        );
        ensure!(got[4] == U64x2([9, u64::from(number)]), "{got:?}");
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
