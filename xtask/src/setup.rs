//! The device compiler and the PTX tools: found where they are, installed where a package manager has them.

use crate::command::{output, run};
use anyhow::Context;
use shmem_build::{sysroot, toolchain, tools};
use std::path::Path;
use std::process::Command;

/// PyPI's packages of the CUDA toolkit's assembler and disassemblers. Any version of these will do; PyPI has them from 13.2 on.
fn wheels() -> [String; 3] {
    let any = ["nvidia-cuda-nvdisasm", "nvidia-cuda-cuobjdump"].map(|name| format!("{name}>=13.0,<14"));
    let [nvdisasm, cuobjdump] = any;
    [format!("nvidia-cuda-nvcc=={}.*", tools::TOOLKIT), nvdisasm, cuobjdump]
}
const TOOLS: [&str; 3] = ["ptxas", "nvdisasm", "cuobjdump"];

/// Finds or installs everything, and says what it did. A part that can't be had is a warning: the host side and the
/// simulator work without.
pub(crate) fn setup(dry_run: bool) -> anyhow::Result<()> {
    if std::env::var("SHMEM_DEVICE_RUSTC").as_deref() == Ok("none")
        || std::env::var("SHMEM_PTX").as_deref() == Ok("off")
    {
        eprintln!(
            "xtask: warning: kernels run on the simulator only, because SHMEM_DEVICE_RUSTC=none or SHMEM_PTX=off: to compile \
             them for GPUs, unset it and run `cargo xtask setup`"
        );
        return Ok(());
    }
    device_compiler(dry_run)?;
    if let Err(error) = ptx_tools(dry_run) {
        eprintln!("xtask: warning: no ptxas, so that PTX is not checked: {error:#}");
    }
    if let Err(error) = mpirun(dry_run) {
        eprintln!("xtask: warning: no mpirun, so that starting under it is not tested: {error:#}");
    }
    if let Err(error) = adapter_header(dry_run) {
        eprintln!(
            "xtask: warning: no mlx5dv.h, so that formats of network adapters are not compared with it: {error:#}"
        );
    }
    Ok(())
}

/// Open MPI's launcher, for the test that starts a job under it.
fn mpirun(dry_run: bool) -> anyhow::Result<()> {
    if output(Command::new("mpirun").arg("--version")).is_ok() {
        return Ok(());
    }
    debian_package("openmpi-bin", "Open MPI", dry_run)
}

/// The header that entries of network adapters are compared with, for the test that compiles a C program against it.
fn adapter_header(dry_run: bool) -> anyhow::Result<()> {
    if Path::new("/usr/include/infiniband/mlx5dv.h").exists() {
        return Ok(());
    }
    debian_package("libibverbs-dev", "rdma-core's headers", dry_run)
}

fn debian_package(package: &str, what: &str, dry_run: bool) -> anyhow::Result<()> {
    anyhow::ensure!(
        Path::new("/etc/debian_version").exists() && is_root(),
        "install {what} (Debian: apt-get install {package})"
    );
    if dry_run {
        eprintln!("xtask: would install Debian's {package}");
        return Ok(());
    }
    let apt = |arguments: &[&str]| {
        let mut c = Command::new("apt-get");
        c.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        run(&mut c)
    };
    apt(&["update", "-q"])?;
    apt(&["install", "-y", "-q", "--no-install-recommends", package])
}

fn device_compiler(dry_run: bool) -> anyhow::Result<()> {
    let found = match toolchain::find() {
        Ok(found) => found,
        Err(missing) => {
            let Some(mut steps) = installers() else {
                eprintln!("xtask: warning: {missing}");
                return Ok(());
            };
            if dry_run {
                eprintln!("xtask: no device compiler; would run:");
                for step in &steps {
                    eprintln!("    {step:?}");
                }
                return Ok(());
            }
            for step in &mut steps {
                run(step)?;
            }
            match toolchain::find() {
                Ok(found) => found,
                Err(missing) => {
                    eprintln!("xtask: warning: {missing}");
                    return Ok(());
                }
            }
        }
    };
    eprintln!("xtask: device compiler: {}", found.rustc.display());
    if dry_run {
        eprintln!("xtask: would build core for nvptx64 if it is not in the cache");
        return Ok(());
    }
    let folder = sysroot::ensure(&found)?;
    eprintln!("xtask: core for nvptx64: {}", folder.display());
    Ok(())
}

/// The commands that install a device compiler here, or nothing where no package manager has one.
fn installers() -> Option<Vec<Command>> {
    let command = |program: &str, arguments: &[&str]| {
        let mut c = Command::new(program);
        c.args(arguments);
        c
    };
    if Path::new("/etc/debian_version").exists() && is_root() {
        let mut install = command(
            "apt-get",
            &[
                "install",
                "-y",
                "-q",
                "--no-install-recommends",
                "rustc-web",
                "rust-web-src",
            ],
        );
        install.env("DEBIAN_FRONTEND", "noninteractive");
        return Some(vec![command("apt-get", &["update", "-q"]), install]);
    }
    output(&mut command("rustup", &["--version"])).ok()?;
    Some(vec![command(
        "rustup",
        &[
            "toolchain",
            "install",
            "1.96.0",
            "--profile",
            "minimal",
            "--component",
            "rust-src",
        ],
    )])
}

fn is_root() -> bool {
    output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

fn ptx_tools(dry_run: bool) -> anyhow::Result<()> {
    if TOOLS.iter().all(|t| tools::find(t).is_some()) {
        return Ok(());
    }
    let folder = tools::folder().context("no cache folder: set SHMEM_CACHE or HOME")?;
    if dry_run {
        eprintln!(
            "xtask: would download {} from PyPI to {}",
            wheels().join(", "),
            folder.display()
        );
        return Ok(());
    }
    let scratch = folder.with_file_name("download");
    std::fs::create_dir_all(&scratch)?;
    let mut download = Command::new("python3");
    download
        .args(["-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d"])
        .arg(&scratch);
    download.args(wheels());
    run(&mut download)?;
    std::fs::create_dir_all(&folder)?;
    for wheel in std::fs::read_dir(&scratch)? {
        let wheel = wheel?.path();
        run(Command::new("python3")
            .args(["-m", "zipfile", "-e"])
            .arg(&wheel)
            .arg(scratch.join("files")))?;
    }
    for name in TOOLS {
        let from = scratch.join("files/nvidia/cu13/bin").join(name);
        let to = folder.join(name);
        // A neighbour that runs the same set-up sees the whole file or none.
        let part = folder.join(format!("{name}.{}", std::process::id()));
        std::fs::copy(&from, &part).with_context(|| format!("{} is not in the wheels", from.display()))?;
        make_executable(&part)?;
        std::fs::rename(&part, &to)?;
    }
    std::fs::remove_dir_all(&scratch)?;
    eprintln!("xtask: PTX tools: {}", folder.display());
    Ok(())
}

fn make_executable(file: &Path) -> anyhow::Result<()> {
    #[cfg(unix)]
    std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    #[cfg(not(unix))]
    let _ = file;
    Ok(())
}
