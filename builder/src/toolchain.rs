//! Finds the compiler for the GPU side.
//!
//! It need not be the one that compiles the host side. It must be 1.96.0 or newer, because only from there does
//! rustc mark every function for the GPU `convergent`: an older one may duplicate a barrier into two branches. And
//! its library source must be there, because a `core` that was compiled elsewhere went through a pass that does the
//! same damage.

mod not_found;
mod probe;

use std::{
    cmp::Reverse,
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

pub use not_found::{NotFound, Reason, TurnedDown};
pub use probe::Version;

use crate::settings;

/// A compiler that can build GPU code.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Toolchain {
    /// The compiler itself; where rustup's proxy was found, what stands behind it.
    pub rustc: PathBuf,
    /// Its version.
    pub version: Version,
    /// All that `rustc -vV` prints, which names this very build of the compiler.
    pub verbose_version: String,
    /// The source of its standard library: the folder that holds `core`.
    pub library: PathBuf,
    /// Its own sysroot, with the host's standard library. The GPU's is made by [`crate::sysroot::ensure`].
    pub sysroot: PathBuf,
}

/// The first compiler that can build GPU code.
///
/// If `SHMEM_DEVICE_RUSTC` is set, that one or none. Otherwise, in this order: the active one (`RUSTC`, or `rustc` on
/// the path); those of rustup, newest first; `/usr/bin/rustc`; `/usr/local/bin/rustc`. Runs each candidate up to two
/// times, 20 to 30 ms each. Works inside a build script and outside.
///
/// # Errors
/// [`NotFound`] says of each candidate why it was turned down.
pub fn find() -> Result<Toolchain, NotFound> {
    Search::from_env().run()
}

/// Where to look: the environment's answer, or a test's.
struct Search {
    /// `SHMEM_DEVICE_RUSTC`.
    explicit: Option<OsString>,
    /// `RUSTC`, or `rustc` to be found on the path.
    active: OsString,
    /// `~/.rustup`.
    rustup_home: Option<PathBuf>,
    /// Where systems install a compiler.
    system: Vec<PathBuf>,
    /// Where Debian puts library sources: `<this>/rustc-1.96.0/library`.
    sources: PathBuf,
}

impl Search {
    fn from_env() -> Self {
        Self {
            explicit: settings::var(settings::DEVICE_RUSTC),
            active: settings::var("RUSTC").unwrap_or_else(|| "rustc".into()),
            rustup_home: rustup_home(),
            system: vec!["/usr/bin/rustc".into(), "/usr/local/bin/rustc".into()],
            sources: "/usr/src".into(),
        }
    }

    fn run(&self) -> Result<Toolchain, NotFound> {
        let mut turned_down = Vec::new();
        let explicit = self.explicit.is_some();
        let found = match &self.explicit {
            Some(none) if none == "none" => None,
            Some(path) => self.first([probe::look(Path::new(path))], &mut turned_down),
            None => {
                let active = [probe::look(Path::new(&self.active))];
                let system = self.system.iter().filter(|path| path.exists());
                self.first(active, &mut turned_down)
                    .or_else(|| self.first(self.of_rustup(), &mut turned_down))
                    .or_else(|| self.first(system.map(|path| probe::look(path)), &mut turned_down))
            }
        };
        found.ok_or(NotFound { explicit, turned_down })
    }

    /// Rustup's toolchains, newest first; those that don't run come last.
    fn of_rustup(&self) -> Vec<probe::Seen> {
        let Some(home) = &self.rustup_home else {
            return Vec::new();
        };
        let folders = fs::read_dir(home.join("toolchains")).into_iter().flatten().flatten();
        let compilers = folders
            .map(|folder| folder.path().join("bin/rustc"))
            .filter(|rustc| rustc.exists());
        let mut seen: Vec<_> = compilers.map(|rustc| probe::look(&rustc)).collect();
        seen.sort_by_key(|seen| (Reverse(seen.version().cloned()), seen.asked().to_path_buf()));
        seen
    }

    /// The first candidate that fits; the others are added to `turned_down`, each compiler once.
    fn first(
        &self,
        candidates: impl IntoIterator<Item = probe::Seen>,
        turned_down: &mut Vec<TurnedDown>,
    ) -> Option<Toolchain> {
        for seen in candidates {
            match seen.qualify(&self.sources) {
                Ok(toolchain) => return Some(toolchain),
                Err(no) if turned_down.iter().any(|known| known.rustc == no.rustc) => {}
                Err(no) => turned_down.push(no),
            }
        }
        None
    }
}

/// `$RUSTUP_HOME`, or `~/.rustup`.
pub(crate) fn rustup_home() -> Option<PathBuf> {
    settings::var("RUSTUP_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(env::home_dir()?.join(".rustup")))
}

#[cfg(all(test, unix))]
mod tests;
