//! Hides the build that runs a build script from the programs that the build script starts.
//!
//! Cargo describes the host build to a build script in some hundred variables. The nested cargo would take many of
//! them for its own configuration, so they are removed. What configures the *user's* cargo stays: where its home is,
//! how it reaches registries, the linker for host code, and the job server that both builds share.

use std::{
    env,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::Command,
};

/// What cargo sets for build scripts beside its own prefixes.
const SET_BY_CARGO: [&str; 8] = [
    "DEBUG",
    "HOST",
    "NUM_JOBS",
    "OPT_LEVEL",
    "OUT_DIR",
    "PROFILE",
    "TARGET",
    "CLIPPY_ARGS",
];

/// What configures cargo itself and means the same in a nested build.
const KEPT: [&str; 8] = [
    "CARGO_HOME",
    "CARGO_HTTP_",
    "CARGO_MAKEFLAGS",
    "CARGO_NET_",
    "CARGO_REGISTR",
    "CARGO_SOURCE_",
    "RUSTUP_AUTO_INSTALL",
    "RUSTUP_HOME",
];

/// Where the system's loader looks for libraries: cargo puts the host build's folders in front.
const LOADER_PATHS: [&str; 2] = ["LD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"];

/// A command that sees the user's environment without the running build's part of it.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(|name| !keeps(name)) {
            command.env_remove(name);
        }
    }
    loader_paths(&mut command);
    command
}

/// Takes the running build's folders out of the loader's path, so that a compiler finds its own libraries.
pub(crate) fn loader_paths(command: &mut Command) {
    let target = env::var_os("OUT_DIR").and_then(|out| target_dir(Path::new(&out)));
    let toolchain = env::var_os("CARGO").and_then(|cargo| libraries_of(Path::new(&cargo)));
    for name in LOADER_PATHS {
        if let Some(value) = env::var_os(name) {
            match without(&value, target.as_deref(), toolchain.as_deref()) {
                Some(rest) => command.env(name, rest),
                None => command.env_remove(name),
            };
        }
    }
}

fn keeps(name: &str) -> bool {
    if KEPT.iter().any(|kept| name.starts_with(kept)) {
        return true;
    }
    // CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER: without it, some machines can't link build scripts.
    if name.starts_with("CARGO_TARGET_") && name.ends_with("_LINKER") && !name.contains("NVPTX64") {
        return true;
    }
    let build = ["CARGO", "RUST", "DEP_"].iter().any(|prefix| name.starts_with(prefix));
    !build && !SET_BY_CARGO.contains(&name)
}

/// `<toolchain>/lib` of `<toolchain>/bin/cargo`.
fn libraries_of(cargo: &Path) -> Option<PathBuf> {
    Some(cargo.parent()?.parent()?.join("lib"))
}

/// A loader path without what lies in `target` or belongs to a compiler with these `libraries`; `None` where nothing
/// is left.
fn without(path: &OsStr, target: Option<&Path>, libraries: Option<&Path>) -> Option<OsString> {
    let foreign = |entry: &PathBuf| {
        let built = target.is_some_and(|target| entry.starts_with(target));
        let compiler = libraries.is_some_and(|folder| entry == folder || entry.starts_with(folder.join("rustlib")));
        !built && !compiler
    };
    let rest: Vec<PathBuf> = env::split_paths(path).filter(foreign).collect();
    if rest.is_empty() {
        None
    } else {
        env::join_paths(rest).ok()
    }
}

/// The target folder that an `OUT_DIR` lies in: `<target>[/<triple>]/<profile>/build/<package and hash>/out`.
pub(crate) fn target_dir(out_dir: &Path) -> Option<PathBuf> {
    let build = out_dir.ancestors().skip(2).find(|folder| folder.ends_with("build"))?;
    let root = build.parent()?.parent()?;
    let for_triple = env::var_os("TARGET").is_some_and(|triple| root.file_name() == Some(&triple));
    Some(if for_triple { root.parent()? } else { root }.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_is_hidden_and_the_user_is_not() {
        for gone in [
            "CARGO",
            "CARGO_PKG_NAME",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_BUILD_TARGET",
            "CARGO_TARGET_DIR",
            "CARGO_TARGET_NVPTX64_NVIDIA_CUDA_LINKER",
            "RUSTC",
            "RUSTC_WORKSPACE_WRAPPER",
            "RUSTFLAGS",
            "RUSTUP_TOOLCHAIN",
            "DEP_Z_INCLUDE",
            "TARGET",
            "OUT_DIR",
            "NUM_JOBS",
        ] {
            assert!(!keeps(gone), "{gone}");
        }
        for kept in [
            "PATH",
            "HOME",
            "SHMEM_ARCH",
            "CARGO_HOME",
            "CARGO_MAKEFLAGS",
            "CARGO_NET_OFFLINE",
            "CARGO_REGISTRIES_MINE_INDEX",
            "CARGO_SOURCE_CRATES_IO_REPLACE_WITH",
            "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER",
            "RUSTUP_HOME",
        ] {
            assert!(keeps(kept), "{kept}");
        }
    }

    #[test]
    fn loader_paths_lose_the_builds_own_folders() {
        let rest = |path| {
            without(
                OsStr::new(path),
                Some(Path::new("/w/target")),
                Some(Path::new("/usr/lib")),
            )
        };
        assert_eq!(
            rest("/w/target/debug/deps:/usr/lib/wsl:/usr/lib:/usr/lib/rustlib/x/lib"),
            Some("/usr/lib/wsl".into())
        );
        assert_eq!(rest("/usr/lib"), None);
    }

    #[test]
    fn target_dirs_of_both_layouts() {
        let find = |out| target_dir(Path::new(out)).map(|dir| dir.display().to_string());
        assert_eq!(find("/w/target/debug/build/k1-0a/out").as_deref(), Some("/w/target"));
        assert_eq!(find("/w/target/debug/build/k1/0a/out").as_deref(), Some("/w/target"));
        assert_eq!(find("/w/out"), None);
    }
}
