//! What a collective launch costs on the host, beside the driver's call alone.

use crate::measure::Row;
use shmem_host::{Error, LaunchConfig, Pe, collective_launch};
use shmem_perf::{nothing, nothing_of};
use std::time::{Duration, Instant};

/// Launches in a row: fewer than a stream's queue takes without waiting.
const LAUNCHES: u32 = 1000;
const REPETITIONS: usize = 51;

/// Microseconds of one launch: until all are enqueued, and until all have run.
#[derive(Clone, Copy)]
struct Took {
    enqueued: f64,
    run: f64,
}

fn once(pe: &Pe, launch: &dyn Fn() -> Result<(), Error>) -> anyhow::Result<Took> {
    pe.barrier_all()?;
    let start = Instant::now();
    launch()?;
    let enqueued = start.elapsed();
    pe.stream().synchronize()?;
    let each = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(LAUNCHES);
    Ok(Took {
        enqueued: each(enqueued),
        run: each(start.elapsed()),
    })
}

/// Medians of each way. They take turns, so that what changes with time is the same for all.
fn measure<const N: usize>(pe: &Pe, ways: [&dyn Fn() -> Result<(), Error>; N]) -> anyhow::Result<[Took; N]> {
    let repetitions = if pe.device_name() == "the simulator" {
        1
    } else {
        REPETITIONS
    };
    let mut took = ways.map(|_| vec![]);
    // The first is a warm-up.
    for repetition in 0..=repetitions {
        for (way, took) in ways.iter().zip(&mut took) {
            let time = once(pe, way)?;
            if repetition > 0 {
                took.push(time);
            }
        }
    }
    let median = |took: &[Took], of: fn(&Took) -> f64| {
        let mut all: Vec<f64> = took.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    Ok(took.map(|took| Took {
        enqueued: median(&took, |took| took.enqueued),
        run: median(&took, |took| took.run),
    }))
}

/// Rows of this library's launch, of the driver's, and their ratio; and of a graph of as many launches.
pub(crate) fn back_to_back(pe: &Pe, mut print: impl FnMut(Row)) -> anyhow::Result<()> {
    let config = || LaunchConfig::new(1, 32).collective();
    let (buffer, signals) = (pe.alloc::<u32>(64)?, pe.signals(1)?);
    let often = |launch: &dyn Fn() -> Result<(), Error>| (0..LAUNCHES).try_for_each(|_| launch());
    let graph = pe
        .stream()
        .capture(|| often(&|| collective_launch!(pe, nothing<<<1, 32>>>())))?;
    let [ours, bare, ours_of, bare_of, graph] = measure(
        pe,
        [
            &|| often(&|| collective_launch!(pe, nothing<<<1, 32>>>())),
            &|| pe.__launch_bare(config(), nothing(), LAUNCHES),
            &|| often(&|| collective_launch!(pe, nothing_of<<<1, 32>>>(&buffer, &buffer, &signals, 7))),
            &|| pe.__launch_bare(config(), nothing_of(&buffer, &buffer, &signals, 7), LAUNCHES),
            &|| graph.launch(pe.stream()),
        ],
    )?;
    let mut row = |variant: &str, value: f64, unit| {
        print(Row {
            bench: "launch",
            variant: variant.to_owned(),
            bytes: 0,
            value,
            unit,
        });
    };
    for (name, ours, bare) in [("no_arguments", ours, bare), ("four_arguments", ours_of, bare_of)] {
        row(&format!("{name}_enqueue"), ours.enqueued, "us");
        row(&format!("{name}_enqueue_bare"), bare.enqueued, "us");
        row(
            &format!("{name}_enqueue_over_bare"),
            ours.enqueued / bare.enqueued,
            "ratio",
        );
        row(&format!("{name}_run"), ours.run, "us");
        row(&format!("{name}_run_bare"), bare.run, "us");
        row(&format!("{name}_run_over_bare"), ours.run / bare.run, "ratio");
    }
    row("graph_run", graph.run, "us");
    row("graph_run_over_bare", graph.run / bare.run, "ratio");
    Ok(())
}
