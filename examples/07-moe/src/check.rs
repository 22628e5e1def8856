//! A dispatch and a combine, and the same in f64 on the CPU: what tests and the program run.

use crate::{Config, Moe, NONE, Shape, Tokens, Work, factor, stand_in};
use anyhow::ensure;
use shmem::bf16;
use shmem::bytemuck::cast_slice;
use shmem::fp8::E4m3x8;
use shmem::vector::Bf16x8;
use shmem_host::{Buf, Error, Pe, launch};

/// How experts are chosen.
#[derive(Clone, Copy, Debug)]
pub enum Routing {
    /// Any.
    Any,
    /// Any, and a quarter dropped.
    Some,
    /// The first `top` of them for every token.
    Same,
    /// Any for the tokens of PE 1, none for the others'.
    OnePe,
}

/// A random number that depends on all of them.
fn hash(numbers: [u64; 4]) -> u64 {
    numbers.iter().fold(0x9e37_79b9_7f4a_7c15, |h: u64, n| {
        let h = (h ^ n).wrapping_mul(0xff51_afd7_ed55_8ccd);
        h ^ h >> 32
    })
}

/// One PE's tokens, on the host.
pub struct Batch {
    x: Vec<bf16>,
    chosen: Vec<i32>,
    weight: Vec<f32>,
}

impl Batch {
    /// Those of a PE, which follow from the seed.
    pub fn new(s: Shape, routing: Routing, seed: u64, pe: u32) -> Self {
        let pe = u64::from(pe);
        let unit = |h: u64| (h >> 40) as f32 / (1 << 23) as f32 - 1.0;
        let x = 0..u64::from(s.tokens * s.hidden);
        // Rows of very different sizes, one of zeros.
        let size = |i: u64| 2f32.powi(i as i32 / s.hidden as i32 * 9 % 30 - 15) * f32::from(i as u32 / s.hidden != 2);
        let mut chosen = vec![];
        for token in 0..s.tokens {
            let of = |i: u32, what| hash([seed, pe, u64::from(token) << 32 | u64::from(i), what]);
            let mut any: Vec<_> = (0..s.experts as i32).collect();
            any.sort_by_key(|expert| of(*expert as u32, 1));
            for k in 0..s.top {
                let none = match routing {
                    Routing::Some => of(k, 4).is_multiple_of(4),
                    Routing::Any | Routing::Same => false,
                    Routing::OnePe => pe != 1,
                };
                let expert = if matches!(routing, Routing::Same) {
                    k as i32
                } else {
                    any[k as usize]
                };
                chosen.push(if none { -1 } else { expert });
            }
        }
        let weight = 0..u64::from(s.tokens * s.top);
        Self {
            x: x.map(|i| bf16::from_f32(unit(hash([seed, pe, i, 2])) * size(i)))
                .collect(),
            chosen,
            weight: weight.map(|i| unit(hash([seed, pe, i, 3]))).collect(),
        }
    }
}

impl Batch {
    /// The size of the largest of the 128 numbers of a row that share a scale.
    fn largest(&self, s: Shape, token: usize, i: usize) -> f64 {
        let row = self.x.chunks(s.hidden as usize).nth(token).unwrap_or(&[]);
        let group = row.chunks(128).nth(i / 128).unwrap_or(&[]);
        group.iter().fold(0.0, |most, x| most.max(x.to_f64().abs()))
    }
}

/// What the rows of an expert must be, in order: (source PE, token, k).
fn jobs_of(s: Shape, batches: &[Batch], expert: u32) -> Vec<(usize, usize, usize)> {
    let mut jobs = vec![];
    for (pe, batch) in batches.iter().enumerate() {
        for (job, &chosen) in batch.chosen.iter().enumerate() {
            if chosen == expert as i32 {
                jobs.push((pe, job / s.top as usize, job % s.top as usize));
            }
        }
    }
    jobs
}

struct Run<'a> {
    pe: &'a Pe,
    config: Config,
}

impl Run<'_> {
    /// Checks what was packed.
    fn packed(&self, work: &Work, batches: &[Batch]) -> anyhow::Result<()> {
        let (s, n, me) = (self.config.shape, self.pe.n(), self.pe.id());
        let (local, room, hidden) = (s.local(n), (n * s.tokens) as usize, s.hidden as usize);
        let (rows, scales) = (work.rows.to_vec()?, work.scales.to_vec()?);
        let (len, place) = (work.len.to_vec()?, work.place.to_vec()?);
        let mut places = 0;
        for expert in 0..local {
            let jobs = jobs_of(s, batches, me * local + expert);
            ensure!(
                len[expert as usize] as usize == jobs.len(),
                "{} rows of expert {expert}: {jobs:?}",
                len[expert as usize]
            );
            for (i, &(from, token, k)) in jobs.iter().enumerate() {
                let row = expert as usize * room + i;
                places += 1;
                let job = (from * s.tokens as usize + token) * s.top as usize + k;
                ensure!(
                    place[job] as usize == row,
                    "job {job} is at {}, expected {row}",
                    place[job]
                );
                let x = &batches[from].x[token * hidden..][..hidden];
                let got: Vec<f64> = if self.config.fp8 {
                    let codes: &[E4m3x8] = cast_slice(&rows);
                    let scales: &[f32] = cast_slice(&scales);
                    let pitch = hidden.div_ceil(512) * 4;
                    let of = |i: usize| codes[row * hidden / 8 + i / 8].f32()[i % 8] * scales[row * pitch + i / 128];
                    (0..hidden).map(|i| f64::from(of(i))).collect()
                } else {
                    let all: &[bf16] = cast_slice(&rows);
                    all[row * hidden..][..hidden].iter().map(|x| x.to_f64()).collect()
                };
                for (i, (got, x)) in got.iter().zip(x).enumerate() {
                    // Half of the last bit of three, or of e4m3's smallest number.
                    let close = if self.config.fp8 {
                        let largest = batches[from].largest(s, token, i);
                        (x.to_f64().abs() / 16.0).max(largest / 448.0 / 1024.0) * 1.001
                    } else {
                        0.0
                    };
                    ensure!(
                        (got - x.to_f64()).abs() <= close,
                        "number {i} of job {job} is {got}, expected {x}"
                    );
                }
            }
        }
        ensure!(
            place.iter().filter(|place| **place != NONE).count() == places,
            "{place:?}"
        );
        Ok(())
    }

    /// Checks the sums.
    fn sums(&self, z: &[Bf16x8], batches: &[Batch]) -> anyhow::Result<()> {
        let (s, batch) = (self.config.shape, &batches[self.pe.id() as usize]);
        for (i, got) in cast_slice::<_, bf16>(z).iter().enumerate() {
            let token = i / s.hidden as usize;
            let (mut sum, mut size) = (0.0, 0.0);
            for job in token * s.top as usize..(token + 1) * s.top as usize {
                if batch.chosen[job] >= 0 {
                    let by = f64::from(factor(batch.chosen[job] as u32)) * f64::from(batch.weight[job]);
                    sum += by * batch.x[i].to_f64();
                    size += (by * batch.x[i].to_f64()).abs();
                }
            }
            // Of fp8, a group's smallest numbers are not near.
            let close = if self.config.fp8 {
                let largest = batch.largest(s, token, i % s.hidden as usize);
                size / 14.0 + largest * 16.0 / 448.0 / 512.0
            } else {
                (size + sum.abs()) / 256.0
            };
            ensure!(
                (got.to_f64() - sum).abs() <= close,
                "number {i} is {got}, expected {sum} within {close}"
            );
        }
        Ok(())
    }
}

/// A batch on the device: tokens, what the experts get and make of it, and the sums.
pub struct Set {
    x: Buf<Bf16x8>,
    chosen: Buf<i32>,
    weight: Buf<f32>,
    work: Work,
    y: Buf<Bf16x8>,
    z: Buf<Bf16x8>,
}

impl Set {
    /// Room for one.
    ///
    /// # Errors
    /// Those of allocations.
    pub fn new(pe: &Pe, s: Shape, moe: &Moe<'_>) -> Result<Self, Error> {
        let (numbers, jobs) = ((s.tokens * s.hidden / 8) as usize, (s.tokens * s.top) as usize);
        Ok(Self {
            x: pe.buffer(numbers)?,
            chosen: pe.buffer(jobs)?,
            weight: pe.buffer(jobs)?,
            work: moe.work()?,
            y: moe.results()?,
            z: pe.buffer(numbers)?,
        })
    }

    /// # Errors
    /// Those of writes.
    pub fn write(&self, batch: &Batch) -> Result<(), Error> {
        self.x.write(cast_slice(&batch.x))?;
        self.chosen.write(&batch.chosen)?;
        self.weight.write(&batch.weight)
    }

    /// # Errors
    /// Those of launches.
    pub fn dispatch(&self, moe: &Moe<'_>) -> anyhow::Result<()> {
        moe.dispatch(self.tokens(), &self.work)
    }

    /// # Errors
    /// Those of launches.
    pub fn combine(&self, moe: &Moe<'_>) -> Result<(), Error> {
        moe.combine(&self.y, &self.work, self.tokens(), &self.z)
    }

    fn tokens(&self) -> Tokens {
        Tokens {
            x: self.x.handle(),
            chosen: self.chosen.handle(),
            weight: self.weight.handle(),
        }
    }
}

/// Six batches: in one piece, in halves with work between, two at a time, and three from a graph. Collective.
///
/// # Errors
/// What is wrong.
pub fn check(pe: &Pe, config: Config, routing: Routing, seed: u64) -> anyhow::Result<()> {
    let s = config.shape;
    let moe = Moe::new(pe, config)?;
    let (a, b) = (Set::new(pe, s, &moe)?, Set::new(pe, s, &moe)?);
    let run = Run { pe, config };
    let write = |set: &Set, step: u64| -> anyhow::Result<Vec<Batch>> {
        let batches: Vec<_> = (0..pe.n())
            .map(|pe| Batch::new(s, routing, seed * 100 + step, pe))
            .collect();
        set.write(&batches[pe.id() as usize])?;
        Ok(batches)
    };
    let experts = |set: &Set| {
        let grid = moe.config().blocks.unwrap_or(264);
        if config.fp8 {
            launch!(pe, stand_in::<true><<<grid, 128>>>(s, set.work.packed(), &set.y))
        } else {
            launch!(pe, stand_in::<false><<<grid, 128>>>(s, set.work.packed(), &set.y))
        }
    };

    let batches = write(&a, 0)?;
    a.dispatch(&moe)?;
    run.packed(&a.work, &batches)?;
    experts(&a)?;
    a.combine(&moe)?;
    run.sums(&a.z.to_vec()?, &batches)?;

    let (first, second) = (write(&a, 1)?, write(&b, 2)?);
    moe.dispatch_send(a.tokens(), &a.work)?.receive()?;
    let pending = moe.dispatch_send(b.tokens(), &b.work)?;
    ensure!(
        a.dispatch(&moe).is_err(),
        "a dispatch ahead of the last one's second half"
    );
    experts(&a)?;
    pending.receive()?;
    let pending = moe.combine_send(&a.y, &a.work, a.tokens(), &a.z)?;
    experts(&b)?;
    pending.receive()?;
    moe.combine_send(&b.y, &b.work, b.tokens(), &b.z)?.receive()?;
    for (set, batches) in [(&a, &first), (&b, &second)] {
        run.packed(&set.work, batches)?;
        run.sums(&set.z.to_vec()?, batches)?;
    }

    let graph = pe.stream().capture(|| -> anyhow::Result<()> {
        a.dispatch(&moe)?;
        experts(&a)?;
        Ok(a.combine(&moe)?)
    })?;
    for step in 3..6 {
        let batches = write(&a, step)?;
        graph.launch(pe.stream())?;
        run.packed(&a.work, &batches)?;
        run.sums(&a.z.to_vec()?, &batches)?;
    }
    Ok(pe.barrier_all()?)
}
