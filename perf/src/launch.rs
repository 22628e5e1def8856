//! What a collective launch costs on the host, beside the driver's call alone.

use crate::measure::Row;
use shmem_host::{Error, LaunchConfig, Pe, collective_launch};
use shmem_perf::{nothing, nothing_of};
use std::time::Instant;

/// Launches in a row: fewer than a stream's queue takes without waiting.
const LAUNCHES: u32 = 1000;
const REPETITIONS: usize = 15;

/// Microseconds of one launch: until all are enqueued, and until all have run. Medians.
fn measure(pe: &Pe, launch: impl Fn() -> Result<(), Error>) -> anyhow::Result<(f64, f64)> {
    let (mut enqueued, mut run) = (vec![], vec![]);
    let repetitions = if pe.device_name() == "the simulator" {
        1
    } else {
        REPETITIONS
    };
    // The first is a warm-up.
    for repetition in 0..=repetitions {
        pe.barrier_all()?;
        let start = Instant::now();
        launch()?;
        let until_enqueued = start.elapsed();
        pe.stream().synchronize()?;
        if repetition > 0 {
            enqueued.push(until_enqueued.as_secs_f64() * 1e6 / f64::from(LAUNCHES));
            run.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(LAUNCHES));
        }
    }
    enqueued.sort_by(f64::total_cmp);
    run.sort_by(f64::total_cmp);
    Ok((enqueued[repetitions / 2], run[repetitions / 2]))
}

/// Rows of this library's launch, of the driver's, and their ratio; and of a graph of as many launches.
pub(crate) fn back_to_back(pe: &Pe, mut print: impl FnMut(Row)) -> anyhow::Result<()> {
    let config = || LaunchConfig::new(1, 32).collective();
    let (buffer, signals) = (pe.alloc::<u32>(64)?, pe.signals(1)?);
    let often = |launch: &dyn Fn() -> Result<(), Error>| (0..LAUNCHES).try_for_each(|_| launch());
    let ours = measure(pe, || often(&|| collective_launch!(pe, nothing<<<1, 32>>>())))?;
    let bare = measure(pe, || pe.__launch_bare(config(), nothing(), LAUNCHES))?;
    let ours_of = measure(pe, || {
        often(&|| collective_launch!(pe, nothing_of<<<1, 32>>>(&buffer, &buffer, &signals, 7)))
    })?;
    let bare_of = measure(pe, || {
        pe.__launch_bare(config(), nothing_of(&buffer, &buffer, &signals, 7), LAUNCHES)
    })?;
    let graph = pe
        .stream()
        .capture(|| often(&|| collective_launch!(pe, nothing<<<1, 32>>>())))?;
    let graph = measure(pe, || graph.launch(pe.stream()))?;
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
        row(&format!("{name}_enqueue"), ours.0, "us");
        row(&format!("{name}_enqueue_bare"), bare.0, "us");
        row(&format!("{name}_enqueue_over_bare"), ours.0 / bare.0, "ratio");
        row(&format!("{name}_run"), ours.1, "us");
        row(&format!("{name}_run_bare"), bare.1, "us");
        row(&format!("{name}_run_over_bare"), ours.1 / bare.1, "ratio");
    }
    row("graph_run", graph.1, "us");
    row("graph_run_over_bare", graph.1 / bare.1, "ratio");
    Ok(())
}
