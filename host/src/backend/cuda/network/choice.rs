//! Which PEs load and store reaches, and what carries the rest.

use crate::config::{Path, Settings};
use crate::processes::Group;
use crate::{Error, NetworkError};
use std::ops::Range;

/// The name of adapters that are not there, in `SHMEM_HCA`.
const EMULATED: &str = "emulated";

/// Bytes of a heap where nobody asked for others: it is all pinned.
pub(crate) const HEAP: u64 = 256 << 20;

/// What carries calls between PEs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Loads and stores, between devices that reach each other.
    LoadStore,
    /// Emulated adapters, except within a node.
    Emulated(Emulation),
}

impl Way {
    pub(crate) fn of(settings: &Settings, group: &Group) -> Result<Self, Error> {
        let hca = std::env::var("SHMEM_HCA").unwrap_or_default();
        Self::choose(settings, group.layout.processes(), group.layout.pes(), &hca)
    }

    fn choose(settings: &Settings, processes: u32, pes: u32, hca: &str) -> Result<Self, Error> {
        let node_pes = match settings.path {
            Path::Auto | Path::LoadStore => return Ok(Self::LoadStore),
            Path::Ibgda => None,
            Path::Mixed => Some(settings.node_pes.unwrap_or(pes.div_ceil(2))),
        };
        if hca != EMULATED {
            let cause = format!(
                "the CUDA backend drives emulated ones only so far: set SHMEM_HCA={EMULATED} (it is {hca:?}), or SHMEM_PATH=auto"
            );
            return Err(NetworkError::Unsupported { cause }.into());
        }
        if processes > 1 {
            return Err(NetworkError::Processes { processes }.into());
        }
        Ok(Self::Emulated(Emulation {
            node_pes,
            contexts: settings.queue_contexts,
            log2: settings.queue_blocks.ilog2(),
        }))
    }
}

/// Emulated adapters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Emulation {
    /// PEs that reach each other by load and store, themselves among them; None: not even a PE itself.
    pub(crate) node_pes: Option<u32>,
    /// Contexts that have queues of their own.
    pub(crate) contexts: u32,
    /// Log2 of the blocks of a queue.
    pub(crate) log2: u32,
}

impl Emulation {
    /// The PEs that load and store reaches from this one, or itself where there are none.
    pub(crate) fn node(&self, pe: u32, pes: u32) -> Range<u32> {
        let size = self.node_pes.unwrap_or(1);
        let start = pe / size * size;
        start..(start + size).min(pes)
    }

    /// Whether load and store carries calls of a PE to another one.
    pub(crate) fn loads(&self, pe: u32, peer: u32, pes: u32) -> bool {
        self.node_pes.is_some() && self.node(pe, pes).contains(&peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: Path, node_pes: Option<u32>, processes: u32, hca: &str) -> Result<Way, String> {
        let settings = Settings {
            path,
            node_pes,
            queue_blocks: 1024,
            queue_contexts: 3,
            ..Settings::default()
        };
        Way::choose(&settings, processes, 5, hca).map_err(|error| error.to_string())
    }

    #[test]
    fn the_path_and_the_adapter_decide() {
        assert_eq!(of(Path::Auto, None, 2, EMULATED), Ok(Way::LoadStore));
        assert_eq!(of(Path::LoadStore, None, 1, "mlx5_0"), Ok(Way::LoadStore));
        let emulated = |node_pes| {
            Ok(Way::Emulated(Emulation {
                node_pes,
                contexts: 3,
                log2: 10,
            }))
        };
        assert_eq!(of(Path::Ibgda, Some(2), 1, EMULATED), emulated(None));
        assert_eq!(of(Path::Mixed, None, 1, EMULATED), emulated(Some(3)));
        assert_eq!(of(Path::Mixed, Some(2), 1, EMULATED), emulated(Some(2)));
        let text = of(Path::Ibgda, None, 1, "mlx5_0").unwrap_err();
        assert!(text.contains("SHMEM_HCA=emulated") && text.contains("mlx5_0"), "{text}");
        let text = of(Path::Mixed, None, 2, EMULATED).unwrap_err();
        assert!(text.contains("has 2: start one process"), "{text}");
    }

    #[test]
    fn nodes_are_of_so_many_pes_one_after_the_other() {
        let emulation = |node_pes| Emulation {
            node_pes,
            contexts: 1,
            log2: 4,
        };
        let two = emulation(Some(2));
        assert_eq!([0, 1, 2, 4].map(|pe| two.node(pe, 5)), [0..2, 0..2, 2..4, 4..5]);
        assert!(two.loads(1, 0, 5) && two.loads(4, 4, 5) && !two.loads(1, 2, 5));
        let none = emulation(None);
        assert_eq!(none.node(3, 5), 3..4);
        assert!(!none.loads(3, 3, 5));
    }
}
