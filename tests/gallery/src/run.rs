//! Many seeds of a bug and of its twin.

use crate::Case;
use shmem_sim::Failure;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What many seeds of one kernel have done.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// How many ran.
    pub seeds: u64,
    /// How many failed as expected.
    pub found: u64,
    /// The expected failure of the smallest seed that has one.
    pub first: Option<(u64, Failure)>,
    /// How many failed in another way, and the smallest seed of these.
    pub other: u64,
    /// As `first`, of another kind.
    pub first_other: Option<(u64, Failure)>,
    /// How long it took, over all cores.
    pub took: Duration,
}

/// A case's bug and twin.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Which.
    pub case: &'static Case,
    /// The bug.
    pub bug: Tally,
    /// The twin, whose failures are all `other`.
    pub twin: Tally,
}

impl Outcome {
    /// Runs seeds of the bug and of the twin, on all cores.
    pub fn of(case: &'static Case, bug_seeds: u64, twin_seeds: u64) -> Self {
        Self {
            case,
            bug: tally(case, false, bug_seeds),
            twin: tally(case, true, twin_seeds),
        }
    }

    /// Some seed finds the bug, and none takes it for another.
    pub fn is_named(&self) -> bool {
        self.bug.found > 0 && self.bug.other == 0
    }

    /// No seed finds anything in the twin.
    pub fn is_clean(&self) -> bool {
        self.twin.found + self.twin.other == 0
    }
}

fn tally(case: &Case, fixed: bool, seeds: u64) -> Tally {
    let since = Instant::now();
    let (next, all) = (AtomicU64::new(0), Mutex::new(Tally::default()));
    let work = || {
        let mut mine = Tally::default();
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= seeds {
                break;
            }
            mine.seeds += 1;
            let Err(failure) = case.run(fixed, seed) else {
                continue;
            };
            let expected = !fixed && case.expected.is(&failure);
            let (count, first) = if expected {
                (&mut mine.found, &mut mine.first)
            } else {
                (&mut mine.other, &mut mine.first_other)
            };
            *count += 1;
            first.get_or_insert((seed, failure));
        }
        all.lock().unwrap().add(mine);
    };
    std::thread::scope(|scope| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..cores {
            scope.spawn(work);
        }
    });
    let mut tally = all.into_inner().unwrap();
    tally.took = since.elapsed();
    tally
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.found += other.found;
        self.other += other.other;
        let earlier = |a: &mut Option<(u64, Failure)>, b: Option<(u64, Failure)>| {
            if let Some(b) = b
                && a.as_ref().is_none_or(|a| b.0 < a.0)
            {
                *a = Some(b);
            }
        };
        earlier(&mut self.first, other.first);
        earlier(&mut self.first_other, other.first_other);
    }
}
