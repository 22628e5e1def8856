//! `cargo xtask bundle`: programs with their kernels inside, and a script that runs them.

use crate::command::{cargo, root, run, target};
use crate::examples::CUST;
use crate::setup::setup;
use crate::stub;
use anyhow::Context;
use std::path::Path;

const SCRIPT: &str = r#"#!/bin/sh
# Runs a program of this bundle on the GPUs of this machine:  ./run.sh NAME [arguments]
# Without NAME, every program in turn. Settings: SHMEM_NPES, SHMEM_BACKEND=cuda|sim, SHMEM_TIMEOUT.
set -u
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
if [ $# -gt 0 ]; then
    name=$1
    shift
    exec "$here/bin/$name" "$@"
fi
failed=0
for program in "$here"/bin/*; do
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
    let output = root().join(output);
    let bin = output.join("bin");
    std::fs::create_dir_all(&bin)?;
    for name in names {
        let from = target().join("release").join(name);
        std::fs::copy(&from, bin.join(name))
            .with_context(|| format!("{} has no program of its name", from.display()))?;
    }
    let script = output.join("run.sh");
    std::fs::write(&script, SCRIPT)?;
    #[cfg(unix)]
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    println!(
        "{}: {} programs; copy it to a GPU node and run ./run.sh",
        output.display(),
        names.len()
    );
    Ok(())
}
