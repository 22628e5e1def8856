//! Why there is no compiler for the GPU side.

use std::{
    error, fmt,
    path::{Path, PathBuf},
};

use super::{Version, probe::OLDEST, rustup_home};

/// No compiler on this machine can build GPU code.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct NotFound {
    /// `SHMEM_DEVICE_RUSTC` is set, so that no other compiler was asked.
    pub explicit: bool,
    /// Every compiler that was asked, in order; none where `SHMEM_DEVICE_RUSTC=none` forbids it.
    pub turned_down: Vec<TurnedDown>,
}

/// A compiler that can't build GPU code.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TurnedDown {
    /// The compiler.
    pub rustc: PathBuf,
    /// What it lacks.
    pub reason: Reason,
}

/// What a compiler lacks.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// It does not run, or is no rustc; the text says what happened.
    DoesNotRun(String),
    /// It is older than 1.96.0.
    TooOld(Version),
    /// Its library source is in none of these places.
    NoLibrarySource(Version, Vec<PathBuf>),
    /// It was built without the target.
    NoTarget(Version),
}

impl NotFound {
    /// What changes when a compiler is installed, so that a build script can watch it. Only what exists: cargo runs a
    /// build script that watches a missing file every time.
    pub(crate) fn watch(&self) -> Vec<PathBuf> {
        let mut watch = vec![PathBuf::from("/var/lib/dpkg/status")];
        watch.extend(rustup_home().map(|home| home.join("update-hashes")));
        for TurnedDown { rustc, .. } in &self.turned_down {
            watch.push(rustc.clone());
            let toolchain = rustc.parent().and_then(Path::parent);
            watch.extend(toolchain.map(|folder| folder.join("lib/rustlib/components")));
        }
        watch.retain(|path| path.exists());
        watch
    }
}

impl NotFound {
    /// In one line: the compiler that `SHMEM_DEVICE_RUSTC` names and why it was turned down, or that there is none.
    pub(crate) fn summary(&self) -> String {
        match self.turned_down.first() {
            Some(TurnedDown { rustc, reason }) if self.explicit => {
                let text = format!(
                    "SHMEM_DEVICE_RUSTC names no compiler for GPU code, {}: {reason}",
                    rustc.display()
                );
                text.replace('\n', " ")
            }
            _ => "no compiler for GPU code was found".into(),
        }
    }
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match (self.explicit, self.turned_down.is_empty()) {
            (true, true) => {
                return f.write_str("SHMEM_DEVICE_RUSTC=none: no compiler for GPU code was looked for");
            }
            (true, false) => "SHMEM_DEVICE_RUSTC names no compiler for GPU code",
            (false, _) => "no compiler for GPU code was found",
        };
        write!(f, "{what}: it takes rustc {OLDEST} or newer with its library source")?;
        for TurnedDown { rustc, reason } in &self.turned_down {
            write!(f, "\n  {}: {reason}", rustc.display())?;
        }
        Ok(())
    }
}

impl error::Error for NotFound {}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DoesNotRun(what) => write!(f, "does not work: {what}"),
            Self::TooOld(version) => write!(
                f,
                "{version} is too old: only from {OLDEST} does rustc mark every GPU function convergent, so an older \
                 one may tear a barrier apart"
            ),
            Self::NoLibrarySource(version, places) => {
                write!(f, "{version} has no library source (rustup component rust-src) in")?;
                for (i, place) in places.iter().enumerate() {
                    write!(f, "{} {}", if i == 0 { "" } else { " or" }, place.display())?;
                }
                Ok(())
            }
            Self::NoTarget(version) => write!(f, "{version} was built without the target {}", crate::TARGET),
        }
    }
}
