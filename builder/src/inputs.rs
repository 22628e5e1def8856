//! The files that GPU code was made from: cargo is to run the build script again when one of them changes, and when
//! nothing but these changes it is not.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// A set of files and folders.
#[derive(Default)]
pub(crate) struct Inputs(BTreeSet<PathBuf>);

impl Inputs {
    /// Adds a file, if it exists: cargo runs a build script that watches a missing file every time.
    pub(crate) fn add(&mut self, path: impl Into<PathBuf>) {
        let path = path.into();
        if path.exists() {
            self.0.insert(path);
        }
    }

    /// Adds the files that cargo's dep-info file for the library names, and the manifests of their packages.
    ///
    /// What lies in `generated` is left out: the build itself writes it, so it would always look new.
    pub(crate) fn add_dep_info(&mut self, text: &str, generated: &Path) {
        for file in dep_info(text).filter(|file| !file.starts_with(generated)) {
            let manifest = file
                .ancestors()
                .skip(1)
                .map(|folder| folder.join("Cargo.toml"))
                .find(|path| path.is_file());
            self.0.extend(manifest);
            self.add(file);
        }
    }

    /// Tells cargo.
    pub(crate) fn announce(&self) {
        for path in &self.0 {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
}

/// The prerequisites in a file of the form `output: file file`, where a space in a name has a backslash before it.
fn dep_info(text: &str) -> impl Iterator<Item = PathBuf> {
    let files = text
        .lines()
        .filter_map(|line| line.split_once(": ").map(|(_, files)| files));
    files.flat_map(|files| {
        let files = files.replace("\\ ", "\0");
        let names: Vec<String> = files.split_whitespace().map(|name| name.replace('\0', " ")).collect();
        names.into_iter().map(PathBuf::from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_spaces() {
        let files: Vec<_> = dep_info("/t/k.ptx: /w/my\\ dir/a.rs /w/b.rs\n\n").collect();
        assert_eq!(files, [Path::new("/w/my dir/a.rs"), Path::new("/w/b.rs")]);
        assert_eq!(dep_info("").count(), 0);
    }

    #[test]
    fn manifests_come_along_and_generated_files_do_not() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
        let text = format!(
            "/t/k.ptx: {0} {0}.missing",
            source.display().to_string().replace(' ', "\\ ")
        );
        let mut inputs = Inputs::default();
        inputs.add_dep_info(&text, Path::new("/t"));
        assert_eq!(
            inputs.0,
            [Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"), source.clone()].into()
        );

        let mut inputs = Inputs::default();
        inputs.add_dep_info(&text, source.parent().unwrap());
        assert!(inputs.0.is_empty());
    }
}
