//! `cargo xtask bundle`: programs with their kernels inside, and a script that runs them.

use crate::command::{cargo, root, run, target};
use crate::examples::CUST;
use crate::setup::setup;
use crate::stub;
use anyhow::Context;
use std::path::Path;

/// Starts a program of the bundle as several processes, on a machine without cargo.
const LAUNCHER: &str = "shmem-run";

const SCRIPT: &str = r#"#!/bin/sh
# Runs a program of this bundle on the GPUs of this machine:  ./run.sh NAME [arguments]
# Without NAME, every program in turn. One process for each PE:  bin/shmem-run -n 2 -- ./run.sh NAME
# Settings: SHMEM_NPES, SHMEM_BACKEND=cuda|sim, SHMEM_TIMEOUT.
set -u
# Streams of PEs that share a device need a connection each.
export CUDA_DEVICE_MAX_CONNECTIONS="${CUDA_DEVICE_MAX_CONNECTIONS:-32}"
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
if [ $# -gt 0 ]; then
    name=$1
    shift
    exec "$here/bin/$name" "$@"
fi
failed=0
for program in "$here"/bin/*; do
    [ "$(basename "$program")" = shmem-run ] && continue
    echo "== $(basename "$program")"
    "$program" || { echo "== $(basename "$program") failed: $?"; failed=1; }
done
exit $failed
"#;

pub(crate) fn bundle(names: &[String], output: &Path) -> anyhow::Result<()> {
    setup(false)?;
    // Apart from the others, which would link libcuda too.
    let (cust, others): (Vec<_>, Vec<_>) = names.iter().partition(|name| *name == CUST);
    for (packages, links_cuda) in [(others, false), (cust, true)] {
        if packages.is_empty() {
            continue;
        }
        let mut build = cargo(&["build", "--release"]);
        for name in packages {
            build.args(["--package", name]);
        }
        if links_cuda {
            build.args(["--features", "cust"]).env(stub::VARIABLE, stub::make()?);
        }
        // Without PTX a bundle would be of no use where it is going.
        run(build.env("SHMEM_PTX", "require"))?;
    }
    run(&mut cargo(&[
        "build",
        "--release",
        "--package",
        "shmem-bootstrap",
        "--bin",
        LAUNCHER,
    ]))?;
    let output = root().join(output);
    let bin = output.join("bin");
    std::fs::create_dir_all(&bin)?;
    for name in names.iter().map(String::as_str).chain([LAUNCHER]) {
        let from = target().join("release").join(name);
        std::fs::copy(&from, bin.join(name))
            .with_context(|| format!("{} has no program of its name", from.display()))?;
    }
    let script = output.join("run.sh");
    std::fs::write(&script, SCRIPT)?;
    #[cfg(unix)]
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    println!(
        "{}: {} programs and shmem-run; copy it to a GPU node and run ./run.sh",
        output.display(),
        names.len()
    );
    Ok(())
}
