//! The environment variables that steer a build.

use std::{env, ffi::OsString};

use crate::{arch::Arch, error::Error};

pub(crate) const DEVICE_RUSTC: &str = "SHMEM_DEVICE_RUSTC";
pub(crate) const PTX: &str = "SHMEM_PTX";
pub(crate) const ARCH: &str = "SHMEM_ARCH";
pub(crate) const CACHE: &str = "SHMEM_CACHE";
pub(crate) const CUDA_BIN: &str = "SHMEM_CUDA_BIN";
pub(crate) const TIMELINE: &str = "SHMEM_TIMELINE_EVENTS";
pub(crate) const NETWORK: &str = "SHMEM_NETWORK";

/// The variable's value; set but empty counts as unset.
pub(crate) fn var(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Tells cargo to run the build script again when one of the variables changes.
pub(crate) fn announce() {
    for name in [DEVICE_RUSTC, PTX, ARCH, CACHE, CUDA_BIN, TIMELINE, NETWORK] {
        println!("cargo::rerun-if-env-changed={name}");
    }
}

/// How much depends on the GPU code: `SHMEM_PTX`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// Without a compiler for it, build the host side only.
    Auto,
    /// Without a compiler for it, fail.
    Require,
    /// Never build it.
    Off,
}

impl Mode {
    pub(crate) fn from_env() -> Result<Self, Error> {
        let value = var(PTX).map(|value| value.to_string_lossy().into_owned());
        Self::parse(value.as_deref())
    }

    fn parse(value: Option<&str>) -> Result<Self, Error> {
        match value {
            None | Some("auto") => Ok(Self::Auto),
            Some("require") => Ok(Self::Require),
            Some("off") => Ok(Self::Off),
            Some(other) => Err(Error::Setting {
                variable: PTX,
                value: other.into(),
                expected: "use auto, require or off".into(),
            }),
        }
    }
}

/// Whether GPU code records its calls for a timeline: `SHMEM_TIMELINE_EVENTS`.
pub(crate) fn records() -> Result<bool, Error> {
    switch(TIMELINE, var(TIMELINE), false)
}

/// Whether there are images for Worlds with network peers: `SHMEM_NETWORK`, else what the build script chose.
pub(crate) fn network(chosen: bool) -> Result<bool, Error> {
    switch(NETWORK, var(NETWORK), chosen)
}

fn switch(variable: &'static str, value: Option<OsString>, default: bool) -> Result<bool, Error> {
    let value = value.map(|value| value.to_string_lossy().into_owned());
    match value.as_deref() {
        None => Ok(default),
        Some("0") => Ok(false),
        Some("1") => Ok(true),
        Some(other) => Err(Error::Setting {
            variable,
            value: other.into(),
            expected: "use 1 or 0".into(),
        }),
    }
}

/// The architectures to build: those in `SHMEM_ARCH`, else those the build script chose, else the default.
pub(crate) fn archs(chosen: Vec<Arch>) -> Result<Vec<Arch>, Error> {
    let forced = match var(ARCH) {
        Some(value) => parse_archs(&value.to_string_lossy())?,
        None => Vec::new(),
    };
    Ok(Arch::sorted_or_default(if forced.is_empty() { chosen } else { forced }))
}

fn parse_archs(list: &str) -> Result<Vec<Arch>, Error> {
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    let archs: Result<Vec<Arch>, _> = names.map(str::parse).collect();
    archs.map_err(|error| Error::Setting {
        variable: ARCH,
        value: list.into(),
        expected: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes() {
        assert_eq!(Mode::parse(None).unwrap(), Mode::Auto);
        assert_eq!(Mode::parse(Some("require")).unwrap(), Mode::Require);
        assert_eq!(Mode::parse(Some("off")).unwrap(), Mode::Off);
        let message = Mode::parse(Some("yes")).unwrap_err().to_string();
        assert!(
            message.contains("SHMEM_PTX is set to `yes`") && message.contains("auto, require or off"),
            "{message}"
        );
    }

    #[test]
    fn switches_are_0_or_1_and_unset_leaves_the_default() {
        let read = |value: &str, default| switch(NETWORK, Some(value.into()), default);
        assert!(switch(NETWORK, None, true).unwrap() && !switch(NETWORK, None, false).unwrap());
        assert!(read("1", false).unwrap() && !read("0", true).unwrap());
        let message = read("yes", true).unwrap_err().to_string();
        assert!(message.contains("SHMEM_NETWORK is set to `yes`"), "{message}");
    }

    #[test]
    fn lists_of_architectures() {
        assert_eq!(parse_archs("sm_90, sm_80,").unwrap(), [Arch::Sm90, Arch::Sm80]);
        let message = parse_archs("sm_80,sm_91").unwrap_err().to_string();
        assert!(
            message.contains("SHMEM_ARCH") && message.contains("`sm_91`") && message.contains("sm_120"),
            "{message}"
        );
    }
}
