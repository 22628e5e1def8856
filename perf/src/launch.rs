//! launch: what a launch costs on the host, by this library and by the driver's call alone; and a graph of as many.

use crate::bench::Bench;
use shmem_host::{Error, LaunchConfig, collective_launch, launch};
use shmem_perf::{alone, nothing, nothing_of};
use std::time::{Duration, Instant};

/// Launches in a row: fewer than a stream's queue takes without waiting.
const LAUNCHES: u32 = 1000;
const REPETITIONS: usize = 51;

/// Seconds of one launch: until all are enqueued, and until all have run.
#[derive(Clone, Copy)]
struct Took {
    enqueued: f64,
    run: f64,
}

pub(crate) fn back_to_back(b: &Bench) -> anyhow::Result<()> {
    let pe = b.pe;
    let launches = match (b.options.iters, b.simulated) {
        (Some(iters), _) => iters,
        (None, true) => 4,
        (None, false) => LAUNCHES,
    };
    // Two blocks: one is never launched cooperatively.
    let config = || LaunchConfig::new(2, 32).collective();
    let (buffer, signals) = (pe.alloc::<u32>(64)?, pe.signals(1)?);
    let often = |launch: &dyn Fn() -> Result<(), Error>| (0..launches).try_for_each(|_| launch());
    let graph = pe
        .stream()
        .capture(|| often(&|| collective_launch!(pe, nothing<<<2, 32>>>())))?;
    let [plain, bare, ours, bare_of, ours_of, graph] = medians(
        b,
        launches,
        [
            &|| often(&|| launch!(pe, alone<<<1, 32>>>())),
            &|| pe.__launch_bare(config(), nothing(), launches),
            &|| often(&|| collective_launch!(pe, nothing<<<2, 32>>>())),
            &|| pe.__launch_bare(config(), nothing_of(&buffer, &buffer, &signals, 7), launches),
            &|| often(&|| collective_launch!(pe, nothing_of<<<2, 32>>>(&buffer, &buffer, &signals, 7))),
            &|| graph.launch(pe.stream()),
        ],
    )?;
    // The peer's names, for the kinds of launches that it has.
    for (variant, took) in [
        ("chevron", plain),
        ("cudaLaunchCooperativeKernel", bare),
        ("nvshmemx_collective_launch", ours),
        ("cudaLaunchCooperativeKernel_four_arguments", bare_of),
        ("nvshmemx_collective_launch_four_arguments", ours_of),
    ] {
        b.us("launch", &format!("{variant}_enqueue"), 0, took.enqueued);
        b.us("launch", variant, 0, took.run);
    }
    b.us("launch", "graph", 0, graph.run);
    for (name, ours, bare) in [("no_arguments", ours, bare), ("four_arguments", ours_of, bare_of)] {
        let over = |ours: f64, bare: f64, of: &str| {
            b.row("launch", &format!("{name}_{of}_over_bare"), 0, ours / bare, "ratio");
        };
        over(ours.enqueued, bare.enqueued, "enqueue");
        over(ours.run, bare.run, "run");
    }
    b.row("launch", "graph_run_over_bare", 0, graph.run / bare.run, "ratio");
    Ok(())
}

/// Medians of each way, of the slowest PE's times. They take turns, so that what changes with time is the same for all.
fn medians<const N: usize>(
    b: &Bench,
    launches: u32,
    ways: [&dyn Fn() -> Result<(), Error>; N],
) -> anyhow::Result<[Took; N]> {
    let repetitions = match (b.options.repetitions, b.simulated || b.options.quick) {
        (Some(repetitions), _) => repetitions as usize,
        (None, true) => 1,
        (None, false) => REPETITIONS,
    };
    let mut took = ways.map(|_| (vec![], vec![]));
    // The first is a warm-up.
    for repetition in 0..=repetitions {
        for (way, (enqueued, run)) in ways.iter().zip(&mut took) {
            b.pe.barrier_all()?;
            let start = Instant::now();
            way()?;
            let after = start.elapsed();
            b.pe.stream().synchronize()?;
            if repetition > 0 {
                let each = |time: Duration| time.as_secs_f64() / f64::from(launches);
                enqueued.push(each(after));
                run.push(each(start.elapsed()));
            }
        }
    }
    let median = |mut all: Vec<f64>| {
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    Ok(took.map(|(enqueued, run)| Took {
        enqueued: median(enqueued),
        run: median(run),
    }))
}
