//! The file that tells `#[kernel]` what was built.
//!
//! It holds one Rust expression of the type `shmem::Images`. The host crate includes it, so a message in it becomes
//! a compile error in the right place, and PTX in it becomes part of the program.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
};

use crate::{
    arch::Arch,
    error::Error,
    files::{self, Hash},
};

/// What code of calls to other PEs holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Loads and stores.
    LoadStore,
    /// Also work queue entries, for PEs that only a network adapter reaches.
    Network,
}

impl Kind {
    pub(crate) fn all(network: bool) -> Vec<Self> {
        if network {
            vec![Self::LoadStore, Self::Network]
        } else {
            vec![Self::LoadStore]
        }
    }

    /// What stands in a file's name.
    pub(crate) fn infix(self) -> &'static str {
        match self {
            Self::LoadStore => "",
            Self::Network => ".network",
        }
    }
}

/// One finished PTX file.
pub(crate) struct Image {
    pub(crate) arch: Arch,
    pub(crate) kind: Kind,
    pub(crate) path: PathBuf,
    pub(crate) ptx: String,
    /// Assembled for its architecture.
    pub(crate) cubin: Option<PathBuf>,
}

/// All of a package; at most one of the three fields holds something.
#[derive(Default)]
pub(crate) struct Images {
    /// Those of load and store, ascending; then the others.
    pub(crate) list: Vec<Image>,
    /// Why there are none, where that is no fault.
    pub(crate) absent: String,
    /// Why there are none, where it is.
    pub(crate) broken: String,
}

impl Images {
    pub(crate) fn absent(why: &Error) -> Self {
        Self {
            absent: why.to_string(),
            ..Self::default()
        }
    }

    pub(crate) fn broken(why: &Error) -> Self {
        Self {
            broken: why.to_string(),
            ..Self::default()
        }
    }

    /// Writes `images.rs` and returns its path.
    pub(crate) fn write(&self, out: &Path) -> Result<PathBuf, Error> {
        let path = out.join("images.rs");
        files::write_if_changed(&path, &self.expression())?;
        Ok(path)
    }

    fn expression(&self) -> String {
        let id = self
            .list
            .iter()
            .fold(Hash::new(), |hash, image| hash.add(&image.ptx))
            .get();
        let mut list = String::new();
        for Image {
            arch,
            kind,
            path,
            cubin,
            ..
        } in &self.list
        {
            let network = *kind == Kind::Network;
            let (number, exact, path) = (arch.number(), arch.is_exact(), path.display().to_string());
            let cubin = match cubin {
                Some(file) => format!("include_bytes!({:?})", file.display().to_string()),
                None => "&[]".to_owned(),
            };
            let image = format!(
                "\n    ::shmem::Image {{ arch: {number}, exact: {exact}, network: {network}, ptx: include_str!({path:?}), cubin: {cubin} }},"
            );
            list.push_str(&image);
        }
        let mut text = String::new();
        let Self { absent, broken, .. } = self;
        // Writing to a string can't fail.
        let _ = writeln!(
            text,
            "::shmem::Images {{ id: {id:#018x}, list: &[{list}], absent: {absent:?}, broken: {broken:?} }}"
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_listed_with_their_hash() {
        let image = |arch: Arch, ptx: &str| Image {
            arch,
            kind: Kind::LoadStore,
            path: format!("/a \"b\"/kernels.{arch}.ptx").into(),
            ptx: ptx.into(),
            cubin: (arch == Arch::Sm90a).then(|| "/a \"b\"/kernels.cubin".into()),
        };
        let images = Images {
            list: vec![image(Arch::Sm80, "x"), image(Arch::Sm90a, "y")],
            ..Images::default()
        };
        let text = images.expression();
        assert!(
            text.contains(
                r#"::shmem::Image { arch: 80, exact: false, network: false, ptx: include_str!("/a \"b\"/kernels.sm_80.ptx"), cubin: &[] }"#
            ),
            "{text}"
        );
        assert!(text.contains("arch: 90, exact: true"), "{text}");
        assert!(
            text.contains(r#"cubin: include_bytes!("/a \"b\"/kernels.cubin")"#),
            "{text}"
        );
        let other = Images {
            list: vec![image(Arch::Sm80, "x"), image(Arch::Sm90a, "z")],
            ..Images::default()
        };
        assert_ne!(text, other.expression());
    }

    #[test]
    fn messages_are_rust_literals() {
        let broken = "error: expected `\"`\n --> a\\b.rs:1:2\t{}";
        let images = Images {
            broken: broken.into(),
            ..Images::default()
        };
        let text = images.expression();
        assert!(
            text.contains(r#"broken: "error: expected `\"`\n --> a\\b.rs:1:2\t{}""#),
            "{text}"
        );
        assert!(text.contains("list: &[], absent: \"\""), "{text}");
    }
}
