//! `cargo xtask test` and `cargo xtask lint`.

use crate::command::{cargo, run};
use crate::{ptx, setup, stub};

/// Everything that can be tested on this machine.
pub(crate) fn test() -> anyhow::Result<()> {
    setup::setup(false)?;
    run(&mut cargo(&["test", "--workspace", "--no-fail-fast"]))?;
    ptx::check()
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
