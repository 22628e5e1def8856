//! Dispatch and combine on the simulator, against the same in f64.
use moe::{Config, Moe, Shape, Tokens, factor, stand_in};
use shmem::bf16;
use shmem::bytemuck::cast_slice;
use shmem::fp8::E4m3x8;
use shmem::vector::Bf16x8;
use shmem_host::{Backend, Buf, Pe, World, launch};

/// How experts are chosen.
#[derive(Clone, Copy, Debug)]
enum Routing {
    /// Any, and some dropped.
    Random,
    /// The first `top` of them for every token.
    Same,
    /// None for any token.
    Dropped,
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
struct Batch {
    x: Vec<bf16>,
    chosen: Vec<i32>,
    weight: Vec<f32>,
}

impl Batch {
    fn new(s: Shape, routing: Routing, seed: u64, pe: u32) -> Self {
        let pe = u64::from(pe);
        let unit = |h: u64| (h >> 40) as f32 / (1 << 23) as f32 - 1.0;
        let x = 0..u64::from(s.tokens * s.hidden);
        // Rows of very different sizes, one of zeros.
        let size = |i: u64| 2f32.powi(i as i32 / s.hidden as i32 * 9 % 30 - 15) * f32::from(i as u32 / s.hidden != 2);
        let mut chosen = vec![];
        for token in 0..s.tokens {
            let first = hash([seed, pe, token.into(), 1]) % u64::from(s.experts);
            for k in 0..s.top {
                let any = ((first + u64::from(k * 7 % s.top)) % u64::from(s.experts)) as i32;
                let drop = hash([seed, pe, token.into(), u64::from(k) + 7]).is_multiple_of(4);
                chosen.push(match routing {
                    Routing::Random if drop => -1,
                    Routing::Random => any,
                    Routing::Same => k as i32,
                    Routing::Dropped => -1,
                    Routing::OnePe => {
                        if pe == 1 {
                            any
                        } else {
                            -1
                        }
                    }
                });
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
    moe: Moe<'a>,
}

impl Run<'_> {
    /// Checks what was packed.
    fn packed(&self, work: &moe::Work, batches: &[Batch]) -> anyhow::Result<()> {
        let (s, n, me) = (self.config.shape, self.pe.n(), self.pe.id());
        let (local, room, hidden) = (s.local(n), (n * s.tokens) as usize, s.hidden as usize);
        let (rows, scales) = (work.rows.to_vec()?, work.scales.to_vec()?);
        let (len, place) = (work.len.to_vec()?, work.place.to_vec()?);
        let mut places = 0;
        for expert in 0..local {
            let jobs = jobs_of(s, batches, me * local + expert);
            anyhow::ensure!(
                len[expert as usize] as usize == jobs.len(),
                "{} rows of expert {expert}: {jobs:?}",
                len[expert as usize]
            );
            for (i, &(from, token, k)) in jobs.iter().enumerate() {
                let row = expert as usize * room + i;
                places += 1;
                let job = (from * s.tokens as usize + token) * s.top as usize + k;
                anyhow::ensure!(
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
                    let largest = batches[from].largest(s, token, i);
                    // Half of the last bit of three, or of e4m3's smallest number.
                    let close = if self.config.fp8 {
                        (x.to_f64().abs() / 16.0).max(largest / 448.0 / 1024.0) * 1.001
                    } else {
                        0.0
                    };
                    anyhow::ensure!(
                        (got - x.to_f64()).abs() <= close,
                        "number {i} of job {job} is {got}, expected {x}"
                    );
                }
            }
        }
        anyhow::ensure!(
            place.iter().filter(|place| **place != moe::NONE).count() == places,
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
            let largest = batch.largest(s, token, i % s.hidden as usize);
            let close = if self.config.fp8 {
                size / 14.0 + largest * 16.0 / 448.0 / 512.0
            } else {
                (size + sum.abs()) / 256.0
            };
            anyhow::ensure!(
                (got.to_f64() - sum).abs() <= close,
                "number {i} is {got}, expected {sum} within {close}"
            );
        }
        Ok(())
    }
}

/// Six batches: in one piece, in halves with work between, two at a time, and three from a graph.
fn check(pe: &Pe, config: Config, routing: Routing, seed: u64) -> anyhow::Result<()> {
    let (s, n) = (config.shape, pe.n());
    let run = Run {
        pe,
        config,
        moe: Moe::new(pe, config)?,
    };
    let numbers = (s.tokens * s.hidden / 8) as usize;
    let jobs = (s.tokens * s.top) as usize;
    let sets = [0, 1].map(|_| {
        let buffers = (
            pe.buffer::<Bf16x8>(numbers)?,
            pe.buffer::<i32>(jobs)?,
            pe.buffer::<f32>(jobs)?,
            pe.buffer::<Bf16x8>(numbers)?,
        );
        anyhow::Ok((buffers, run.moe.work()?, run.moe.results()?))
    });
    let [a, b] = sets;
    let (a, b) = (a?, b?);
    let write = |((x, chosen, weight, _), ..): &Set, step: u64| -> anyhow::Result<Vec<Batch>> {
        let batches: Vec<_> = (0..n).map(|pe| Batch::new(s, routing, seed * 100 + step, pe)).collect();
        let mine = &batches[pe.id() as usize];
        x.write(cast_slice(&mine.x))?;
        chosen.write(&mine.chosen)?;
        weight.write(&mine.weight)?;
        Ok(batches)
    };
    let experts = |(_, work, y): &Set| {
        if config.fp8 {
            launch!(pe, stand_in::<true><<<2, 32>>>(s, work.packed(), y))
        } else {
            launch!(pe, stand_in::<false><<<2, 32>>>(s, work.packed(), y))
        }
    };
    let read = |((.., z), ..): &Set| z.to_vec();

    // In one piece.
    let batches = write(&a, 0)?;
    run.moe.dispatch(of(&a), &a.1)?;
    run.packed(&a.1, &batches)?;
    experts(&a)?;
    run.moe.combine(&a.2, &a.1, of(&a), &a.0.3)?;
    run.sums(&read(&a)?, &batches)?;

    // Two at a time, with the work of one between the halves of the other.
    let (first, second) = (write(&a, 1)?, write(&b, 2)?);
    run.moe.dispatch_send(of(&a), &a.1)?.receive()?;
    let pending = run.moe.dispatch_send(of(&b), &b.1)?;
    experts(&a)?;
    pending.receive()?;
    let pending = run.moe.combine_send(&a.2, &a.1, of(&a), &a.0.3)?;
    experts(&b)?;
    pending.receive()?;
    run.moe.combine_send(&b.2, &b.1, of(&b), &b.0.3)?.receive()?;
    run.packed(&a.1, &first)?;
    run.packed(&b.1, &second)?;
    run.sums(&read(&a)?, &first)?;
    run.sums(&read(&b)?, &second)?;

    // From a graph.
    let graph = pe.stream().capture(|| {
        run.moe.dispatch(of(&a), &a.1)?;
        experts(&a)?;
        run.moe.combine(&a.2, &a.1, of(&a), &a.0.3)
    })?;
    for step in 3..6 {
        let batches = write(&a, step)?;
        graph.launch(pe.stream())?;
        run.packed(&a.1, &batches)?;
        run.sums(&read(&a)?, &batches)?;
    }
    Ok(pe.barrier_all()?)
}

type Set = ((Buf<Bf16x8>, Buf<i32>, Buf<f32>, Buf<Bf16x8>), moe::Work, Buf<Bf16x8>);

fn of(((x, chosen, weight, _), ..): &Set) -> Tokens<'_> {
    Tokens { x, chosen, weight }
}

fn on_worlds(routing: Routing, fp8: bool, shapes: &[(u32, u32, u32, u32)]) {
    for (seed, &(tokens, top, experts, hidden)) in (0..).zip(shapes) {
        for pes in 1..=4 {
            let shape = Shape {
                tokens,
                top,
                experts,
                hidden,
            };
            let config = Config {
                shape,
                fp8,
                blocks: Some(1 + seed as u32 % 3),
                threads: if fp8 { 32 } else { 64 },
            };
            let world = World::builder()
                .backend(Backend::Sim)
                .pes(pes)
                .seed(seed)
                .build()
                .unwrap();
            if let Err(error) = world.run(|pe| check(&pe, config, routing, seed)) {
                panic!("{routing:?}, {config:?}, {pes} PEs, seed {seed}: {error:?}");
            }
        }
    }
}

#[test]
fn any_experts() {
    on_worlds(Routing::Random, false, &[(1, 1, 1, 8), (3, 4, 7, 24), (5, 2, 8, 600)]);
}

#[test]
fn any_experts_in_fp8() {
    on_worlds(Routing::Random, true, &[(4, 3, 5, 128), (2, 5, 12, 640)]);
}

#[test]
fn the_same_experts_for_all() {
    on_worlds(Routing::Same, false, &[(6, 3, 9, 16)]);
    on_worlds(Routing::Same, true, &[(3, 2, 9, 128)]);
}

#[test]
fn tokens_of_one_pe_or_of_none() {
    on_worlds(Routing::Dropped, false, &[(2, 3, 4, 8)]);
    on_worlds(Routing::OnePe, false, &[(3, 3, 6, 16)]);
}
