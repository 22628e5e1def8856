//! What this library is, which settings are in force and where they come from, which devices there are.

use crate::backend::cuda::Devices;
use crate::config::Settings;
use crate::{Backend, Builder, Error};
use std::fmt;
use std::time::Duration;

/// This library's name. OpenSHMEM `shmem_info_get_name`, NVSHMEM `nvshmem_info_get_name`.
///
/// ```
/// assert_eq!(shmem_host::name(), "shmem");
/// ```
pub fn name() -> &'static str {
    "shmem"
}

/// This library's version, as in `0.1.0`.
///
/// NVSHMEM `nvshmemx_vendor_get_version_info`.
///
/// ```
/// assert_eq!(shmem_host::version().split('.').count(), 3);
/// ```
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Where a setting's value comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// Nobody has said anything.
    #[default]
    Default,
    /// A variable of the environment.
    Environment,
    /// The program, by [`Builder`].
    Builder,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::Environment => "environment",
            Self::Builder => "builder",
        })
    }
}

/// A setting as it is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setting {
    /// Its variable, as in `SHMEM_HEAP`.
    pub name: &'static str,
    /// Its value, as the variable would say it.
    pub value: String,
    /// Who said so.
    pub source: Source,
}

/// All that [`info`] tells. Shown, it is a table.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Info {
    /// This library's.
    pub version: &'static str,
    /// Each setting.
    pub settings: Vec<Setting>,
    /// CUDA version of the driver: major and minor. None without a driver.
    pub driver: Option<(u32, u32)>,
    /// Each GPU in words, or why there is none.
    pub devices: Result<Vec<String>, Error>,
}

/// Settings as the environment gives them, GPUs, versions. Makes no World and touches no GPU.
///
/// NVSHMEM `nvshmem-info`.
///
/// ```
/// let info = shmem_host::info()?;
/// assert!(info.settings.iter().any(|setting| setting.name == "SHMEM_TIMEOUT"));
/// println!("{info}");
/// # Ok::<(), shmem_host::Error>(())
/// ```
///
/// # Errors
/// [`ConfigError`](crate::ConfigError) for a variable that is not understood.
pub fn info() -> Result<Info, Error> {
    Ok(Info::of(&Settings::from_environment()?))
}

impl Builder {
    /// As [`info`], with the settings of this builder.
    ///
    /// ```
    /// use shmem_host::{Source, World};
    ///
    /// let info = World::builder().pes(3).info();
    /// let pes = info.settings.iter().find(|setting| setting.name == "SHMEM_NPES").unwrap();
    /// assert_eq!((pes.value.as_str(), pes.source), ("3", Source::Builder));
    /// ```
    pub fn info(&self) -> Info {
        Info::of(self.settings())
    }
}

/// What is read from the environment alone, each where it is used.
const VARIABLES: [&str; 11] = [
    "SHMEM_LOG",
    "SHMEM_TIMELINE",
    "SHMEM_SIM_STACK",
    "SHMEM_SIM_PATH",
    "SHMEM_RANK",
    "SHMEM_SIZE",
    "SHMEM_ROOT",
    "SHMEM_SECRET_FILE",
    "SHMEM_JOIN_TIMEOUT",
    "SHMEM_SIM_SKIP",
    "SHMEM_HCA",
];

impl Info {
    fn of(settings: &Settings) -> Self {
        let from = settings.from;
        let one = |name, value: Option<String>, source| Setting {
            name,
            value: value.unwrap_or_else(|| "as the backend has it".to_owned()),
            source,
        };
        let backend = match settings.backend {
            Backend::Auto => "auto",
            Backend::Cuda => "cuda",
            Backend::Sim => "sim",
        };
        let limit = settings.time_limit.as_ref().map_or(0.0, Duration::as_secs_f64);
        let mut all = vec![
            one("SHMEM_BACKEND", Some(backend.to_owned()), from.backend),
            one("SHMEM_NPES", settings.pes.map(|pes| pes.to_string()), from.pes),
            one("SHMEM_HEAP", settings.heap.map(|bytes| bytes.to_string()), from.heap),
            one("SHMEM_HANDLES", Some(settings.handles.name().to_owned()), from.handles),
            one("SHMEM_HOST_ID", settings.host_id.clone(), from.host_id),
            one("SHMEM_TIMEOUT", Some(limit.to_string()), from.time_limit),
            one("SHMEM_SIM_SEED", Some(settings.seed.to_string()), from.seed),
            one(
                "SHMEM_SIM_CHECK",
                Some(u8::from(settings.check).to_string()),
                from.check,
            ),
            one("SHMEM_PATH", Some(settings.path.to_string()), from.path),
            one(
                "SHMEM_NODE_PES",
                settings.node_pes.map(|pes| pes.to_string()),
                from.node_pes,
            ),
            one(
                "SHMEM_IBGDA_DEPTH",
                Some(settings.queue_blocks.to_string()),
                from.queue_blocks,
            ),
            one(
                "SHMEM_IBGDA_CONTEXTS",
                Some(settings.queue_contexts.to_string()),
                from.queue_contexts,
            ),
        ];
        for name in VARIABLES {
            let value = std::env::var(name).ok().filter(|text| !text.is_empty());
            let source = if value.is_some() {
                Source::Environment
            } else {
                Source::Default
            };
            let value = value.unwrap_or_default();
            all.push(Setting { name, value, source });
        }
        let found = Devices::find();
        Self {
            version: version(),
            settings: all,
            driver: Devices::driver_version(),
            devices: found.and_then(|devices| devices.describe()).map_err(Error::from),
        }
    }
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "shmem {}", self.version)?;
        match self.driver {
            Some((major, minor)) => writeln!(f, "CUDA driver for {major}.{minor}")?,
            None => writeln!(f, "no CUDA driver")?,
        }
        match &self.devices {
            Ok(devices) => devices.iter().try_for_each(|device| writeln!(f, "{device}"))?,
            Err(error) => writeln!(f, "no GPU: {error}")?,
        }
        for Setting { name, value, source } in &self.settings {
            writeln!(f, "{name:20} {value:24} {source}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_tells_its_source() {
        let settings = Settings::from_variables(|name| (name == "SHMEM_TIMEOUT").then(|| "2.5".to_owned()));
        let info = Info::of(&settings.unwrap());
        let of = |name: &str| info.settings.iter().find(|s| s.name == name).unwrap();
        assert_eq!(
            (of("SHMEM_TIMEOUT").value.as_str(), of("SHMEM_TIMEOUT").source),
            ("2.5", Source::Environment)
        );
        assert_eq!(
            (of("SHMEM_BACKEND").value.as_str(), of("SHMEM_BACKEND").source),
            ("auto", Source::Default)
        );
        let text = info.to_string();
        assert!(
            text.contains("SHMEM_TIMEOUT        2.5 ") && text.contains("environment"),
            "{text}"
        );
    }
}
