//! What must be known of a package before cargo builds it.
//!
//! Manifests are read line by line: a TOML parser would be a dependency, compiled twice in every user's build, for
//! three plain strings.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use crate::{error::Error, scrub};

/// A package whose library holds kernels.
pub(crate) struct Package {
    /// The folder of its manifest, absolute.
    pub(crate) dir: PathBuf,
    pub(crate) name: String,
    /// The name of its library, as files are called.
    pub(crate) library: String,
    /// The folder of its workspace's manifest, the package's own where there is no other.
    pub(crate) workspace: PathBuf,
}

impl Package {
    pub(crate) fn read(dir: &Path) -> Result<Self, Error> {
        let dir = std::path::absolute(dir).map_err(Error::io("find", dir))?;
        let path = dir.join("Cargo.toml");
        let manifest = fs::read_to_string(&path).map_err(Error::io("read", &path))?;
        let Some(name) = string(&manifest, "package", "name") else {
            let problem = "no package name in it: kernels are compiled from a package's folder".into();
            return Err(Error::Manifest { path, problem });
        };
        let library = string(&manifest, "lib", "name").unwrap_or_else(|| name.replace('-', "_"));
        let workspace = workspace(&dir)?;
        Ok(Self {
            dir,
            name,
            library,
            workspace,
        })
    }

    /// The lock file, once cargo has written one.
    pub(crate) fn lock_file(&self) -> Option<PathBuf> {
        Some(self.workspace.join("Cargo.lock")).filter(|path| path.is_file())
    }

    /// Refuses the resolver that mixes the features of host and GPU dependencies.
    pub(crate) fn check_resolver(&self) -> Result<(), Error> {
        let path = self.workspace.join("Cargo.toml");
        let manifest = fs::read_to_string(&path).map_err(Error::io("read", &path))?;
        match old_resolver(&manifest) {
            None => Ok(()),
            Some(why) => Err(Error::Manifest {
                path,
                problem: format!(
                    "{why}, and that resolver gives the features of host dependencies to GPU code: \
                     set `resolver = \"3\"` (or \"2\")"
                ),
            }),
        }
    }
}

pub(crate) fn cargo() -> PathBuf {
    env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from)
}

fn workspace(dir: &Path) -> Result<PathBuf, Error> {
    let cargo = cargo();
    let mut command = scrub::command(&cargo);
    command
        .current_dir(dir)
        .args(["locate-project", "--workspace", "--message-format=plain"]);
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(Error::io("run", &cargo))?;
    let manifest = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    match manifest.parent() {
        Some(folder) if output.status.success() => Ok(folder.to_path_buf()),
        _ => {
            let problem = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(Error::Manifest {
                path: dir.join("Cargo.toml"),
                problem,
            })
        }
    }
}

/// How a workspace's manifest selects resolver 1, if it does.
fn old_resolver(manifest: &str) -> Option<&'static str> {
    let resolver = string(manifest, "workspace", "resolver").or_else(|| string(manifest, "package", "resolver"));
    if resolver.as_deref() == Some("1") {
        return Some("`resolver = \"1\"`");
    }
    let has = |header| manifest.lines().any(|line| line.trim() == header);
    let silent = has("[workspace]") && !has("[package]") && !manifest.contains("resolver");
    silent.then_some("a workspace without a root package that names no resolver gets resolver 1")
}

/// The string `key` of `[table]`, also as `table.key`.
fn string(manifest: &str, table: &str, key: &str) -> Option<String> {
    let mut current = "";
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            current = line.split('#').next().unwrap_or_default().trim();
        } else if let Some((name, value)) = line.split_once('=') {
            let name = name.trim();
            let here = name == key && current.strip_prefix('[').and_then(|t| t.strip_suffix(']')) == Some(table);
            let dotted = current.is_empty() && name.split_once('.') == Some((table, key));
            if here || dotted {
                let quote = value.trim().chars().next().filter(|c| matches!(c, '"' | '\''))?;
                return Some(value.trim()[1..].split(quote).next()?.to_owned());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_tables() {
        let manifest = "lib.name = 'dotted'\n[package] # x\nname = \"k-1\" # y\n[dependencies]\nname = \"no\"\n";
        assert_eq!(string(manifest, "package", "name").as_deref(), Some("k-1"));
        assert_eq!(string(manifest, "lib", "name").as_deref(), Some("dotted"));
        assert_eq!(string(manifest, "package", "version"), None);
        assert_eq!(string("[lib]\nname.workspace = true\n", "lib", "name"), None);
    }

    #[test]
    fn resolver_one_is_seen() {
        assert!(old_resolver("[workspace]\nresolver = \"1\"\nmembers = []\n").is_some());
        assert!(old_resolver("[package]\nname = \"a\"\nresolver = \"1\"\n").is_some());
        assert!(old_resolver("[workspace]\nmembers = [\"a\"]\n").is_some());
        assert!(old_resolver("[workspace]\nmembers = [\"a\"]\nresolver = \"3\"\n").is_none());
        assert!(old_resolver("[package]\nname = \"a\"\nedition = \"2024\"\n").is_none());
        assert!(old_resolver("[package]\nname = \"a\"\n[workspace]\n").is_none());
    }
}
