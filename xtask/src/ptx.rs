//! Every kernel of the workspace, assembled for every architecture that its PTX is for.

use crate::command::{output, target};
use anyhow::bail;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// What ptxas must accept; PTX for an architecture also runs on all later ones.
const TARGETS: [u32; 3] = [80, 90, 100];

pub(crate) fn check() -> anyhow::Result<()> {
    let required = std::env::var("SHMEM_PTX").as_deref() == Ok("require");
    let Some(ptxas) = shmem_build::tools::find("ptxas") else {
        if required {
            bail!("SHMEM_PTX=require, and there is no ptxas: run `cargo xtask setup`");
        }
        eprintln!("xtask: no ptxas: PTX is not assembled");
        return Ok(());
    };
    let files = newest(&target().join("debug/build"))?;
    if files.is_empty() && required {
        bail!("SHMEM_PTX=require, and no package has PTX");
    }
    let mut assembled = 0;
    for ((_, arch), (_, file)) in &files {
        for target in TARGETS.iter().filter(|t| *t >= arch) {
            output(
                Command::new(&ptxas)
                    .arg(format!("-arch=sm_{target}"))
                    .arg(file)
                    .args(["-o", "/dev/null"]),
            )?;
            assembled += 1;
        }
    }
    eprintln!(
        "xtask: ptxas took {} PTX files for {TARGETS:?}: {assembled} assemblies",
        files.len()
    );
    Ok(())
}

/// The newest PTX of each package and architecture. Older ones are left by earlier builds.
fn newest(build: &Path) -> anyhow::Result<BTreeMap<(String, u32), (SystemTime, PathBuf)>> {
    let mut newest = BTreeMap::new();
    let Ok(packages) = std::fs::read_dir(build) else {
        return Ok(newest);
    };
    for package in packages {
        let folder = package?.path();
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = name.rsplit_once('-').map_or(name.clone(), |(n, _)| n.to_owned());
        let Ok(files) = std::fs::read_dir(folder.join("out")) else {
            continue;
        };
        for file in files {
            let file = file?.path();
            let text = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let Some(arch) = text.strip_prefix("kernels.sm_").and_then(|t| t.strip_suffix(".ptx")) else {
                continue;
            };
            let Ok(arch) = arch.trim_end_matches('a').parse() else {
                continue;
            };
            let modified = file.metadata()?.modified()?;
            let entry = newest.entry((name.clone(), arch)).or_insert((modified, file.clone()));
            if entry.0 < modified {
                *entry = (modified, file);
            }
        }
    }
    Ok(newest)
}
