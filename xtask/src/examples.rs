//! `cargo xtask run`.

use crate::Backend;
use crate::command::{cargo, root, run as run_command, target};
use crate::setup::setup;
use crate::stub;
use anyhow::bail;
use std::process::Command;

/// The example whose program needs libcuda to link.
pub(crate) const CUST: &str = "cust-interop";

/// How many PEs, and in what.
pub(crate) enum Pes {
    /// Of one process; None: as many as it likes.
    Threads(Option<u32>),
    Processes(u32),
}

pub(crate) fn run(name: &str, pes: &Pes, backend: Backend, release: bool, arguments: &[String]) -> anyhow::Result<()> {
    let names = names()?;
    if !names.iter().any(|n| n == name) {
        bail!("no example is called `{name}`: there are {}", names.join(", "));
    }
    setup(false)?;
    let profile: &[&str] = if release { &["--release"] } else { &[] };
    let mut command = match pes {
        Pes::Threads(pes) => {
            let mut command = cargo(&["run", "--package", name]);
            command.args(profile);
            if name == CUST {
                command.args(["--features", "cust"]).env(stub::VARIABLE, stub::make()?);
            }
            if let Some(n) = pes {
                command.env("SHMEM_NPES", n.to_string());
            }
            // Streams of PEs that share a device need a connection each.
            if std::env::var_os("CUDA_DEVICE_MAX_CONNECTIONS").is_none() {
                command.env("CUDA_DEVICE_MAX_CONNECTIONS", "32");
            }
            command.arg("--");
            command
        }
        Pes::Processes(n) => {
            let built = ["build", "--package", name, "--package", "shmem-bootstrap"];
            run_command(cargo(&built).args(profile))?;
            let folder = target().join(if release { "release" } else { "debug" });
            let mut command = Command::new(folder.join("shmem-run"));
            command
                .args(["--no-prefix", "-n", &n.to_string()])
                .arg("--")
                .arg(folder.join(name));
            // It would be the PEs of each process.
            command.env_remove("SHMEM_NPES");
            command
        }
    };
    match backend {
        Backend::Auto => {}
        Backend::Sim => drop(command.env("SHMEM_BACKEND", "sim")),
        Backend::Cuda => drop(command.env("SHMEM_BACKEND", "cuda")),
    }
    run_command(command.args(arguments))
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
