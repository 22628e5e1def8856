//! Every kernel of the workspace, assembled for every architecture that its PTX is for.

use crate::command::{output, target};
use anyhow::{Context, bail};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::SystemTime;

/// What ptxas must accept; PTX for an architecture also runs on all later ones.
const TARGETS: [u32; 3] = [80, 90, 100];

/// Assembles for each target the PTX that a GPU of it is given; `full`: also what is for older ones, and the images for network paths.
pub(crate) fn check(full: bool) -> anyhow::Result<()> {
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
    let (mut jobs, mut done) = (vec![], 0);
    for (package, images) in &files {
        for target in TARGETS {
            let fits = |(kind, _): &(&Kind, _)| {
                let reaches = if kind.alone {
                    kind.arch == target
                } else {
                    kind.arch <= target
                };
                reaches && (full || !kind.network)
            };
            let mut fitting: Vec<_> = images.iter().filter(fits).collect();
            if !full {
                // The highest.
                fitting = fitting.pop().into_iter().collect();
            }
            for (kind, (modified, file)) in fitting {
                let target = if kind.alone {
                    format!("{target}a")
                } else {
                    target.to_string()
                };
                if kind.arch.to_string() == target && is_assembled(kind.arch, *modified, file)? {
                    done += 1;
                } else {
                    jobs.push((file.metadata()?.len(), package, target, file));
                }
            }
        }
    }
    // The largest first, so that the workers end together.
    jobs.sort_by_key(|(bytes, ..)| Reverse(*bytes));
    // A large crate takes the assembler a minute for each.
    let next = AtomicUsize::new(0);
    let work = || -> anyhow::Result<()> {
        while let Some((_, package, target, file)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            output(
                Command::new(&ptxas)
                    .arg(format!("-arch=sm_{target}"))
                    .arg(file)
                    .args(["-o", "/dev/null"]),
            )
            .with_context(|| format!("PTX of {package} for sm_{target}"))?;
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
        "xtask: ptxas took the PTX of {} packages for {TARGETS:?}: {assembled} assemblies, and {done} by builds and tests",
        files.len()
    );
    Ok(())
}

/// Whether the build, or a test that looks at machine code, has made a cubin of this very PTX.
fn is_assembled(arch: u32, modified: SystemTime, file: &Path) -> anyhow::Result<bool> {
    let made = |cubin: &Path| cubin.metadata().and_then(|found| found.modified()).ok();
    if made(&file.with_extension("cubin")).is_some_and(|made| made >= modified) {
        return Ok(true);
    }
    let Ok(left) = std::fs::read_dir(target().join("tmp")) else {
        return Ok(false);
    };
    let length = file.metadata()?.len();
    for ptx in left {
        let ptx = ptx?.path();
        let cubin = ptx.with_extension("cubin");
        let name = ptx.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.ends_with(&format!(".sm_{arch}.ptx")) || ptx.metadata()?.len() != length {
            continue;
        }
        let newer = made(&cubin).zip(ptx.metadata()?.modified().ok());
        if newer.is_some_and(|(cubin, ptx)| cubin >= ptx) && std::fs::read(&ptx)? == std::fs::read(file)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What an image is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    arch: u32,
    /// That architecture and no later one: `sm_90a`.
    alone: bool,
    /// It drives network adapters.
    network: bool,
}
/// When it was written, and where it is.
type Images = BTreeMap<Kind, (SystemTime, PathBuf)>;

/// The newest PTX of each package and kind. Older ones are left by earlier builds.
fn newest(build: &Path) -> anyhow::Result<BTreeMap<String, Images>> {
    let mut newest = BTreeMap::<String, Images>::new();
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
        // Network images stay where later builds make none.
        let listed = std::fs::read_to_string(folder.join("out/images.rs")).unwrap_or_default();
        for file in files {
            let file = file?.path();
            let text = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let Some(kind) = text.strip_prefix("kernels.").and_then(|t| t.strip_suffix(".ptx")) else {
                continue;
            };
            let network = kind.starts_with("network.");
            let arch = kind.trim_start_matches("network.").trim_start_matches("sm_");
            if network && !listed.contains(&text) {
                continue;
            }
            let alone = arch.ends_with('a');
            let Ok(arch) = arch.trim_end_matches('a').parse() else {
                continue;
            };
            let kind = Kind { arch, alone, network };
            let modified = file.metadata()?.modified()?;
            let images = newest.entry(name.clone()).or_default();
            let entry = images.entry(kind).or_insert((modified, file.clone()));
            if entry.0 < modified {
                *entry = (modified, file);
            }
        }
    }
    Ok(newest)
}
