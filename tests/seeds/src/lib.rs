//! All kernels that are shipped, as small programs that run in worlds of the simulator, one world for each seed.
//!
//! | file | programs |
//! |---|---|
//! | `examples`, `perf` | kernels of `examples/` and `perf/`, with small data |
//! | here | the cases of `tests/conformance`, the kernels of `tests/paper` |
//!
//! The kernels of `device/` run in all of them: a stream's barrier is one. The test runs as many seeds as
//! `SHMEM_SIM_SEEDS` says; the program of this package runs some of them over a range of seeds, for `cargo xtask mutants` and
//! for runs of many hours in parts: `seeds --first 2000 --seeds 500 --out runs.txt`.
#![allow(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "a test: the names say what is tested"
)]

mod examples;
mod perf;
mod sweep;

use conformance::suite::Needs;
use shmem_host::{Builder, Path, Pe, SimPath};
use std::fmt;
pub use sweep::{Failed, sweep};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What a program does on each PE.
pub type Check = fn(&Pe) -> anyhow::Result<()>;

/// A program that checks what its kernels have done.
pub struct Program {
    pub name: String,
    /// How many PEs: seeds take them in turn.
    pub pes: &'static [u32],
    /// It counts on what only load and store give: a peer's memory in reach, or puts that all PEs see after quiet. Else seeds
    /// take the paths in turn.
    pub load_store: bool,
    pub run: Check,
}

impl Program {
    /// How many PEs a seed has, and over what: after one path with each number of PEs comes the next path. None where the
    /// program can't go the way that `SHMEM_PATH` names.
    pub fn shape(&self, seed: u64) -> Option<(u32, Over)> {
        let numbers = self.pes.len() as u64;
        let mut ways = ways();
        if self.load_store {
            ways.retain(|&over| over == Over::Model(SimPath::LoadStore));
        }
        let way = (seed / numbers).checked_rem(ways.len() as u64)?;
        Some((self.pes[(seed % numbers) as usize], ways[way as usize]))
    }
}

/// What carries operations between the PEs of a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// What the simulator knows of a path.
    Model(SimPath),
    /// Emulated adapters, for everything or between nodes.
    Adapters(Path),
}

impl Over {
    fn choose(self, builder: Builder) -> Builder {
        match self {
            Self::Model(path) => builder.sim_path(path),
            Self::Adapters(path) => builder.path(path),
        }
    }
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(path) => path.fmt(f),
            Self::Adapters(path) => path.fmt(f),
        }
    }
}

/// All ways, or the one that `SHMEM_PATH` names. Where a call is left out (`SHMEM_SIM_SKIP`), those over which the order of
/// accesses is checked.
fn ways() -> Vec<Over> {
    let models = SimPath::MODELS.map(Over::Model).into_iter();
    match std::env::var("SHMEM_PATH").as_deref() {
        Ok("load-store") => vec![Over::Model(SimPath::LoadStore)],
        Ok("ibgda") => vec![Over::Adapters(Path::Ibgda)],
        Ok("mixed") => vec![Over::Adapters(Path::Mixed)],
        _ if std::env::var_os("SHMEM_SIM_SKIP").is_some() => models.collect(),
        _ => models.chain([Path::Ibgda, Path::Mixed].map(Over::Adapters)).collect(),
    }
}

pub fn programs() -> Vec<Program> {
    conformance::suite::take_little();
    let named = |(name, pes, run): (&str, _, _)| Program {
        name: name.to_owned(),
        pes,
        load_store: false,
        run,
    };
    let cases = conformance::suite::cases().into_iter().map(|case| Program {
        name: format!("conformance/{}", case.name.replace(' ', "-")),
        pes: &[2, 3, 1],
        load_store: Needs::of(case.name) != Needs::Nothing,
        run: case.run,
    });
    let papers: [(&str, &'static [u32], Check); 4] = [
        ("paper/ring", &[2, 3, 4], paper::ring::check_small),
        ("paper/norm", &[2, 3, 4], paper::norm::check_small),
        ("paper/halo", &[2, 3, 4], paper::halo::check_small),
        ("paper/moe", &[2, 3, 1], paper::moe::check_small),
    ];
    let hash = Program {
        // Its words are the GPUs'.
        load_store: true,
        ..named(("paper/hash", &[2, 3, 1], paper::hash::check_small))
    };
    let mut all: Vec<_> = examples::PROGRAMS.into_iter().map(named).collect();
    all.extend(perf::PROGRAMS.into_iter().map(named));
    all.extend(papers.into_iter().map(named));
    all.push(hash);
    all.extend(cases);
    all
}
