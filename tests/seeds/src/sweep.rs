//! Many seeds of one program, side by side.

use crate::{Over, Program};
use shmem_host::{Backend, World};
use std::fmt;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// The first seed, of those that ran, with which a program fails.
#[derive(Debug)]
pub struct Failed {
    pub seed: u64,
    pub pes: u32,
    pub path: Over,
    pub error: anyhow::Error,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed, pes, path, error, ..
        } = self;
        write!(f, "seed {seed} with {pes} PEs over {path}: {error:#}")
    }
}

/// Runs the program once for each seed, so many side by side, until one fails.
pub fn sweep(program: &Program, seeds: Range<u64>, jobs: Option<usize>) -> Result<(), Failed> {
    let next = AtomicU64::new(seeds.start);
    let failed = Mutex::new(None);
    let workers = jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let Some((pes, path)) = program.shape(seed) else {
                        continue;
                    };
                    if let Err(error) = one(program, pes, path, seed) {
                        next.store(seeds.end, Ordering::Relaxed);
                        failed.lock().unwrap().get_or_insert(Failed { seed, pes, path, error });
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap().map_or(Ok(()), Err)
}

fn one(program: &Program, pes: u32, over: Over, seed: u64) -> anyhow::Result<()> {
    let mut builder = over.choose(World::builder().backend(Backend::Sim).pes(pes).seed(seed));
    // As `World::from_env` reads it.
    if let Ok(seconds) = std::env::var("SHMEM_TIMEOUT") {
        builder = builder.time_limit(Some(Duration::from_secs_f64(seconds.parse()?)));
    }
    let world = builder.build()?;
    world.run(|pe| (program.run)(&pe))
}
