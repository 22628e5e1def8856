//! Times of collectives on a stream, for `cargo run --release -p shmem-host --example stream_collectives`: one after the other, and in
//! a graph of 20. On the simulator they say nothing about GPUs.
use shmem::collective::Sum;
use shmem_host::{Error, Pe, World};

const TIMES: u32 = 20;
/// Bytes of the larger side.
const SIZES: [usize; 10] = [
    8,
    4 << 10,
    8 << 10,
    32 << 10,
    128 << 10,
    512 << 10,
    2 << 20,
    16 << 20,
    64 << 20,
    256 << 20,
];

fn main() -> anyhow::Result<()> {
    let world = World::from_env()?;
    let gpu = world.backend_name() == "cuda";
    world.run(|pe| -> anyhow::Result<()> {
        let most: usize = if gpu { 256 << 20 } else { 16 << 10 };
        let (dst, src) = (pe.alloc::<f32>(most / 4)?, pe.alloc::<f32>(most / 4)?);
        let (team, n) = (pe.world(), pe.n() as usize);
        if pe.id() == 0 {
            if !gpu {
                println!("The simulator's times, which say nothing about GPUs:");
            }
            println!("us: one after the other, in a graph");
        }
        report(&pe, "barrier", 0, || pe.stream().barrier(&team))?;
        for bytes in SIZES.into_iter().filter(|bytes| *bytes <= most) {
            let (to, from) = (dst.part(..bytes / 4)?, src.part(..bytes / 4)?);
            report(&pe, "reduce", bytes, || pe.stream().reduce(&team, Sum, to, from))?;
            report(&pe, "reduce in place", bytes, || pe.stream().reduce(&team, Sum, to, to))?;
            report(&pe, "broadcast", bytes, || pe.stream().broadcast(&team, to, from, 0))?;
            if bytes / 4 % n == 0 {
                let (part, own) = (src.part(..bytes / 4 / n)?, dst.part(..bytes / 4 / n)?);
                report(&pe, "reduce_scatter", bytes, || {
                    pe.stream().reduce_scatter(&team, Sum, own, from)
                })?;
                report(&pe, "fcollect", bytes, || pe.stream().fcollect(&team, to, part))?;
                report(&pe, "alltoall", bytes, || pe.stream().alltoall(&team, to, from))?;
            }
        }
        Ok(())
    })
}

fn report(pe: &Pe, name: &str, bytes: usize, call: impl Fn() -> Result<(), Error>) -> anyhow::Result<()> {
    let stream = pe.stream();
    let all = || (0..TIMES).try_for_each(|_| call());
    let graph = stream.capture(all)?;
    let mut best = [f64::MAX; 2];
    for _ in 0..3 {
        pe.barrier_all()?;
        let took = [stream.timed(all)?, stream.timed(|| graph.launch(stream))?];
        for (best, took) in best.iter_mut().zip(took) {
            *best = best.min(took.as_secs_f64() * 1e6 / f64::from(TIMES));
        }
    }
    if pe.id() == 0 {
        println!("{name:16} {bytes:10} {:9.2} {:9.2}", best[0], best[1]);
    }
    Ok(())
}
