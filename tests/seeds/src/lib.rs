//! All kernels that are shipped, as small programs that run in worlds of the simulator, one world for each seed.
//!
//! | file | programs |
//! |---|---|
//! | `examples`, `perf` | kernels of `examples/` and `perf/`, with small data |
//! | here | the cases of `tests/conformance`, the kernels of `tests/paper` |
//!
//! The kernels of `device/` run in all of them: a stream's barrier is one. The test runs as many seeds as
//! `SHMEM_SIM_SEEDS` says; the program of this package runs one program, for `cargo xtask mutants`.
#![allow(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "a test: the names say what is tested"
)]

mod examples;
mod perf;
mod sweep;

use shmem_host::Pe;
pub use sweep::{Failed, sweep};

/// What a program does on each PE.
pub type Check = fn(&Pe) -> anyhow::Result<()>;

/// A program that checks what its kernels have done.
pub struct Program {
    pub name: String,
    /// How many PEs: seeds take them in turn.
    pub pes: &'static [u32],
    pub run: Check,
}

pub fn programs() -> Vec<Program> {
    conformance::suite::take_little();
    let named = |(name, pes, run): (&str, _, _)| Program {
        name: name.to_owned(),
        pes,
        run,
    };
    let cases = conformance::suite::cases().into_iter().map(|case| Program {
        name: format!("conformance/{}", case.name.replace(' ', "-")),
        pes: &[2, 3, 1],
        run: case.run,
    });
    let papers: [(&str, &'static [u32], Check); 5] = [
        ("paper/ring", &[2, 3, 4], paper::ring::check_small),
        ("paper/norm", &[2, 3, 4], paper::norm::check_small),
        ("paper/halo", &[2, 3, 4], paper::halo::check_small),
        ("paper/moe", &[2, 3, 1], paper::moe::check_small),
        ("paper/hash", &[2, 3, 1], paper::hash::check_small),
    ];
    let mut all: Vec<_> = examples::PROGRAMS.into_iter().map(named).collect();
    all.extend(perf::PROGRAMS.into_iter().map(named));
    all.extend(papers.into_iter().map(named));
    all.extend(cases);
    all
}
