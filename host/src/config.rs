//! What a World is made of: settings from the environment or from the builder, checked.
//!
//! | variable | builder | default | meaning |
//! |---|---|---|---|
//! | `SHMEM_BACKEND` | `backend` | `auto` | `cuda`, `sim`, or `auto`: GPUs if there are any |
//! | `SHMEM_NPES` | `pes` | devices; simulator: 4; under a launcher: 1 | PEs in this process; they share devices where there are fewer |
//! | `SHMEM_HEAP` | `heap` | the device's memory; simulator: 1G | address space per PE for symmetric objects: `512M`, `4G` |
//! | `SHMEM_HANDLES` | `handles` | `fd` | as what GPU memory travels between processes: `fd` or `fabric` |
//! | `SHMEM_HOST_ID` | | the system's | processes with the same text are on one machine, if the system says so too: others count as on another one |
//! | `SHMEM_PATH` | `path` | `auto` | what carries operations between PEs: `load-store`; `ibgda`: network adapters, for every PE; `mixed`: adapters between nodes; `auto`: load and store where it reaches |
//! | `SHMEM_NODE_PES` | `node_pes` | half of the PEs | PEs of a node where the path is `mixed`, on the simulator and with `SHMEM_HCA=emulated` |
//! | `SHMEM_HCA` | | the nearest | on GPUs, the adapter: `mlx5_0`, `mlx5_0:1`, or several with commas; `emulated`: none is needed (`docs/src/ibgda.md`) |
//! | `SHMEM_IBGDA_DEPTH` | `queue_blocks` | 256 | blocks of 64 bytes of each send queue: 16 to 32768, or their log2, 4 to 15 |
//! | `SHMEM_IBGDA_CONTEXTS` | `queue_contexts` | 8 | contexts with send queues of their own, 1 to 64; the others share those of the default context |
//! | `SHMEM_TIMEOUT` | `time_limit` | 30 | seconds that a wait may last; 0: no limit |
//! | `SHMEM_SIM_CHECK` | `check` | 1 | whether the simulator checks the order of accesses: 0 runs some 5 times as fast |
//! | `SHMEM_SIM_SEED` | `seed` | 0 | which of the possible orders the simulator takes; replays within one process only |

use crate::info::Source;
use crate::layout::Layout;
use shmem::state::MAX_PES;
use std::fmt;
use std::str::FromStr;
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
    /// What carries operations can't be had here.
    #[error("the path {path} can't be had {place}: {cause} (SHMEM_PATH or Builder::path)")]
    Path {
        /// As asked.
        path: Path,
        /// Where.
        place: &'static str,
        /// Why, and what to do.
        cause: &'static str,
    },
    /// Send queues that can't be.
    #[error(
        "{contexts} contexts with send queues of {blocks} blocks were asked for: give 1 to 64 contexts \
         (SHMEM_IBGDA_CONTEXTS or Builder::queue_contexts), and a power of two from 16 to 32768 blocks (SHMEM_IBGDA_DEPTH \
         or Builder::queue_blocks)"
    )]
    Queues {
        /// Contexts asked for.
        contexts: u32,
        /// Blocks asked for.
        blocks: u32,
    },
    /// A node of no PEs.
    #[error("nodes of 0 PEs were asked for: give 1 or more (SHMEM_NODE_PES or Builder::node_pes)")]
    NoNodePes,
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

/// What carries operations between PEs.
///
/// ```
/// use shmem_host::{Backend, Path, World};
///
/// // 4 PEs as 2 nodes: load and store inside a node, emulated network adapters between them.
/// let world = World::builder().backend(Backend::Sim).pes(4).path(Path::Mixed).build()?;
/// world.run(|pe| {
///     assert_eq!(pe.node().n_pes(), 2);
///     pe.barrier_all()
/// })?;
/// # Ok::<(), shmem_host::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Path {
    /// Load and store where it reaches. What it reaches never goes by network.
    #[default]
    Auto,
    /// Load and store only.
    LoadStore,
    /// Network adapters that kernels drive (IBGDA), for every PE, also where load and store would reach it: for tests of that
    /// path.
    Ibgda,
    /// Load and store inside a node, adapters between nodes.
    Mixed,
}

impl Path {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Auto, "auto"),
        (Self::LoadStore, "load-store"),
        (Self::Ibgda, "ibgda"),
        (Self::Mixed, "mixed"),
    ];

    /// Whether it needs adapters.
    pub(crate) fn has_adapters(self) -> bool {
        matches!(self, Self::Ibgda | Self::Mixed)
    }
}

/// By the name that `SHMEM_PATH` takes.
///
/// ```
/// assert_eq!("mixed".parse(), Ok(shmem_host::Path::Mixed));
/// assert!("nvlink".parse::<shmem_host::Path>().is_err());
/// ```
impl FromStr for Path {
    type Err = ConfigError;

    fn from_str(name: &str) -> Result<Self, ConfigError> {
        let found = Self::ALL.iter().find(|(_, known)| *known == name);
        found.map(|(path, _)| *path).ok_or_else(|| ConfigError::Text {
            name: "SHMEM_PATH",
            value: name.to_owned(),
            expected: "auto, load-store, ibgda or mixed",
        })
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(path, _)| path == self);
        f.write_str(name.map_or("", |(_, name)| name))
    }
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

impl MemoryHandles {
    /// The name that `SHMEM_HANDLES` takes.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Descriptor => "fd",
            Self::Fabric => "fabric",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) backend: Backend,
    pub(crate) pes: Option<u32>,
    pub(crate) heap: Option<u64>,
    pub(crate) handles: MemoryHandles,
    /// What tells this machine from others, beside the system's word.
    pub(crate) host_id: Option<String>,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) seed: u64,
    pub(crate) check: bool,
    pub(crate) path: Path,
    pub(crate) node_pes: Option<u32>,
    /// Blocks of each send queue.
    pub(crate) queue_blocks: u32,
    /// Contexts with send queues of their own.
    pub(crate) queue_contexts: u32,
    /// What carries operations between nodes on the simulator where `path` leaves it open; None: what `SHMEM_SIM_PATH` says.
    pub(crate) sim_path: Option<shmem_sim::Path>,
    pub(crate) from: Sources,
}

/// Who gave each setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sources {
    pub(crate) backend: Source,
    pub(crate) pes: Source,
    pub(crate) heap: Source,
    pub(crate) handles: Source,
    pub(crate) host_id: Source,
    pub(crate) time_limit: Source,
    pub(crate) seed: Source,
    pub(crate) check: Source,
    pub(crate) path: Source,
    pub(crate) node_pes: Source,
    pub(crate) queue_blocks: Source,
    pub(crate) queue_contexts: Source,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            backend: Backend::Auto,
            pes: None,
            heap: None,
            handles: MemoryHandles::Descriptor,
            host_id: None,
            time_limit: Some(Duration::from_secs(30)),
            seed: 0,
            check: true,
            path: Path::Auto,
            node_pes: None,
            queue_blocks: 256,
            queue_contexts: 8,
            sim_path: None,
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
        let variable = |name: &str| get(name).filter(|text| !text.is_empty());
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
        if let Some(text) = variable("SHMEM_HOST_ID") {
            (settings.host_id, settings.from.host_id) = (Some(text), Source::Environment);
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
        settings.read_path(variable)?;
        Ok(settings)
    }

    /// The variables about what carries operations.
    fn read_path(&mut self, variable: impl Fn(&str) -> Option<String>) -> Result<(), ConfigError> {
        let refuse = |name, value, expected| Err(ConfigError::Text { name, value, expected });
        if let Some(text) = variable("SHMEM_PATH") {
            (self.path, self.from.path) = (text.parse()?, Source::Environment);
        }
        if let Some(text) = variable("SHMEM_NODE_PES") {
            let Some(pes) = text.parse().ok().filter(|&pes: &u32| pes > 0) else {
                return refuse("SHMEM_NODE_PES", text, "a number of PEs, 1 or more");
            };
            (self.node_pes, self.from.node_pes) = (Some(pes), Source::Environment);
        }
        if let Some(text) = variable("SHMEM_IBGDA_DEPTH") {
            let blocks = text.parse().ok().and_then(|number: u32| match number {
                4..=15 => Some(1 << number),
                16..=32768 if number.is_power_of_two() => Some(number),
                _ => None,
            });
            let Some(blocks) = blocks else {
                let expected = "a power of two from 16 to 32768, or its log2, 4 to 15";
                return refuse("SHMEM_IBGDA_DEPTH", text, expected);
            };
            (self.queue_blocks, self.from.queue_blocks) = (blocks, Source::Environment);
        }
        if let Some(text) = variable("SHMEM_IBGDA_CONTEXTS") {
            let Some(contexts) = text.parse().ok().filter(|contexts| (1..=64).contains(contexts)) else {
                return refuse("SHMEM_IBGDA_CONTEXTS", text, "a number of contexts, 1 to 64");
            };
            (self.queue_contexts, self.from.queue_contexts) = (contexts, Source::Environment);
        }
        Ok(())
    }

    /// Refuses send queues and nodes that can't be, which only a builder can ask for.
    pub(crate) fn check_path(&self) -> Result<(), ConfigError> {
        let (contexts, blocks) = (self.queue_contexts, self.queue_blocks);
        if !(1..=64).contains(&contexts) || !(16..=32768).contains(&blocks) || !blocks.is_power_of_two() {
            return Err(ConfigError::Queues { contexts, blocks });
        }
        if self.node_pes == Some(0) {
            return Err(ConfigError::NoNodePes);
        }
        Ok(())
    }

    /// Whether memory of a process can be mapped in this one: descriptors stay on a machine.
    pub(crate) fn reaches(&self, layout: &Layout, rank: u32) -> bool {
        self.handles == MemoryHandles::Fabric || layout.is_near(rank)
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
            ("SHMEM_HOST_ID", "rack 3"),
            ("SHMEM_TIMEOUT", "2.5"),
            ("SHMEM_SIM_SEED", "77"),
            ("SHMEM_SIM_CHECK", "0"),
            ("SHMEM_PATH", "mixed"),
            ("SHMEM_NODE_PES", "3"),
            ("SHMEM_IBGDA_DEPTH", "5"),
            ("SHMEM_IBGDA_CONTEXTS", "2"),
        ]);
        let expected = Settings {
            backend: Backend::Sim,
            pes: Some(8),
            heap: Some(512 << 20),
            handles: MemoryHandles::Fabric,
            host_id: Some("rack 3".to_owned()),
            time_limit: Some(Duration::from_millis(2500)),
            seed: 77,
            check: false,
            path: Path::Mixed,
            node_pes: Some(3),
            queue_blocks: 32,
            queue_contexts: 2,
            sim_path: None,
            from: Sources {
                backend: Source::Environment,
                pes: Source::Environment,
                heap: Source::Environment,
                handles: Source::Environment,
                host_id: Source::Environment,
                time_limit: Source::Environment,
                seed: Source::Environment,
                check: Source::Environment,
                path: Source::Environment,
                node_pes: Source::Environment,
                queue_blocks: Source::Environment,
                queue_contexts: Source::Environment,
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
            ("SHMEM_PATH", "nvlink"),
            ("SHMEM_NODE_PES", "0"),
            ("SHMEM_IBGDA_DEPTH", "3"),
            ("SHMEM_IBGDA_DEPTH", "24"),
            ("SHMEM_IBGDA_DEPTH", "65536"),
            ("SHMEM_IBGDA_CONTEXTS", "0"),
            ("SHMEM_IBGDA_CONTEXTS", "65"),
        ];
        for (name, value) in bad {
            let error = from(&[(name, value)]).expect_err(value).to_string();
            assert!(error.starts_with(&format!("{name}={value} ")), "{error}");
        }
    }

    #[test]
    fn the_depth_is_blocks_or_their_log2() {
        for (text, blocks) in [("4", 16), ("15", 32768), ("16", 16), ("32768", 32768)] {
            assert_eq!(from(&[("SHMEM_IBGDA_DEPTH", text)]).unwrap().queue_blocks, blocks);
        }
    }

    #[test]
    fn queues_and_nodes_of_a_builder_are_checked() {
        let of = |change: fn(&mut Settings)| {
            let mut settings = Settings::default();
            change(&mut settings);
            settings.check_path()
        };
        assert_eq!(of(|_| ()), Ok(()));
        for (contexts, blocks) in [(0, 16), (65, 16), (1, 8), (1, 48), (1, 65536)] {
            let mut settings = Settings::default();
            (settings.queue_contexts, settings.queue_blocks) = (contexts, blocks);
            assert_eq!(settings.check_path(), Err(ConfigError::Queues { contexts, blocks }));
        }
        assert_eq!(of(|settings| settings.node_pes = Some(0)), Err(ConfigError::NoNodePes));
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
