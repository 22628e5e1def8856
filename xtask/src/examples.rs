//! `cargo xtask run`.

use crate::Backend;
use crate::command::{cargo, root, run as run_command};
use crate::setup::setup;
use crate::stub;
use anyhow::bail;

/// The example whose program needs libcuda to link.
pub(crate) const CUST: &str = "cust-interop";

pub(crate) fn run(
    name: &str,
    pes: Option<u32>,
    backend: Backend,
    release: bool,
    arguments: &[String],
) -> anyhow::Result<()> {
    let names = names()?;
    if !names.iter().any(|n| n == name) {
        bail!("no example is called `{name}`: there are {}", names.join(", "));
    }
    setup(false)?;
    let mut command = cargo(&["run", "--package", name]);
    if name == CUST {
        command.args(["--features", "cust"]).env(stub::VARIABLE, stub::make()?);
    }
    if release {
        command.arg("--release");
    }
    if let Some(n) = pes {
        command.env("SHMEM_NPES", n.to_string());
    }
    match backend {
        Backend::Auto => {}
        Backend::Sim => drop(command.env("SHMEM_BACKEND", "sim")),
        Backend::Cuda => drop(command.env("SHMEM_BACKEND", "cuda")),
    }
    run_command(command.arg("--").args(arguments))
}

/// The examples' packages: their folders' names without the number.
fn names() -> anyhow::Result<Vec<String>> {
    let mut names = vec![];
    for folder in std::fs::read_dir(root().join("examples"))? {
        let folder = folder?.file_name().to_string_lossy().into_owned();
        names.extend(folder.split_once('-').map(|(_, name)| name.to_owned()));
    }
    names.sort();
    Ok(names)
}
