//! Many seeds of one launch, and what a failing one comes down to.

use crate::choices::Notes;
use crate::engine::on_own_thread;
use crate::failure::Failure;
use crate::run::Sim;
use crate::seed::Seed;
use shmem::state::FaultRecord;
use std::fmt::{self, Write as _};
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Runs that the search for a shorter trace may take.
const RUNS: u32 = 500;
/// Time that it may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Decisions that a failure tells in words.
const TOLD: usize = 20;

/// What many seeds have done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explored {
    /// How many seeds ran.
    pub seeds: u64,
    /// How often a lane was switched to, over all of them.
    pub lane_switches: u64,
}

/// A seed that fails, and the fewest random decisions found with which it still does.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Found {
    /// The seed.
    pub seed: u64,
    /// How many seeds passed before.
    pub passed: u64,
    /// Its failure.
    pub failure: Failure,
    /// What `SHMEM_SIM_SEED` is set to, or [`Sim::replay`] is given, to see the failure again with few decisions.
    pub replay: Seed,
    /// The failure as it is then.
    pub shortest: Failure,
    /// What these decisions are, in their order.
    pub trace: Vec<String>,
}

impl std::error::Error for Found {}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seed {} fails after {} that pass: {}",
            self.seed, self.passed, self.shortest
        )?;
        writeln!(
            f,
            "With {} random decisions and all others plain it fails as well: SHMEM_SIM_SEED={}",
            self.trace.len(),
            self.replay
        )?;
        let mut text = String::new();
        for what in self.trace.iter().take(TOLD) {
            let _ = writeln!(text, "  {what}");
        }
        if self.trace.len() > TOLD {
            let _ = writeln!(text, "  .. and {} more", self.trace.len() - TOLD);
        }
        f.write_str(&text)
    }
}

/// Runs a launch once for each seed, each time in a new world, until one fails. What the kernel captures stays from one seed
/// to the next. Where `SHMEM_SIM_SEED` is set, it is the only one that runs.
///
/// ```
/// use shmem::prelude::*;
/// use shmem_sim::{Sim, explore, signals, symmetric};
///
/// let found = explore(&Sim::new(2), 0..100, || {
///     let (data, ready) = (symmetric::<u32>(1).at(0), signals(1).at(0));
///     let peer = 1 - shmem::my_pe();
///     shmem::p(data, 7, peer); // a fence is missing behind it
///     shmem::signal_op(ready.set(1), peer);
///     shmem::wait_until(Thread, ready, eq(1));
///     data.load();
/// });
/// let found = found.unwrap_err();
/// assert!(found.to_string().contains("missing-fence"));
/// ```
///
/// # Errors
/// The first seed that fails, with what it comes down to.
#[track_caller]
pub fn explore(sim: &Sim, seeds: Range<u64>, kernel: impl Fn() + Send + Sync) -> Result<Explored, Box<Found>> {
    let (kernel, at) = (&kernel, Location::caller());
    // Of all these worlds only the one that shows a failure in few decisions has a timeline.
    let (sim, timeline) = (&sim.clone().timeline_file(None), sim.timeline_wanted());
    let only = match Seed::from_env() {
        Ok(only) => only,
        Err(error) => {
            let report = error.to_string();
            return Err(Box::new(Found::bare(Seed::default(), 0, Failure::Launch { report })));
        }
    };
    let mut explored = Explored {
        seeds: 0,
        lane_switches: 0,
    };
    let mut run = |seed: Seed| match sim.run_here(seed.clone(), at, kernel) {
        Ok(report) => {
            explored.seeds += 1;
            explored.lane_switches += report.lane_switches;
            Ok(())
        }
        Err(failure) => Err((seed, failure)),
    };
    let ran = on_own_thread(|| match only {
        Some(seed) => run(seed),
        None => seeds.map(Seed::from).try_for_each(run),
    });
    match ran {
        Ok(()) => Ok(explored),
        Err((seed, failure)) => {
            let found = shrink(sim, &seed, explored.seeds, failure, at, kernel);
            if timeline.is_some() {
                let shown = sim.clone().timeline_file(timeline);
                let _ = shown.replay(found.replay.clone()).run(kernel);
            }
            Err(Box::new(found))
        }
    }
}

impl Found {
    fn bare(seed: Seed, passed: u64, failure: Failure) -> Self {
        Self {
            seed: seed.number,
            passed,
            shortest: failure.clone(),
            failure,
            replay: seed,
            trace: Vec::new(),
        }
    }
}

/// Whether two runs fail in the same way: the same kind, at the same place.
fn same(a: &Failure, b: &Failure) -> bool {
    let place = |record: &FaultRecord| (record.kind, record.line, record.column, record.file().into_owned());
    match (a, b) {
        (Failure::Fault { record: a, .. }, Failure::Fault { record: b, .. }) => place(a) == place(b),
        _ => std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}

/// Searches for few decisions with which the launch fails in the same way.
fn shrink(
    sim: &Sim,
    seed: &Seed,
    passed: u64,
    failure: Failure,
    at: &'static Location<'static>,
    kernel: &(impl Fn() + Send + Sync),
) -> Found {
    let mut search = Search {
        sim,
        at,
        kernel,
        number: seed.number,
        wanted: failure.clone(),
        runs: 0,
        since: Instant::now(),
    };
    let Some((_, notes)) = search.fails(seed.choices.clone()) else {
        return Found::bare(seed.clone(), passed, failure);
    };
    let deviating: Vec<u64> = notes.iter().map(|(number, _)| *number).collect();
    let fewest = search.fewest(deviating);
    match search.again(&fewest) {
        Some((shortest, notes)) => Found {
            seed: seed.number,
            passed,
            failure,
            replay: Seed {
                number: seed.number,
                choices: Some(Arc::from(fewest)),
            },
            shortest,
            trace: notes.into_iter().map(|(_, text)| text).collect(),
        },
        None => Found::bare(seed.clone(), passed, failure),
    }
}

struct Search<'a, K> {
    sim: &'a Sim,
    at: &'static Location<'static>,
    kernel: &'a K,
    number: u64,
    wanted: Failure,
    runs: u32,
    since: Instant,
}

type Outcome = (Failure, Vec<(u64, String)>);

impl<K: Fn() + Send + Sync> Search<'_, K> {
    /// The failure and what the decisions came to, where it is the wanted one.
    fn fails(&mut self, choices: Option<Arc<[u64]>>) -> Option<Outcome> {
        self.runs += 1;
        let notes = Notes::default();
        let seed = Seed {
            number: self.number,
            choices,
        };
        let sim = self.sim.clone().notes(notes.clone());
        let failure = on_own_thread(|| sim.run_here(seed, self.at, self.kernel)).err()?;
        let mut notes = notes.take();
        notes.dedup_by_key(|(number, _)| *number);
        same(&failure, &self.wanted).then_some((failure, notes))
    }

    fn again(&mut self, choices: &[u64]) -> Option<Outcome> {
        self.fails(Some(Arc::from(choices)))
    }

    fn may_go_on(&self) -> bool {
        self.runs < RUNS && self.since.elapsed() < PATIENCE
    }

    /// The shortest beginning that fails, without all parts that it fails without.
    fn fewest(&mut self, mut all: Vec<u64>) -> Vec<u64> {
        let (mut passes, mut fails) = (0, all.len());
        while passes < fails && self.may_go_on() {
            let middle = usize::midpoint(passes, fails);
            if self.again(&all[..middle]).is_some() {
                fails = middle;
            } else {
                passes = middle + 1;
            }
        }
        all.truncate(fails);
        let mut part = all.len().div_ceil(2);
        while part > 0 && !all.is_empty() {
            let (mut start, mut removed) = (0, false);
            while start < all.len() && self.may_go_on() {
                let mut fewer = all.clone();
                fewer.drain(start..(start + part).min(all.len()));
                if self.again(&fewer).is_some() {
                    (all, removed) = (fewer, true);
                } else {
                    start += part;
                }
            }
            if !self.may_go_on() {
                break;
            }
            part = if part == 1 && !removed {
                0
            } else {
                part.div_ceil(2).max(1)
            };
            if part == 1 && all.is_empty() {
                break;
            }
        }
        all
    }
}
