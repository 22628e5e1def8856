//! What a World is made of: settings from the environment or from the builder, checked.
//!
//! | variable | builder | default | meaning |
//! |---|---|---|---|
//! | `SHMEM_BACKEND` | `backend` | `auto` | `cuda`, `sim`, or `auto`: GPUs if there are any |
//! | `SHMEM_NPES` | `pes` | devices; simulator: 4; under a launcher: 1 | PEs in this process; they share devices where there are fewer |
//! | `SHMEM_HEAP` | `heap` | the device's memory; simulator: 1G | address space per PE for symmetric objects: `512M`, `4G` |
//! | `SHMEM_HANDLES` | `handles` | `fd` | as what GPU memory travels between processes: `fd` or `fabric` |
//! | `SHMEM_TIMEOUT` | `time_limit` | 30 | seconds that a wait may last; 0: no limit |
//! | `SHMEM_SIM_CHECK` | `check` | 1 | whether the simulator checks the order of accesses: 0 runs some 5 times as fast |
//! | `SHMEM_SIM_SEED` | `seed` | 0 | which of the possible orders the simulator takes; replays within one process only |

use crate::info::Source;
use shmem::state::MAX_PES;
use std::time::Duration;

/// Bytes that a process can have addresses for.
const ADDRESSES: u64 = 1 << if cfg!(target_arch = "x86_64") { 47 } else { 48 };

/// A setting that can't be used.
///
/// ```
/// use shmem_host::{Backend, ConfigError, Error, World};
///
/// let built = World::builder().pes(5000).backend(Backend::Sim).build();
/// assert!(matches!(built, Err(Error::Config(ConfigError::TooManyPes { asked: 5000 }))));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A variable's text is not understood.
    #[error("{name}={value} is not understood: give {expected}")]
    Text {
        /// The variable.
        name: &'static str,
        /// Its text.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
    /// A World needs PEs.
    #[error("a World of 0 PEs was asked for: give 1 to {MAX_PES} (SHMEM_NPES or Builder::pes)")]
    NoPes,
    /// More PEs than any World may have.
    #[error("{asked} PEs were asked for, a World holds at most {MAX_PES}")]
    TooManyPes {
        /// PEs asked for.
        asked: u32,
    },
    /// More PEs than the devices hold.
    #[error(
        "{asked} PEs were asked for, but {devices} device(s) hold at most {most}, one per multiprocessor, so that their \
         kernels run at the same time: ask for fewer PEs or show more devices (CUDA_VISIBLE_DEVICES)"
    )]
    TooManyForDevices {
        /// PEs asked for.
        asked: u32,
        /// Devices present.
        devices: u32,
        /// PEs that fit.
        most: u32,
    },
    /// The heap would not hold the library's own words.
    #[error(
        "a heap of {asked} bytes per PE was asked for, {least} are the least that works (SHMEM_HEAP or Builder::heap)"
    )]
    HeapTooSmall {
        /// Bytes asked for.
        asked: u64,
        /// Bytes needed.
        least: u64,
    },
    /// More than a process has addresses for.
    #[error(
        "heaps of {asked} bytes were asked for {pes} PEs, and a process has addresses for {most} each: ask for smaller ones \
         (SHMEM_HEAP or Builder::heap)"
    )]
    HeapTooLarge {
        /// Bytes asked for, of each PE.
        asked: u64,
        /// How many heaps.
        pes: u32,
        /// Bytes of each that there are addresses for.
        most: u64,
    },
    /// The system refused the address space.
    #[error(
        "no address space for the heaps of {pes} PEs, {per_pe} bytes each ({cause}): ask for smaller ones (SHMEM_HEAP or \
         Builder::heap)"
    )]
    HeapAddresses {
        /// How many heaps.
        pes: u32,
        /// Bytes of each.
        per_pe: u64,
        /// The refusal.
        cause: String,
    },
    /// The simulator can't start.
    #[error("the simulator can't start: {cause}")]
    Simulator {
        /// Its words.
        cause: String,
    },
}

/// Where kernels run.
///
/// ```
/// use shmem_host::{Backend, World};
///
/// let world = World::builder().backend(Backend::Sim).pes(2).build()?;
/// assert_eq!(world.backend_name(), "sim");
/// # Ok::<(), shmem_host::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// GPUs if there are any, else the simulator.
    #[default]
    Auto,
    /// GPUs; an error where there are none.
    Cuda,
    /// The simulator.
    Sim,
}

/// As what GPU memory travels between the processes of a World.
///
/// ```
/// use shmem_host::{MemoryHandles, World};
///
/// let world = World::builder().handles(MemoryHandles::Fabric).pes(2).build()?;
/// assert_eq!(world.n(), 2);
/// # Ok::<(), shmem_host::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryHandles {
    /// File descriptors, over Unix sockets. CUDA `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
    #[default]
    Descriptor,
    /// Fabric handles, where the machine's IMEX service permits them. CUDA `CU_MEM_HANDLE_TYPE_FABRIC`.
    Fabric,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) backend: Backend,
    pub(crate) pes: Option<u32>,
    pub(crate) heap: Option<u64>,
    pub(crate) handles: MemoryHandles,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) seed: u64,
    pub(crate) check: bool,
    /// What carries operations between nodes on the simulator; None: what `SHMEM_SIM_PATH` says.
    pub(crate) path: Option<shmem_sim::Path>,
    pub(crate) from: Sources,
}

/// Who gave each setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sources {
    pub(crate) backend: Source,
    pub(crate) pes: Source,
    pub(crate) heap: Source,
    pub(crate) handles: Source,
    pub(crate) time_limit: Source,
    pub(crate) seed: Source,
    pub(crate) check: Source,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            backend: Backend::Auto,
            pes: None,
            heap: None,
            handles: MemoryHandles::Descriptor,
            time_limit: Some(Duration::from_secs(30)),
            seed: 0,
            check: true,
            path: None,
            from: Sources::default(),
        }
    }
}

impl Settings {
    /// Settings from this process's environment.
    pub(crate) fn from_environment() -> Result<Self, ConfigError> {
        Self::from_variables(|name| std::env::var_os(name).map(|text| text.to_string_lossy().into_owned()))
    }

    /// Settings from variables that `get` looks up; one that is unset or empty leaves the default.
    pub(crate) fn from_variables(get: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let mut settings = Self::default();
        let variable = |name| get(name).filter(|text| !text.is_empty());
        let refuse = |name, value, expected| Err(ConfigError::Text { name, value, expected });
        if let Some(text) = variable("SHMEM_BACKEND") {
            settings.backend = match text.as_str() {
                "auto" => Backend::Auto,
                "cuda" => Backend::Cuda,
                "sim" => Backend::Sim,
                _ => return refuse("SHMEM_BACKEND", text, "auto, cuda or sim"),
            };
            settings.from.backend = Source::Environment;
        }
        if let Some(text) = variable("SHMEM_NPES") {
            let Ok(pes) = text.parse() else {
                return refuse("SHMEM_NPES", text, "a number of PEs, 1 to 1024");
            };
            settings.pes = Some(pes);
            settings.from.pes = Source::Environment;
        }
        if let Some(text) = variable("SHMEM_HEAP") {
            let Some(bytes) = parse_size(&text) else {
                return refuse(
                    "SHMEM_HEAP",
                    text,
                    "bytes, with K, M, G or T for powers of 1024, as in 4G",
                );
            };
            settings.heap = Some(bytes);
            settings.from.heap = Source::Environment;
        }
        if let Some(text) = variable("SHMEM_HANDLES") {
            settings.handles = match text.as_str() {
                "fd" => MemoryHandles::Descriptor,
                "fabric" => MemoryHandles::Fabric,
                _ => return refuse("SHMEM_HANDLES", text, "fd or fabric"),
            };
            settings.from.handles = Source::Environment;
        }
        if let Some(text) = variable("SHMEM_TIMEOUT") {
            let Some(limit) = text.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok()) else {
                return refuse("SHMEM_TIMEOUT", text, "seconds, 0 for no limit");
            };
            let positive = text.parse().is_ok_and(|seconds: f64| seconds > 0.0);
            // What is less than a nanosecond is a limit all the same.
            settings.time_limit = positive.then_some(limit.max(Duration::from_nanos(1)));
            settings.from.time_limit = Source::Environment;
        }
        if let Some(text) = variable("SHMEM_SIM_SEED") {
            let Ok(seed) = text.parse() else {
                return refuse("SHMEM_SIM_SEED", text, "a number");
            };
            settings.seed = seed;
            settings.from.seed = Source::Environment;
        }
        if let Some(text) = variable("SHMEM_SIM_CHECK") {
            settings.check = match text.as_str() {
                "0" => false,
                "1" => true,
                _ => return refuse("SHMEM_SIM_CHECK", text, "0 or 1"),
            };
            settings.from.check = Source::Environment;
        }
        Ok(settings)
    }

    /// How many PEs to make, where `default` says how many there are if nobody asked.
    pub(crate) fn pes_or(&self, default: u32) -> Result<u32, ConfigError> {
        match self.pes.unwrap_or(default) {
            0 => Err(ConfigError::NoPes),
            asked if asked as usize > MAX_PES => Err(ConfigError::TooManyPes { asked }),
            pes => Ok(pes),
        }
    }

    /// The heap that was asked for, which must have room for the library's own `least` bytes and fit into a process as often
    /// as there are PEs; `default` where nobody asked.
    pub(crate) fn heap_or(&self, default: u64, pes: u32, least: u64) -> Result<u64, ConfigError> {
        let (asked, most) = (self.heap.unwrap_or(default), ADDRESSES / u64::from(pes));
        if asked < least {
            return Err(ConfigError::HeapTooSmall { asked, least });
        }
        // A default that is too large is the system's to refuse, which knows better.
        if self.heap.is_some() && asked > most {
            return Err(ConfigError::HeapTooLarge { asked, pes, most });
        }
        Ok(asked)
    }

    /// Nanoseconds for the device; 0 means no limit.
    pub(crate) fn time_limit_ns(&self) -> u64 {
        self.time_limit
            .map_or(0, |limit| limit.as_nanos().try_into().unwrap_or(u64::MAX).max(1))
    }
}

fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(pairs: &[(&str, &str)]) -> Result<Settings, ConfigError> {
        Settings::from_variables(|name| pairs.iter().find(|p| p.0 == name).map(|p| p.1.to_owned()))
    }

    #[test]
    fn unset_and_empty_variables_leave_the_defaults() {
        assert_eq!(from(&[]), Ok(Settings::default()));
        assert_eq!(
            from(&[("SHMEM_NPES", ""), ("SHMEM_BACKEND", "")]),
            Ok(Settings::default())
        );
    }

    #[test]
    fn all_variables_are_read() {
        let all = from(&[
            ("SHMEM_BACKEND", "sim"),
            ("SHMEM_NPES", "8"),
            ("SHMEM_HEAP", "512M"),
            ("SHMEM_HANDLES", "fabric"),
            ("SHMEM_TIMEOUT", "2.5"),
            ("SHMEM_SIM_SEED", "77"),
            ("SHMEM_SIM_CHECK", "0"),
        ]);
        let expected = Settings {
            backend: Backend::Sim,
            pes: Some(8),
            heap: Some(512 << 20),
            handles: MemoryHandles::Fabric,
            time_limit: Some(Duration::from_millis(2500)),
            seed: 77,
            check: false,
            path: None,
            from: Sources {
                backend: Source::Environment,
                pes: Source::Environment,
                heap: Source::Environment,
                handles: Source::Environment,
                time_limit: Source::Environment,
                seed: Source::Environment,
                check: Source::Environment,
            },
        };
        assert_eq!(all, Ok(expected));
    }

    #[test]
    fn a_time_limit_of_zero_is_none() {
        let settings = from(&[("SHMEM_TIMEOUT", "0")]).unwrap();
        assert_eq!((settings.time_limit, settings.time_limit_ns()), (None, 0));
        assert_eq!(Settings::default().time_limit_ns(), 30_000_000_000);
    }

    #[test]
    fn a_time_limit_above_zero_is_one() {
        for (text, limit) in [("1e-12", Some(1)), ("1e-9", Some(1)), ("0.0", None), ("-0", None)] {
            let settings = from(&[("SHMEM_TIMEOUT", text)]).unwrap();
            assert_eq!(settings.time_limit, limit.map(Duration::from_nanos), "{text}");
        }
    }

    #[test]
    fn a_heap_that_no_process_has_addresses_for_is_refused() {
        for (text, pes) in [("18446744073709551615", 1), ("100T", 3), ("257T", 1)] {
            let settings = from(&[("SHMEM_HEAP", text)]).unwrap();
            let refused = settings.heap_or(1, pes, 512).unwrap_err();
            assert!(matches!(refused, ConfigError::HeapTooLarge { .. }), "{refused}");
        }
        let settings = from(&[("SHMEM_HEAP", "1G")]).unwrap();
        assert_eq!(settings.heap_or(1, 1024, 512), Ok(1 << 30));
        assert_eq!(
            Settings::default().heap_or(1, 4, 512),
            Err(ConfigError::HeapTooSmall { asked: 1, least: 512 })
        );
    }

    #[test]
    fn nonsense_is_refused_with_the_variable_and_its_text() {
        let bad = [
            ("SHMEM_BACKEND", "gpu"),
            ("SHMEM_NPES", "-1"),
            ("SHMEM_NPES", "99999999999"),
            ("SHMEM_HEAP", "4GB"),
            ("SHMEM_HEAP", "G"),
            ("SHMEM_HEAP", "99999999T"),
            ("SHMEM_HANDLES", "socket"),
            ("SHMEM_TIMEOUT", "-3"),
            ("SHMEM_TIMEOUT", "NaN"),
            ("SHMEM_TIMEOUT", "1e300"),
            ("SHMEM_SIM_SEED", "x"),
            ("SHMEM_SIM_CHECK", "yes"),
        ];
        for (name, value) in bad {
            let error = from(&[(name, value)]).expect_err(value).to_string();
            assert!(error.starts_with(&format!("{name}={value} ")), "{error}");
        }
    }

    #[test]
    fn pes_are_one_to_the_most() {
        let of = |pes| {
            Settings {
                pes: Some(pes),
                ..Settings::default()
            }
            .pes_or(4)
        };
        assert_eq!(of(0), Err(ConfigError::NoPes));
        assert_eq!(of(1), Ok(1));
        assert_eq!(of(1024), Ok(1024));
        assert_eq!(of(1025), Err(ConfigError::TooManyPes { asked: 1025 }));
        assert_eq!(Settings::default().pes_or(4), Ok(4));
    }
}
