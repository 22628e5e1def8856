//! `shmem_build::kernels()`: the build script of a package with kernels.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    TARGET,
    arch::Arch,
    device::Request,
    error::Error,
    images::{Image, Images, Kind},
    inputs::Inputs,
    manifest::Package,
    nested::Features,
    scrub,
    settings::{self, Mode},
    tools,
};

/// Compiles the kernels of the package that the build script belongs to.
///
/// ```no_run
/// shmem_build::kernels().build();
/// ```
pub fn kernels() -> Kernels {
    Kernels {
        archs: Vec::new(),
        assemble: false,
        network: false,
    }
}

/// The kernels in this package's library; from [`kernels`].
#[derive(Clone, Debug)]
#[must_use = "nothing is compiled before `.build()`"]
pub struct Kernels {
    archs: Vec<Arch>,
    assemble: bool,
    network: bool,
}

impl Kernels {
    /// Adds an architecture; without any, [`Arch::DEFAULT`] is built. `SHMEM_ARCH` goes before both.
    pub fn arch(mut self, arch: Arch) -> Self {
        self.archs.push(arch);
        self
    }

    /// Also assembles the PTX, where there is a `ptxas` ([`tools::find`](crate::tools::find)): the driver then need not when a
    /// program starts, which takes it 0.5 s for 20 kernels. What is assembled runs on its own architecture, with a driver
    /// as new as `ptxas`; elsewhere the driver takes the PTX.
    ///
    /// ```no_run
    /// shmem_build::kernels().assemble().build();
    /// ```
    pub fn assemble(mut self) -> Self {
        self.assemble = true;
        self
    }

    /// As [`assemble`](Self::assemble), in release builds alone: others mostly run on the simulator.
    ///
    /// ```no_run
    /// shmem_build::kernels().assemble_in_release().build();
    /// ```
    pub fn assemble_in_release(self) -> Self {
        // Cargo says so to build scripts.
        if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
            self.assemble()
        } else {
            self
        }
    }

    /// Whether to make a second image for each architecture, for Worlds with PEs that only a network adapter reaches
    /// (`SHMEM_PATH=ibgda`); by default there is none, since it doubles the time of the build. `SHMEM_NETWORK=1` or `0` goes
    /// before.
    ///
    /// ```no_run
    /// shmem_build::kernels().network(true).build();
    /// ```
    pub fn network(mut self, network: bool) -> Self {
        self.network = network;
        self
    }

    /// Compiles the library for the GPU and hands the PTX to `#[kernel]`.
    ///
    /// Always lets the build go on. If the GPU code does not compile, `#[kernel]` reports the compiler's errors as its
    /// own, so that they stand where all other errors stand. If there is no compiler for it, the host side is built
    /// alone, with a warning, unless `SHMEM_PTX=require` makes that an error too.
    ///
    /// What the build script does besides is done twice: cargo runs it again in the nested build, with `TARGET` set to
    /// `nvptx64-nvidia-cuda`, and this function then does nothing.
    pub fn build(self) {
        let Some(out) = settings::var("OUT_DIR").map(PathBuf::from) else {
            println!("cargo::error=shmem_build::kernels() works in a build script only: OUT_DIR is not set");
            return;
        };
        let images = if env::var_os("TARGET").is_some_and(|target| target == TARGET) {
            println!("cargo::rerun-if-changed=Cargo.toml");
            Images::default()
        } else {
            self.images(&out)
        };
        match images.write(&out) {
            Ok(path) => println!("cargo::rustc-env=SHMEM_IMAGES={}", path.display()),
            // Without that file there is nowhere to put a message but here.
            Err(error) => println!("cargo::error={error}"),
        }
    }

    fn images(self, out: &Path) -> Images {
        settings::announce();
        let mut inputs = Inputs::default();
        let images = match self.compile(out, &mut inputs) {
            Ok(list) => Images {
                list,
                ..Images::default()
            },
            Err(error @ Error::Off) => Images::absent(&error),
            Err(error) => without_ptx(&error, &mut inputs),
        };
        if !images.broken.is_empty() {
            // What would mend it is not known in every case, so look again each time: nothing else builds anyway.
            println!("cargo::rerun-if-changed={}", out.join("never-written").display());
        }
        inputs.announce();
        images
    }

    fn compile(&self, out: &Path, inputs: &mut Inputs) -> Result<Vec<Image>, Error> {
        if Mode::from_env()? == Mode::Off {
            return Err(Error::Off);
        }
        let dir = settings::var("CARGO_MANIFEST_DIR").unwrap_or_else(|| ".".into());
        let request = Request {
            package: Package::read(Path::new(&dir))?,
            features: Features::Exactly(env::var("CARGO_CFG_FEATURE").unwrap_or_default()),
            archs: settings::archs(self.archs.clone())?,
            kinds: Kind::all(settings::network(self.network)?),
            target: scrub::target_dir(out).unwrap_or_else(|| out.to_path_buf()),
            out: out.to_path_buf(),
            stem: "kernels".into(),
        };
        let mut images = request.compile(inputs)?;
        if self.assemble {
            assemble(&mut images, inputs);
        }
        Ok(images)
    }
}

/// An image that can't be assembled stays PTX alone.
fn assemble(images: &mut [Image], inputs: &mut Inputs) {
    let found = tools::find("ptxas");
    // One that comes later is looked for then.
    let place = found.clone().or_else(|| Some(tools::folder()?.join("ptxas")));
    if let Some(path) = place {
        inputs.add(path);
    }
    let Some(ptxas) = found else {
        return;
    };
    for image in images {
        let file = image.path.with_extension("cubin");
        let made = Command::new(&ptxas)
            .arg(format!("-arch={}", image.arch))
            .arg(&image.path)
            .arg("-o")
            .arg(&file)
            .output();
        match made {
            Ok(made) if made.status.success() => image.cubin = Some(file),
            Ok(made) => println!(
                "cargo::warning={} does not take the PTX, so that the driver has to: {}",
                ptxas.display(),
                String::from_utf8_lossy(&made.stderr).trim().replace('\n', " ")
            ),
            Err(error) => println!("cargo::warning={} does not run: {error}", ptxas.display()),
        }
    }
}

/// A missing compiler is no fault, unless `SHMEM_PTX` says so; everything else is.
fn without_ptx(error: &Error, inputs: &mut Inputs) -> Images {
    match (error, Mode::from_env()) {
        (Error::NoToolchain { not_found, command }, Ok(Mode::Auto)) => {
            not_found.watch().into_iter().for_each(|path| inputs.add(path));
            println!(
                "cargo::warning={}, so these kernels run on the simulator only; to get one, run: {command}",
                not_found.summary()
            );
            Images::absent(error)
        }
        _ => Images::broken(error),
    }
}
