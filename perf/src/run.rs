//! Runs benchmarks on a World.

use crate::Benchmark;
use crate::bench::{Bench, Shared};
use crate::cli::Common;
use crate::init::make_context;
use crate::options::{OptionError, Options};
use crate::output::{About, Output};
use crate::peer::Peer;
use anyhow::ensure;
use shmem_host::World;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

pub(crate) fn run(benchmarks: &[&Benchmark], options: &Options, common: &Common) -> anyhow::Result<()> {
    make_context()?;
    let start = Instant::now();
    let world = World::from_env()?;
    let (pes, backend) = (world.n(), world.backend_name());
    ensure!(
        pes >= 2,
        "a World of {pes} PE: the benchmarks go between PE 0 and PE 1; say --pes 2, or start two processes (shmem-run -n 2)"
    );
    let peers = common
        .peer
        .iter()
        .map(|file| Peer::read(file, pes))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let about = About { backend, pes };
    let output = Output::new(about, peers, common, benchmarks.len())?;
    let wrong_rows = AtomicU32::new(0);
    let shared = Shared {
        options,
        print: &|row| output.row(row),
        wrong_rows: &wrong_rows,
    };
    let ran = world.run(|pe| -> anyhow::Result<()> {
        pe.barrier_all()?;
        let mut bench = Bench::new(&pe, &shared, start.elapsed().as_secs_f64())?;
        for benchmark in benchmarks {
            if pe.id() == 0 {
                output.begin(benchmark.name);
            }
            bench.name = benchmark.name;
            (benchmark.run)(&bench).map_err(|error| {
                // That one names the benchmark itself.
                if error.is::<OptionError>() {
                    error
                } else {
                    error.context(benchmark.name)
                }
            })?;
        }
        Ok(())
    });
    // What was measured before an error is written all the same.
    output.finish()?;
    ran?;
    let wrong = wrong_rows.into_inner();
    ensure!(wrong == 0, "{wrong} rows have wrong data: their value is nan");
    Ok(())
}
