//! `cargo xtask test` and `cargo xtask lint`.

use crate::command::{beside, cargo, run};
use crate::{Path, mutants, ptx, setup, stub};
use std::process::Command;
use std::thread;

/// Asks tests for what takes them long.
const FULL: &str = "SHMEM_TEST_FULL";

/// Everything that can be tested on this machine. `full`: also over many seeds, for every architecture, and with calls left
/// out.
pub(crate) fn test(full: bool) -> anyhow::Result<()> {
    setup::setup(false)?;
    let mut sweep = sweep(full);
    if full {
        sweep.env(FULL, "1");
    }
    // Few cores stay idle so: there are long waits among the tests, and single crates that everything waits for.
    let (tests, seeds) = thread::scope(|scope| {
        let seeds = scope.spawn(|| beside(&sweep));
        let tests = packages(full).and_then(|()| ptx::check(full));
        let seeds = seeds.join().unwrap_or_else(|_| anyhow::bail!("a thread panicked"));
        (tests, seeds)
    });
    if let (Err(_), Err(error)) = (&tests, &seeds) {
        eprintln!("xtask: {error:#}");
    }
    tests.and(seeds)?;
    if full {
        mutants::mutants(36, None, None)?;
    }
    Ok(())
}

/// The tests of all packages but one.
fn packages(full: bool) -> anyhow::Result<()> {
    let mut tests = cargo(&["test", "--workspace", "--exclude", "seeds", "--no-fail-fast"]);
    if full {
        tests.env(FULL, "1");
        if std::env::var_os("SHMEM_ARCH").is_none() {
            tests.env("SHMEM_ARCH", "sm_80,sm_90");
        }
        if std::env::var_os("SHMEM_NETWORK").is_none() {
            tests.env("SHMEM_NETWORK", "1");
        }
    }
    run(&mut tests)
}

/// Optimised: it runs kernels, and no more.
fn sweep(full: bool) -> Command {
    let mut sweep = cargo(&["test", "--release", "--package", "seeds"]);
    sweep
        .env("SHMEM_SIM_SEEDS", if full { "10000" } else { "100" })
        .env("SHMEM_PTX", "off");
    sweep
}

/// What goes over one path of the simulator.
pub(crate) fn over(path: Path, full: bool) -> anyhow::Result<()> {
    setup::setup(false)?;
    let path = match path {
        Path::LoadStore => "load-store",
        Path::Ibgda => "ibgda",
        Path::Mixed => "mixed",
    };
    // These make worlds of several paths by themselves.
    run(&mut off(&[
        "test",
        "--package",
        "shmem-sim",
        "--test",
        "litmus",
        "--test",
        "ibgda",
    ]))?;
    let mut conformance = off(&["test", "--package", "conformance", "--no-fail-fast"]);
    conformance.args(["--test", "simulator", "--test", "collectives", "--test", "random"]);
    conformance.args(["--test", "stream", "--test", "stream_collective"]);
    if full {
        conformance.env(FULL, "1");
    }
    run(conformance.env("SHMEM_PATH", path))?;
    run(sweep(full).env("SHMEM_PATH", path))
}

/// A cargo call that compiles nothing for GPUs.
fn off(arguments: &[&str]) -> Command {
    let mut command = cargo(arguments);
    command.env("SHMEM_PTX", "off");
    command
}

/// Formatting, clippy and documentation, all without warnings.
pub(crate) fn lint() -> anyhow::Result<()> {
    run(&mut cargo(&["fmt", "--all", "--check"]))?;
    let mut all = cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]);
    // Cargo has build scripts of its own for clippy, and nothing looks at PTX here.
    run(all.env("SHMEM_PTX", "off"))?;
    // What the workspace's own builds leave out, because it links libcuda.
    let mut cust = cargo(&[
        "clippy",
        "--package",
        "cust-interop",
        "--features",
        "cust",
        "--",
        "-D",
        "warnings",
    ]);
    run(cust.env(stub::VARIABLE, stub::make()?).env("SHMEM_PTX", "off"))?;
    run(cargo(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
}
