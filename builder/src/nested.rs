//! The cargo inside cargo that compiles a package's library, and what it depends on, for the GPU.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use crate::{
    TARGET,
    arch::Arch,
    diagnostics,
    error::Error,
    files,
    images::Kind,
    manifest::{self, Package},
    scrub, settings, sysroot,
    toolchain::Toolchain,
};

/// A profile of our own: nothing that the user sets for theirs reaches GPU code.
const PROFILE: &str = "shmem-ptx";

const PROFILE_SETTINGS: [&str; 11] = [
    "inherits=\"release\"",
    "panic=\"abort\"",
    "opt-level=3",
    "lto=\"fat\"",
    "codegen-units=1",
    "debug=false",
    "debug-assertions=false",
    "overflow-checks=false",
    "incremental=false",
    "strip=false",
    "rpath=false",
];

/// For every crate of the GPU build.
///
/// - no `JumpThreading`: that pass duplicates barriers into the arms of a branch.
/// - the crate attributes spare a user's library all of them. A crate that has them too is fine.
/// - the `-C` options repeat the profile, because a user's `[profile.release.package."*"]` would beat it.
/// - lints are the host build's business: here all are warnings at most, and none is shown. Capping them to `allow`
///   instead would hide a warning that cargo asks rustc for when it learns about a target.
const FLAGS: [&str; 10] = [
    "-Zmir-enable-passes=-JumpThreading",
    "-Zcrate-attr=no_std",
    "-Zcrate-attr=feature(abi_ptx,asm_experimental_arch,link_llvm_intrinsics,stdarch_nvptx)",
    "-Copt-level=3",
    "-Ccodegen-units=1",
    "-Cdebug-assertions=off",
    "-Coverflow-checks=off",
    "-Cdebuginfo=0",
    "--cap-lints=warn",
    "-Awarnings",
];

/// Which features of the package are on.
pub(crate) enum Features {
    /// What the package has by default.
    Default,
    /// These, separated by commas, and no others.
    Exactly(String),
}

/// A GPU build that holds the lock of its folder.
pub(crate) struct Nested<'a> {
    package: &'a Package,
    toolchain: &'a Toolchain,
    features: Features,
    sysroot: PathBuf,
    /// What is in the sysroot; [`sysroot::content`].
    core: String,
    /// GPU code records its calls.
    records: bool,
    /// `<target>/shmem-ptx`: one for all packages and profiles of a workspace, so that each dependency is compiled
    /// once. Cargo's own lock doesn't do: files that we read after cargo has left would be the next one's.
    folder: PathBuf,
    _lock: File,
}

impl<'a> Nested<'a> {
    pub(crate) fn new(
        package: &'a Package,
        toolchain: &'a Toolchain,
        features: Features,
        sysroot: PathBuf,
        target: &Path,
    ) -> Result<Self, Error> {
        let core = sysroot::content(&sysroot)?;
        let folder = target.join(PROFILE);
        files::create_dir(&folder)?;
        let lock = files::lock(&folder.join(".shmem-lock"))?;
        Ok(Self {
            package,
            toolchain,
            features,
            sysroot,
            core,
            records: settings::records()?,
            folder,
            _lock: lock,
        })
    }

    /// Compiles for one architecture and returns the compiler's PTX. What was run and what it said goes to `log`.
    pub(crate) fn compile(&self, arch: Arch, kind: Kind, log: &Path) -> Result<String, Error> {
        // The compiler's name for its output has a hash of cargo's in it, so it is found by being the only one.
        let output_folder = self.folder.join(TARGET).join(PROFILE);
        for old in assemblies(&output_folder) {
            drop(fs::remove_file(old));
        }
        let mut command = self.command(arch, kind);
        let start = Instant::now();
        let output = command
            .stdin(Stdio::null())
            .output()
            .map_err(Error::io("run", &manifest::cargo()))?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        let text = format!("{command:?}\n{}, {:.2?}\n\n{stderr}", output.status, start.elapsed());
        fs::write(log, text).map_err(Error::io("write", log))?;
        if output.status.success() {
            let made = assemblies(&output_folder);
            let assembly = made.first().unwrap_or(&output_folder);
            return fs::read_to_string(assembly).map_err(Error::io("read the compiler's PTX from", assembly));
        }
        if stderr.contains("no library targets found") {
            let path = self.package.dir.join("Cargo.toml");
            let problem = "the package has no library: kernels live in src/lib.rs, so that they can be compiled \
                           without the rest of a program";
            return Err(Error::Manifest {
                path,
                problem: problem.into(),
            });
        }
        let diagnostics = diagnostics::errors(&stderr);
        Err(Error::Compile {
            package: self.package.name.clone(),
            arch,
            diagnostics,
        })
    }

    /// Cargo's list of the local files that the library was made from, where one was written.
    pub(crate) fn dep_info(&self) -> Option<String> {
        let folder = self.folder.join(TARGET).join(PROFILE);
        fs::read_to_string(folder.join(format!("{}.d", self.package.library))).ok()
    }

    /// The architecture stands behind the `--`, which only the library itself sees: its dependencies serve every
    /// architecture, and what is inlined or linked from them becomes code for this one.
    fn command(&self, arch: Arch, kind: Kind) -> Command {
        let mut command = scrub::command(manifest::cargo());
        command
            .current_dir(&self.package.dir)
            .env("RUSTC", &self.toolchain.rustc)
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTC_WRAPPER", "")
            .env("RUSTC_WORKSPACE_WRAPPER", "")
            .env("CARGO_ENCODED_RUSTFLAGS", self.flags(kind))
            .env("CARGO_BUILD_BUILD_DIR", &self.folder)
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_TERM_COLOR", "never");
        for setting in PROFILE_SETTINGS {
            command.arg("--config").arg(format!("profile.{PROFILE}.{setting}"));
        }
        command.args(["rustc", "--quiet", "--lib", "--crate-type=cdylib"]);
        command
            .args(["--profile", PROFILE, "--target", TARGET])
            .arg("--target-dir")
            .arg(&self.folder);
        if self.package.lock_file().is_some() {
            command.arg("--locked");
        }
        if let Features::Exactly(features) = &self.features {
            command.args(["--no-default-features", "--features", features]);
        }
        // Nothing is to be linked: fat LTO has put everything into one PTX file by then.
        command.args(["--", "-Clinker=true", &format!("-Ctarget-cpu={arch}")]);
        // Without a path: rustc would take it apart at each comma.
        command.arg("--emit=asm");
        command
    }

    /// The `cfg` is for cargo alone, which doesn't look into the sysroot: with another `core`, other flags, so that
    /// nothing that was compiled against the last one is used.
    fn flags(&self, kind: Kind) -> String {
        let records = if self.records { "\x1f--cfg=shmem_timeline" } else { "" };
        let network = match kind {
            Kind::LoadStore => "",
            Kind::Network => "\x1f--cfg=shmem_network",
        };
        format!(
            "{}\x1f--sysroot={}\x1f--cfg=shmem_core=\"{}\"{records}{network}",
            FLAGS.join("\x1f"),
            self.sysroot.display(),
            self.core
        )
    }
}

/// Every assembly file in a folder and those below it.
fn assemblies(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(assemblies(&path));
        } else if path.extension().is_some_and(|extension| extension == "s") {
            found.push(path);
        }
    }
    found
}
