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

use shmem_host::{Pe, SimPath};
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
    /// How many PEs a seed has, and over what: after one path with each number of PEs comes the next path.
    pub fn shape(&self, seed: u64) -> (u32, SimPath) {
        let numbers = self.pes.len() as u64;
        let path = if self.load_store {
            SimPath::LoadStore
        } else {
            SimPath::ALL[(seed / numbers % SimPath::ALL.len() as u64) as usize]
        };
        (self.pes[(seed % numbers) as usize], path)
    }
}

/// Cases of `tests/conformance` that need load and store.
const LOAD_STORE: [&str; 9] = [
    // Their words are the GPUs': a NIC's atomics are not atomic with those.
    "atomics: sums of every type",
    "atomics: swap, set and fetch of every type",
    "atomics: every operation on integers",
    "atomics: a lock",
    "atomics: release and acquire",
    // Every PE has pointers to the others.
    "ptr: store and load of every element size",
    "ptr: atomics and a wait",
    // Quiet says no more than acknowledged over a network.
    "litmus: store buffering with quiet",
    "litmus: causality over three PEs",
];

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
        load_store: LOAD_STORE.contains(&case.name),
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
    let gups = Program {
        load_store: true,
        ..named(("examples/gups", &[2, 3, 4, 1], examples::gups))
    };
    let mut all: Vec<_> = examples::PROGRAMS.into_iter().map(named).collect();
    all.extend(perf::PROGRAMS.into_iter().map(named));
    all.extend(papers.into_iter().map(named));
    all.extend([hash, gups]);
    all.extend(cases);
    all
}
