//! A libcuda that has the driver's names and nothing behind them: what the linker wants of programs with cust on machines without a driver.

use crate::command::{cargo, output, run, target};
use anyhow::Context;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that tells cust's build script where it is.
pub(crate) const VARIABLE: &str = "CUDA_LIBRARY_PATH";

/// Makes the stub; returns the folder that [`VARIABLE`] is to name. Loading it is an error that the system's own
/// libcuda.so.1 takes the place of: only its name is written into programs.
pub(crate) fn make() -> anyhow::Result<PathBuf> {
    let folder = target().join("cuda-stub");
    let (lib, source) = (folder.join("lib64"), folder.join("stub.c"));
    std::fs::create_dir_all(&lib)?;
    let mut text = String::new();
    for name in names()? {
        writeln!(text, "void {name}(void) {{}}")?;
    }
    std::fs::write(&source, text)?;
    run(Command::new("cc")
        .args([
            "-shared",
            "-fPIC",
            "-fno-builtin",
            "-w",
            "-Wl,-soname,libcuda.so.1",
            "-o",
        ])
        .arg(lib.join("libcuda.so"))
        .arg(&source))?;
    Ok(folder)
}

/// The functions that cust names.
fn names() -> anyhow::Result<Vec<String>> {
    let metadata = output(&mut cargo(&["metadata", "--all-features", "--format-version", "1"]))?;
    let manifest = metadata
        .split('"')
        .find(|text| text.contains("/cust_raw-") && text.ends_with("Cargo.toml"))
        .context("cust_raw is not among the dependencies")?;
    let source = Path::new(manifest).with_file_name("src").join("cuda.rs");
    let text = std::fs::read_to_string(&source).with_context(|| source.display().to_string())?;
    let mut names: Vec<_> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub fn cu")?.split_once('('))
        .map(|(name, _)| format!("cu{name}"))
        .collect();
    names.dedup();
    Ok(names)
}
