//! `cargo xtask test` and `cargo xtask lint`.

use crate::command::{cargo, run};
use crate::{mutants, ptx, setup, stub};

/// Everything that can be tested on this machine. `full`: also over many seeds, and with calls left out.
pub(crate) fn test(full: bool) -> anyhow::Result<()> {
    setup::setup(false)?;
    run(&mut cargo(&[
        "test",
        "--workspace",
        "--exclude",
        "seeds",
        "--no-fail-fast",
    ]))?;
    ptx::check()?;
    // Optimised: it runs kernels, and no more.
    let seeds = if full { "10000" } else { "200" };
    let sweep = &["test", "--release", "--package", "seeds"];
    run(cargo(sweep).env("SHMEM_SIM_SEEDS", seeds).env("SHMEM_PTX", "off"))?;
    if full {
        mutants::mutants(36, None, None)?;
    }
    Ok(())
}

/// Formatting, clippy and documentation, all without warnings.
pub(crate) fn lint() -> anyhow::Result<()> {
    run(&mut cargo(&["fmt", "--all", "--check"]))?;
    run(&mut cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]))?;
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
    run(cust.env(stub::VARIABLE, stub::make()?))?;
    run(cargo(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
}
