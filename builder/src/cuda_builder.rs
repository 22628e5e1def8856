//! `CudaBuilder`: PTX of another package, as a file.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::{
    arch::Arch,
    device::Request,
    error::Error,
    files,
    images::{Image, Kind},
    inputs::Inputs,
    manifest::Package,
    nested::Features,
    scrub,
    settings::{self, Mode},
};

/// Compiles the kernels of the package in another folder to PTX files.
///
/// For the layout in which a host package's build script compiles a device package. A launch from such a file is not
/// checked against the kernel's signature: where the host package can depend on the device package, let the device
/// package's own build script call [`crate::kernels`] instead.
///
/// ```no_run
/// use shmem_build::{Arch, CudaBuilder};
///
/// fn main() -> Result<(), shmem_build::Error> {
///     let ptx = CudaBuilder::new("../device").arch(Arch::Sm90).copy_to("kernels.ptx").build()?;
///     println!("cargo::rustc-env=KERNELS={}", ptx.display());
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is compiled before `.build()`"]
pub struct CudaBuilder {
    package: PathBuf,
    archs: Vec<Arch>,
    copy_to: Option<PathBuf>,
    network: bool,
}

impl CudaBuilder {
    /// Names the folder of the device package, relative to the package whose build script this is.
    pub fn new(package: impl Into<PathBuf>) -> Self {
        Self {
            package: package.into(),
            archs: Vec::new(),
            copy_to: None,
            network: false,
        }
    }

    /// Adds an architecture; without any, [`Arch::DEFAULT`] is built. `SHMEM_ARCH` goes before both.
    pub fn arch(mut self, arch: Arch) -> Self {
        self.archs.push(arch);
        self
    }

    /// Copies the PTX to `path`, relative to the package whose build script this is.
    ///
    /// With several architectures, `path` itself holds the lowest, which every GPU among them can run, and the others
    /// lie beside it: `out.ptx`, `out.sm_90.ptx`, `out.sm_100.ptx`.
    pub fn copy_to(mut self, path: impl Into<PathBuf>) -> Self {
        self.copy_to = Some(path.into());
        self
    }

    /// Whether the PTX is for Worlds with PEs that only a network adapter reaches (`SHMEM_PATH=ibgda`). Others take it too, and
    /// pay for it with registers. `SHMEM_NETWORK=1` or `0` goes before.
    pub fn network(mut self, network: bool) -> Self {
        self.network = network;
        self
    }

    /// Compiles, with the device package's default features, and returns the path of the PTX: the one given to
    /// [`CudaBuilder::copy_to`], otherwise one in `OUT_DIR`. With several architectures that is the lowest one's.
    ///
    /// Outside a build script it works as well, and then uses the target folder of the device package's workspace.
    ///
    /// # Errors
    /// Whatever kept the PTX from being made. `SHMEM_PTX=off` and a missing compiler are errors as well: without the
    /// file, the host package has nothing to embed.
    pub fn build(self) -> Result<PathBuf, Error> {
        let in_build_script = settings::var("OUT_DIR").map(PathBuf::from);
        if in_build_script.is_some() {
            settings::announce();
        }
        let mut inputs = Inputs::default();
        let built = self.compile(in_build_script.as_deref(), &mut inputs);
        if in_build_script.is_some() {
            inputs.announce();
        }
        built
    }

    fn compile(&self, out: Option<&Path>, inputs: &mut Inputs) -> Result<PathBuf, Error> {
        if Mode::from_env()? == Mode::Off {
            return Err(Error::Off);
        }
        let home = settings::var("CARGO_MANIFEST_DIR")
            .map(PathBuf::from)
            .unwrap_or_default();
        let package = Package::read(&home.join(&self.package))?;
        let target = out.and_then(scrub::target_dir).unwrap_or_else(|| target_of(&package));
        let request = Request {
            features: Features::Default,
            archs: settings::archs(self.archs.clone())?,
            kinds: vec![if settings::network(self.network)? {
                Kind::Network
            } else {
                Kind::LoadStore
            }],
            out: out.unwrap_or(&target).join(format!("{}-ptx", package.name)),
            stem: package.library.clone(),
            target,
            package,
        };
        let images = request.compile(inputs)?;
        match &self.copy_to {
            Some(path) => copy(&images, &home.join(path)),
            None => Ok(images.into_iter().next().map(|image| image.path).unwrap_or_default()),
        }
    }
}

/// Where cargo builds a package outside of any build script.
fn target_of(package: &Package) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| package.workspace.join("target"), PathBuf::from)
}

/// The lowest to `path`, the others beside it.
fn copy(images: &[Image], path: &Path) -> Result<PathBuf, Error> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        files::create_dir(folder)?;
    }
    for (i, image) in images.iter().enumerate() {
        let name = if i == 0 {
            path.to_path_buf()
        } else {
            beside(path, image.arch)
        };
        files::write_if_changed(&name, &image.ptx)?;
    }
    Ok(path.to_path_buf())
}

/// `out.sm_90.ptx` for `out.ptx`.
fn beside(path: &Path, arch: Arch) -> PathBuf {
    match path.extension() {
        Some(extension) => path.with_extension(format!("{arch}.{}", extension.display())),
        None => path.with_extension(arch.name()),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_lowest_architecture_gets_the_plain_name() {
        let scratch = files::Scratch::new(crate::testing::dir("copy")).unwrap();
        let image = |arch, ptx: &str| Image {
            arch,
            kind: Kind::LoadStore,
            path: PathBuf::new(),
            ptx: ptx.into(),
            cubin: None,
        };
        let path = scratch.path().join("new/out.ptx");
        let copied = copy(&[image(Arch::Sm80, "low"), image(Arch::Sm90a, "high")], &path).unwrap();
        assert_eq!(copied, path);
        assert_eq!(fs::read_to_string(&path).unwrap(), "low");
        assert_eq!(
            fs::read_to_string(path.with_file_name("out.sm_90a.ptx")).unwrap(),
            "high"
        );
        assert_eq!(beside(Path::new("out"), Arch::Sm90), Path::new("out.sm_90"));
    }
}
