//! The same on the CPU, in f64.
use crate::host::{Algorithm, FusedNorm, Rows};
use anyhow::{Context, ensure};
use shmem::bf16;
use shmem::bytemuck::cast_slice;
use shmem::vector::Bf16x8;
use shmem_host::{Buf, Pe, SymBuf};

/// Is added to the mean of the squares.
pub const EPS: f32 = 1e-5;

/// From -2 to 2, looks random, depends on every argument. A multiple of 1/128: sums of such numbers are exact in f32, so that
/// the sums of GPU and CPU are equal, and round alike.
pub fn number(seed: u64, pe: u32, i: usize) -> bf16 {
    let mut x = (seed << 40) ^ (u64::from(pe) << 32) ^ i as u64;
    x = (x ^ (x >> 30))
        .wrapping_add(0x9e37_79b9_7f4a_7c15)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bf16::from_f32(((x >> 40) % 513) as f32 / 128.0 - 2.0)
}

fn lines(seed: u64, pe: u32, len: usize) -> Vec<Bf16x8> {
    let line = |i| Bf16x8(std::array::from_fn(|j| number(seed, pe, i * 8 + j)));
    (0..len / 8).map(line).collect()
}

/// A row's sum, rounded to bf16, and what it is normalised.
fn expected(parts: &[Vec<bf16>], residual: &[bf16], weight: &[bf16]) -> (Vec<bf16>, Vec<f64>) {
    let sums: Vec<f64> = (0..residual.len())
        .map(|i| parts.iter().map(|part| part[i].to_f64()).sum::<f64>() + residual[i].to_f64())
        .collect();
    let squares = sums.iter().map(|s| s * s).sum::<f64>();
    let scale = (squares / sums.len() as f64 + f64::from(EPS)).sqrt().recip();
    let out = sums.iter().zip(weight).map(|(s, w)| s * scale * w.to_f64()).collect();
    (sums.into_iter().map(bf16::from_f64).collect(), out)
}

/// Calls that follow one another on the same buffers, with data of their own in `x`, and nothing between them.
pub struct Run {
    x: Vec<SymBuf<Bf16x8>>,
    residual: SymBuf<Bf16x8>,
    weight: Buf<Bf16x8>,
    out: Buf<Bf16x8>,
    hidden: usize,
    seed: u64,
}

const WEIGHT: u64 = 1000;
const RESIDUAL: u64 = 2000;

impl Run {
    /// Buffers of `tokens` rows for so many calls. Collective over the World.
    ///
    /// # Errors
    /// Those of allocations.
    pub fn new(pe: &Pe, hidden: usize, tokens: usize, calls: usize, seed: u64) -> anyhow::Result<Self> {
        let len = hidden * tokens;
        let run = Self {
            x: (0..calls).map(|_| pe.alloc(len / 8)).collect::<Result<_, _>>()?,
            residual: pe.alloc(len / 8)?,
            weight: pe.buffer(hidden / 8)?,
            out: pe.buffer(len / 8)?,
            hidden,
            seed,
        };
        for (call, x) in run.x.iter().enumerate() {
            x.write(&lines(seed + call as u64, pe.id(), len))?;
        }
        run.weight.write(&lines(seed + WEIGHT, 0, hidden))?;
        run.residual.write(&lines(seed + RESIDUAL, 0, len))?;
        Ok(run)
    }

    /// The arguments of a call.
    pub fn rows(&self, call: usize, tokens: usize) -> Rows<'_> {
        Rows {
            x: &self.x[call],
            residual: &self.residual,
            weight: &self.weight,
            out: &self.out,
            tokens,
            eps: EPS,
        }
    }

    /// After calls of so many tokens each, whether sums and normalised rows are right: all rows of a few, some of many.
    ///
    /// # Errors
    /// The first number that is not.
    pub fn check(&self, members: &[u32], calls: &[(usize, usize)]) -> anyhow::Result<()> {
        let (residual, out) = (self.residual.to_vec()?, self.out.to_vec()?);
        let (residual, out): (&[bf16], &[bf16]) = (cast_slice(&residual), cast_slice(&out));
        let (hidden, seed) = (self.hidden, self.seed);
        let tokens = out.len() / hidden;
        let row = |seed, pe, t: usize| {
            (t * hidden..(t + 1) * hidden)
                .map(|i| number(seed, pe, i))
                .collect::<Vec<_>>()
        };
        let weight = row(seed + WEIGHT, 0, 0);
        for t in (0..tokens).step_by(1.max(tokens / 40)) {
            let (mut sum, mut normal) = (row(seed + RESIDUAL, 0, t), vec![0.0; hidden]);
            for &(call, _) in calls.iter().filter(|(_, tokens)| t < *tokens) {
                let parts: Vec<_> = members.iter().map(|&pe| row(seed + call as u64, pe, t)).collect();
                (sum, normal) = expected(&parts, &sum, &weight);
            }
            for i in 0..hidden {
                let (s, y) = (residual[t * hidden + i], out[t * hidden + i].to_f64());
                ensure!(s == sum[i], "token {t}: sum {i} is {s}, expected {}", sum[i]);
                ensure!(
                    (y - normal[i]).abs() <= 1e-2 * normal[i].abs(),
                    "token {t}: number {i} is {y}, expected {}",
                    normal[i]
                );
            }
        }
        Ok(())
    }

    /// Faults unless all PEs have the same bits. Collective over the World.
    ///
    /// # Errors
    /// A PE that has others.
    pub fn check_alike(&self, pe: &Pe) -> anyhow::Result<()> {
        let words = |lines: Vec<Bf16x8>| cast_slice::<Bf16x8, u64>(&lines).to_vec();
        let fold = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        let mine = [words(self.residual.to_vec()?), words(self.out.to_vec()?)]
            .concat()
            .into_iter()
            .fold(0, fold);
        let (all, own) = (pe.alloc::<u64>(pe.n() as usize)?, pe.alloc::<u64>(1)?);
        own.write(&[mine])?;
        pe.stream().fcollect(&pe.world(), &all, &own)?;
        let all = all.to_vec()?;
        ensure!(
            all.iter().all(|hash| *hash == mine),
            "PEs have different results: {all:x?}"
        );
        Ok(())
    }
}

/// Calls of so many tokens, one after the other, then twice more from a graph, among all PEs.
///
/// # Errors
/// The first number that is wrong.
pub fn check(pe: &Pe, hidden: usize, calls: &[usize], by: Option<Algorithm>, seed: u64) -> anyhow::Result<()> {
    let tokens = calls.iter().copied().max().unwrap_or(0).max(1);
    let world = pe.world();
    let norm = match by {
        // More rows than packets would be taken for.
        Some(Algorithm::Packets) => FusedNorm::with_packets(pe, &world, hidden, tokens, usize::MAX)?,
        _ => FusedNorm::new(pe, &world, hidden, tokens)?,
    };
    check_with(pe, &norm, hidden, calls, by, seed)
}

/// The same with words and boxes that may have been used before.
///
/// # Errors
/// As [`check`].
pub fn check_with(
    pe: &Pe,
    norm: &FusedNorm<'_>,
    hidden: usize,
    calls: &[usize],
    by: Option<Algorithm>,
    seed: u64,
) -> anyhow::Result<()> {
    let (tokens, stream) = (calls.iter().copied().max().unwrap_or(0), pe.stream());
    let run = Run::new(pe, hidden, tokens, calls.len(), seed)?;
    let enqueue = || {
        calls
            .iter()
            .enumerate()
            .try_for_each(|(i, &n)| norm.enqueue(stream, run.rows(i, n), by))
    };
    enqueue()?;
    let graph = stream.capture(enqueue)?;
    graph.launch(stream)?;
    graph.launch(stream)?;
    let members: Vec<u32> = (0..pe.n()).collect();
    let made: Vec<_> = calls.iter().copied().enumerate().collect();
    let what = || format!("hidden {hidden}, {calls:?} tokens by {by:?}");
    run.check(&members, &made.repeat(3)).with_context(what)?;
    run.check_alike(pe).with_context(what)
}
