//! Everything that can keep kernels from becoming PTX.

use std::{
    error, fmt, io,
    path::{Path, PathBuf},
};

use crate::{arch::Arch, toolchain::NotFound};

/// Why no PTX was made.
///
/// Each message says what happened, with which values, and what to do. `Debug` prints the same text, so that
/// `.unwrap()` and a `main` that returns the error are as readable.
#[non_exhaustive]
pub enum Error {
    /// No compiler on this machine can build GPU code.
    NoToolchain {
        /// Who was asked, and why each was turned down.
        not_found: NotFound,
        /// The one command that mends it.
        command: String,
    },
    /// `SHMEM_PTX=off` asked for no GPU code.
    Off,
    /// An environment variable holds something that it can't.
    Setting {
        /// The variable's name.
        variable: &'static str,
        /// What it holds.
        value: String,
        /// What it may hold.
        expected: String,
    },
    /// No folder for the compiled `core` is known: neither `SHMEM_CACHE` nor a home folder is set.
    NoCache,
    /// The GPU's `core` did not compile.
    Sysroot {
        /// The crate that failed.
        krate: &'static str,
        /// The compiler that was used.
        rustc: PathBuf,
        /// The end of what it said.
        output: String,
    },
    /// The package's manifest can't be used.
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// The package's GPU build failed.
    Compile {
        /// The package.
        package: String,
        /// The architecture that was being built.
        arch: Arch,
        /// The compiler's errors, without warnings, or what cargo said where it got no further.
        diagnostics: String,
    },
    /// The GPU code calls functions that exist nowhere on a GPU.
    Unresolved {
        /// The package.
        package: String,
        /// Their symbols.
        functions: Vec<String>,
    },
    /// The compiler's PTX holds something that this crate can't make sense of, or that no driver takes.
    Ptx {
        /// The package.
        package: String,
        /// What it is.
        problem: String,
    },
    /// A file or a program could not be used.
    Io {
        /// What was being done, as in "write".
        action: &'static str,
        /// The file or program.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    /// For `map_err`: `Error::io("write", path)`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { action, path, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoToolchain { not_found, command } => {
                write!(f, "{not_found}\nTo get one, run:\n    {command}")
            }
            Self::Off => f.write_str("SHMEM_PTX=off: GPU code was not built; unset it to build it"),
            Self::Setting {
                variable,
                value,
                expected,
            } => {
                write!(f, "{variable} is set to `{value}`, which is not valid: {expected}")
            }
            Self::NoCache => f.write_str(
                "no folder for the GPU's compiled `core` is known, because no home folder is set: \
                 set SHMEM_CACHE to a folder that survives builds",
            ),
            Self::Sysroot { krate, rustc, output } => write!(
                f,
                "`{krate}` could not be built for {target} with {rustc}; if that compiler is unusual, name another \
                 in SHMEM_DEVICE_RUSTC. It said:\n{output}",
                target = crate::TARGET,
                rustc = rustc.display(),
            ),
            Self::Manifest { path, problem } => write!(f, "{}: {problem}", path.display()),
            Self::Compile {
                package,
                arch,
                diagnostics,
            } => {
                write!(f, "the GPU build of `{package}` failed ({arch}):\n\n{diagnostics}")
            }
            Self::Unresolved { package, functions } => write!(
                f,
                "the GPU code of `{package}` calls {names}, which nothing defines on a GPU: functions of std, libc \
                 and libm exist on the host only. Use what the `shmem` crate offers in their place, or keep the call \
                 under cfg(not(target_arch = \"nvptx64\"))",
                names = functions
                    .iter()
                    .map(|name| format!("`{name}`"))
                    .collect::<Vec<_>>()
                    .join(", "),
            ),
            Self::Ptx { package, problem } => {
                write!(f, "the PTX of `{package}` can't be used: {problem}")
            }
            Self::Io { action, path, source } => {
                write!(f, "could not {action} {}: {source}", path.display())
            }
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::NoToolchain { not_found, .. } => Some(not_found),
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
