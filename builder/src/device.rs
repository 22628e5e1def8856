//! From a package's folder to finished PTX files.

use std::path::PathBuf;

use crate::{
    advice,
    arch::Arch,
    error::Error,
    files,
    images::{Image, Kind},
    inputs::Inputs,
    manifest::Package,
    nested::{Features, Nested},
    ptx, sysroot, toolchain,
};

/// What is to be compiled, and where to.
pub(crate) struct Request {
    pub(crate) package: Package,
    pub(crate) features: Features,
    /// Ascending.
    pub(crate) archs: Vec<Arch>,
    /// Each is made for every architecture.
    pub(crate) kinds: Vec<Kind>,
    /// The outer build's target folder.
    pub(crate) target: PathBuf,
    /// Where the PTX goes.
    pub(crate) out: PathBuf,
    /// What PTX files are called: `<stem>.sm_90.ptx`, `<stem>.network.sm_90.ptx`.
    pub(crate) stem: String,
}

impl Request {
    /// Compiles, and adds to `inputs` what it was made from, also when it fails.
    pub(crate) fn compile(self, inputs: &mut Inputs) -> Result<Vec<Image>, Error> {
        let Self {
            package,
            features,
            archs,
            kinds,
            target,
            out,
            stem,
        } = self;
        let toolchain = toolchain::find().map_err(|not_found| {
            let command = if not_found.explicit {
                "unset SHMEM_DEVICE_RUSTC"
            } else {
                advice::install_command(Some(&package.workspace))
            };
            Error::NoToolchain {
                not_found,
                command: command.into(),
            }
        })?;
        inputs.add(package.dir.join("Cargo.toml"));
        inputs.add(package.workspace.join("Cargo.toml"));
        inputs.add(package.workspace.join("Cargo.lock"));
        inputs.add(&toolchain.rustc);
        package.check_resolver()?;
        files::create_dir(&out)?;
        let sysroot = sysroot::ensure(&toolchain)?;
        let nested = Nested::new(&package, &toolchain, features, sysroot, &target)?;
        let mut images = Vec::new();
        // Dependencies are compiled for each kind.
        for kind in kinds {
            for &arch in &archs {
                let name = format!("{stem}{}.{arch}", kind.infix());
                let assembly = nested.compile(arch, kind, &out.join(format!("{name}.log")))?;
                if let Some(dep_info) = nested.dep_info() {
                    inputs.add_dep_info(&dep_info, &target);
                }
                let ptx = ptx::finish(&assembly).map_err(|fault| fault.in_package(&package.name))?;
                let path = out.join(format!("{name}.ptx"));
                files::write_if_changed(&path, &ptx)?;
                images.push(Image {
                    arch,
                    kind,
                    path,
                    ptx,
                    cubin: None,
                });
            }
        }
        Ok(images)
    }
}
