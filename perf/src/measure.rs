//! How a row is measured: the median of five repetitions, each one kernel that loops for some 25 ms between two events of
//! its stream, after a warm-up; the slowest PE counts where several take part.

use shmem_host::{Error, Pe};
use std::fmt;

/// How long a repetition runs.
const REPETITION: f64 = 0.025;

/// One line of the output.
pub(crate) struct Row {
    /// The benchmark.
    pub(crate) bench: &'static str,
    /// Call, tile and shape.
    pub(crate) variant: String,
    /// Bytes of one transfer.
    pub(crate) bytes: usize,
    /// The figure.
    pub(crate) value: f64,
    /// Its unit.
    pub(crate) unit: &'static str,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            bench,
            variant,
            bytes,
            value,
            unit,
        } = self;
        write!(f, "{bench},{variant},{bytes},{value:.3},{unit}")
    }
}

/// Seconds of one iteration. `launch` enqueues a kernel that does this many, or nothing on a PE that keeps still; at least
/// `least` of them are asked for. Collective.
pub(crate) fn per_iteration(pe: &Pe, least: u32, launch: impl Fn(u32) -> Result<(), Error>) -> anyhow::Result<f64> {
    let took = |iters: u32| -> anyhow::Result<f64> {
        pe.barrier_all()?;
        let took = pe.stream().timed(|| launch(iters))?;
        slowest(pe, took.as_secs_f64())
    };
    // The first launch of a kernel is slow.
    took(least)?;
    let once = took(least)? / f64::from(least);
    // On the simulator a repetition only checks that the benchmark works.
    let simulated = pe.device_name() == "the simulator";
    let iters = if simulated {
        least
    } else {
        least.max((REPETITION / once) as u32)
    };
    took(iters)?;
    let repetitions = if simulated { 1 } else { 5 };
    let mut seconds = (0..repetitions)
        .map(|_| took(iters))
        .collect::<anyhow::Result<Vec<_>>>()?;
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[seconds.len() / 2] / f64::from(iters))
}

/// The largest of what the PEs measured, on every PE: each must choose the same number of iterations.
pub(crate) fn slowest(pe: &Pe, seconds: f64) -> anyhow::Result<f64> {
    let board = pe.alloc::<f64>(pe.n() as usize)?;
    shmem_host::collective_launch!(pe, shmem_perf::post<<<1, 32>>>(&board, seconds))?;
    Ok(board.to_vec()?.into_iter().fold(0.0, f64::max))
}

/// What element i of a filled buffer holds. Never 0, which is the poison.
pub(crate) fn element(i: usize) -> u32 {
    (i as u32).wrapping_mul(0x9e37_79b9) | 1
}
