//! Asks one compiler what it is.

use std::{
    env::consts::EXE_SUFFIX,
    fmt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::{Reason, Toolchain, TurnedDown};
use crate::{TARGET, scrub};

/// The first compiler that marks every GPU function convergent.
pub(super) const OLDEST: Version = Version {
    major: 1,
    minor: 96,
    patch: 0,
    pre: None,
};

/// A compiler's version, such as `1.96.0` or `1.97.0-nightly`; a pre-release comes before its release.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Version {
    /// 1 of `1.97.0-nightly`.
    pub major: u32,
    /// 97 of `1.97.0-nightly`.
    pub minor: u32,
    /// 0 of `1.97.0-nightly`.
    pub patch: u32,
    /// `nightly` of `1.97.0-nightly`.
    pub pre: Option<String>,
}

impl Version {
    fn parse(text: &str) -> Option<Self> {
        let (numbers, pre) = match text.split_once('-') {
            Some((numbers, pre)) => (numbers, Some(pre.to_owned())),
            None => (text, None),
        };
        let mut numbers = numbers.split('.').map(|number| number.parse().ok());
        let mut next = || numbers.next().flatten();
        Some(Self {
            major: next()?,
            minor: next()?,
            patch: next()?,
            pre,
        })
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let key = |v: &Self| (v.major, v.minor, v.patch, v.pre.is_none());
        key(self).cmp(&key(other)).then_with(|| self.pre.cmp(&other.pre))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        self.pre.iter().try_for_each(|pre| write!(f, "-{pre}"))
    }
}

/// A candidate and its answer to `rustc -vV`.
pub(super) struct Seen {
    asked: PathBuf,
    answer: Result<(Version, String), String>,
}

/// Runs `rustc -vV`.
pub(super) fn look(rustc: &Path) -> Seen {
    let answer = ask(rustc, &["-vV"]).and_then(|text| {
        let release = text.lines().find_map(|line| line.strip_prefix("release: "));
        let version = release.and_then(Version::parse);
        version
            .map(|version| (version, text))
            .ok_or_else(|| "`-vV` names no release".into())
    });
    Seen {
        asked: rustc.to_path_buf(),
        answer,
    }
}

impl Seen {
    pub(super) fn asked(&self) -> &Path {
        &self.asked
    }

    pub(super) fn version(&self) -> Option<&Version> {
        self.answer.as_ref().ok().map(|(version, _)| version)
    }

    /// The whole toolchain, if it can build GPU code.
    pub(super) fn qualify(self, sources: &Path) -> Result<Toolchain, TurnedDown> {
        let asked = self.asked;
        let no = |rustc: &Path, reason| TurnedDown {
            rustc: rustc.to_path_buf(),
            reason,
        };
        let does_not_run = |what| no(&asked, Reason::DoesNotRun(what));
        let (version, verbose_version) = self.answer.map_err(does_not_run)?;
        if version < OLDEST {
            return Err(no(&asked, Reason::TooOld(version)));
        }
        let facts = ask(&asked, &["--print=sysroot", "--print=target-list"]).map_err(does_not_run)?;
        let mut lines = facts.lines();
        let sysroot = PathBuf::from(lines.next().unwrap_or_default());
        let rustc = behind_proxy(&asked, &sysroot);
        if !lines.any(|target| target == TARGET) {
            return Err(no(&rustc, Reason::NoTarget(version)));
        }
        let places = [
            sysroot.join("lib/rustlib/src/rust/library"),
            sources.join(format!("rustc-{version}/library")),
        ];
        let Some(library) = places
            .iter()
            .find(|place| place.join("core/src/lib.rs").is_file())
            .cloned()
        else {
            return Err(no(&rustc, Reason::NoLibrarySource(version, places.into())));
        };
        Ok(Toolchain {
            rustc,
            version,
            verbose_version,
            library,
            sysroot,
        })
    }
}

/// Rustup's `rustc` picks a toolchain by folder and environment each time it runs; the compiler in the sysroot is
/// always the same.
fn behind_proxy(asked: &Path, sysroot: &Path) -> PathBuf {
    let own = sysroot.join("bin").join(format!("rustc{EXE_SUFFIX}"));
    if own.is_file() { own } else { asked.to_path_buf() }
}

/// Runs the compiler. Its environment is the caller's, because rustup's proxy takes the active toolchain from there,
/// but a question must not make rustup install anything.
fn ask(rustc: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(rustc);
    command
        .args(arguments)
        .env("RUSTUP_AUTO_INSTALL", "0")
        .stdin(Stdio::null());
    scrub::loader_paths(&mut command);
    let output = command.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!(
            "{}: {}",
            output.status,
            stderr.lines().next().unwrap_or("no message")
        ));
    }
    String::from_utf8(output.stdout).map_err(|_| "its answer is not UTF-8".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_order_and_print() {
        let parse = |text| Version::parse(text).unwrap();
        assert!(parse("1.96.0-nightly") < OLDEST && parse("1.95.1") < OLDEST);
        assert!(parse("1.96.0") >= OLDEST && parse("1.97.0-nightly") >= OLDEST && parse("2.0.0") > OLDEST);
        assert_eq!(parse("1.97.0-beta.2").to_string(), "1.97.0-beta.2");
        assert_eq!(Version::parse("1.96"), None);
        assert_eq!(Version::parse("x.y.z"), None);
    }
}
