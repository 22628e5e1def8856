//! One-shot all-reduce, residual add and RMSNorm of bf16: what follows each half of a transformer layer under tensor
//! parallelism. A block for each token; every PE sends its row to every other and adds up all of them in the same order.
use shmem::prelude::*;
use shmem::vector::Bf16x8;

/// Threads of a block: each holds K vectors of eight numbers of a row.
pub const BLOCK: u32 = 128;

#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Norm {
    /// Rows of this PE's part of the sum, one for each token.
    pub x: Global<Bf16x8>,
    /// Rows to add; takes the sum.
    pub residual: Global<Bf16x8>,
    /// One row.
    pub weight: Global<Bf16x8>,
    /// Normalised rows.
    pub out: Global<Bf16x8>,
    /// `[2][tokens][PE]` rows: used in turns, because a PE is at most one epoch ahead of another.
    pub boxes: SymSlice<Bf16x8>,
    /// `[tokens][PE]`
    pub ready: SymSlice<SignalWord>,
    pub tokens: u32,
    pub eps: f32,
    /// Grows by one with each call.
    pub epoch: u64,
}

/// Rows of `K * BLOCK * 8` numbers: 2048 and 4096.
#[kernel(collective, block = 128, for<2>, for<4>)]
pub fn all_reduce_rms_norm<const K: usize>(_all: Collective, a: Norm) {
    let (me, n) = (shmem::my_pe(), shmem::n_pes());
    let row = K as u32 * BLOCK;
    let boxes = a.boxes.chunk(a.epoch % 2, a.tokens * n * row);
    for t in (Block.id()..a.tokens).step_by(thread::grid_size() as usize) {
        let place = |pe: u32| boxes.chunk(t * n + pe, row);
        let ready = |pe: u32| a.ready.at(t * n + pe);
        for k in 1..n {
            shmem::put_signal(
                Block,
                place(me),
                a.x.chunk(t, row),
                ready(me).set(a.epoch),
                (me + k) % n,
            );
        }
        let mut sum = [[0f32; 8]; K];
        for pe in 0..n {
            let part: [Bf16x8; K] = if pe == me {
                shmem::read(Block, a.x.chunk(t, row))
            } else {
                shmem::wait_until(Block, ready(pe), ge(a.epoch));
                shmem::read(Block, place(pe))
            };
            add(&mut sum, &part);
        }
        let residual: [Bf16x8; K] = shmem::read(Block, a.residual.chunk(t, row));
        add(&mut sum, &residual);
        shmem::write(Block, a.residual.chunk(t, row), sum.map(Bf16x8::from_f32));

        let mut squares = 0.0;
        for j in 0..K {
            for i in 0..8 {
                squares = sum[j][i].mul_add(sum[j][i], squares);
            }
        }
        let scale = (Block.sum(squares) / (row * 8) as f32 + a.eps).rsqrt();
        let weight: [Bf16x8; K] = shmem::read(Block, a.weight);
        for j in 0..K {
            let weight = weight[j].f32();
            for i in 0..8 {
                sum[j][i] *= scale * weight[i];
            }
        }
        shmem::write(Block, a.out.chunk(t, row), sum.map(Bf16x8::from_f32));
    }
}

#[inline(always)]
fn add<const K: usize>(sum: &mut [[f32; 8]; K], part: &[Bf16x8; K]) {
    for j in 0..K {
        let part = part[j].f32();
        for i in 0..8 {
            sum[j][i] += part[i];
        }
    }
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::numbers::small;
    use anyhow::ensure;
    use shmem::bytemuck::cast_slice;
    use shmem_host::{Pe, collective_launch};

    const TOKENS: u32 = 3;
    const EPS: f32 = 1e-5;

    /// Several calls on the same boxes, without a barrier between, for both row lengths.
    pub fn check(pe: &Pe) -> anyhow::Result<()> {
        check_rows(pe, 2, 5)?;
        check_rows(pe, 4, 5)
    }

    /// Little data, for runs of many seeds.
    pub fn check_small(pe: &Pe) -> anyhow::Result<()> {
        check_rows(pe, 2, 2)
    }

    fn check_rows(pe: &Pe, k: usize, calls: u32) -> anyhow::Result<()> {
        let row = k * BLOCK as usize;
        let (numbers, all) = (row * 8, TOKENS as usize * row);
        let (x, residual) = (pe.buffer::<Bf16x8>(all)?, pe.buffer::<Bf16x8>(all)?);
        let (weight, out) = (pe.buffer::<Bf16x8>(row)?, pe.buffer::<Bf16x8>(all)?);
        let boxes = pe.alloc::<Bf16x8>(2 * all * pe.n() as usize)?;
        let ready = pe.signals(TOKENS as usize * pe.n() as usize)?;
        let value = |seed: u32, from: u32, i: usize| bf16::from_f32(small(seed, from, i));
        let fill = |seed, from, n: usize| (0..n).map(|i| value(seed, from, i)).collect::<Vec<bf16>>();
        weight.write(cast_slice(&fill(1000, 0, numbers)))?;
        residual.write(cast_slice(&fill(2000, 0, all * 8)))?;
        let mut expected: Vec<f32> = fill(2000, 0, all * 8).into_iter().map(bf16::to_f32).collect();
        for epoch in 1..=calls {
            x.write(cast_slice(&fill(epoch, pe.id(), all * 8)))?;
            let norm = Norm {
                x: x.handle(),
                residual: residual.handle(),
                weight: weight.handle(),
                out: out.handle(),
                boxes: boxes.handle(),
                ready: ready.handle(),
                tokens: TOKENS,
                eps: EPS,
                epoch: epoch.into(),
            };
            if k == 2 {
                collective_launch!(pe, all_reduce_rms_norm::<2><<<2, 128>>>(norm))?;
            } else {
                collective_launch!(pe, all_reduce_rms_norm::<4><<<2, 128>>>(norm))?;
            }
            let (got_sum, got_out) = (residual.to_vec()?, out.to_vec()?);
            let (got_sum, got_out): (&[bf16], &[bf16]) = (cast_slice(&got_sum), cast_slice(&got_out));
            for t in 0..TOKENS as usize {
                let place = t * numbers..(t + 1) * numbers;
                // The sum before it is rounded, as the kernel normalises it.
                let sum: Vec<f32> = place
                    .clone()
                    .map(|i| (0..pe.n()).map(|from| value(epoch, from, i).to_f32()).sum::<f32>() + expected[i])
                    .collect();
                let squares: f64 = sum.iter().map(|&s| f64::from(s).powi(2)).sum();
                let scale = (squares / numbers as f64 + f64::from(EPS)).sqrt().recip();
                for (i, &s) in place.zip(&sum) {
                    expected[i] = bf16::from_f32(s).to_f32();
                    ensure!(
                        got_sum[i].to_f32() == expected[i],
                        "call {epoch}: sum {i} is {}",
                        got_sum[i]
                    );
                    let y = f64::from(s) * scale * f64::from(value(1000, 0, i % numbers).to_f32());
                    ensure!(
                        (f64::from(got_out[i].to_f32()) - y).abs() <= y.abs() / 128.0,
                        "call {epoch}: {i} is {}, expected {y}",
                        got_out[i]
                    );
                }
            }
        }
        // Nobody frees a box that another PE still writes to.
        Ok(pe.barrier_all()?)
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::{check, check_small};
