//! Every kernel of the workspace, assembled for every architecture that its PTX is for.

use crate::command::{output, target};
use anyhow::bail;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
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
    let jobs = files.iter().flat_map(|((_, arch), (_, file))| {
        let targets = TARGETS.iter().filter(move |target| *target >= arch);
        targets.map(move |target| (target, file))
    });
    let jobs: Vec<_> = jobs.collect();
    // A large crate takes the assembler a minute for each.
    let next = AtomicUsize::new(0);
    let work = || -> anyhow::Result<()> {
        while let Some((target, file)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            output(
                Command::new(&ptxas)
                    .arg(format!("-arch=sm_{target}"))
                    .arg(file)
                    .args(["-o", "/dev/null"]),
            )?;
        }
        Ok(())
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let running: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        running
            .into_iter()
            .try_for_each(|worker| worker.join().map_err(|_| anyhow::anyhow!("a worker panicked"))?)
    })?;
    let assembled = jobs.len();
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
