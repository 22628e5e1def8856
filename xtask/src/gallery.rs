//! `cargo xtask gallery`.

use crate::command::{cargo, root, run};

pub(crate) fn gallery(seeds: u64, reports: bool, write: bool) -> anyhow::Result<()> {
    let mut command = cargo(&["run", "--release", "--package", "gallery", "--"]);
    command.args(["--seeds", &seeds.to_string()]);
    command.args(["--bug-seeds", &(seeds / 10).max(200).to_string()]);
    if reports {
        command.arg("--reports");
    }
    if write {
        command.arg("--write").arg(root().join("docs/src/gallery.md"));
    }
    // No kernel of the gallery is for a GPU.
    run(command.env("SHMEM_PTX", "off"))
}
