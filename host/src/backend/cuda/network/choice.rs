//! Which PEs load and store reaches, and what carries the rest.

use crate::backend::cuda::gpu::Gpu;
use crate::backend::cuda::heap::{Heap, Part};
use crate::backend::cuda::travel::Travel;
use crate::config::{Path, Settings};
use crate::layout::Layout;
use crate::processes::{Group, ProcessError};
use crate::{Error, NetworkError};
use std::ops::Range;

/// The name of adapters that are not there, in `SHMEM_HCA`.
const EMULATED: &str = "emulated";
/// Bytes of a heap of host memory, and of one that real adapters are told of: it is there as a whole from the start.
const EMULATED_HEAP: u64 = 256 << 20;
const REAL_HEAP: u64 = 1 << 30;

/// What carries calls between PEs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Loads and stores, between devices that reach each other.
    LoadStore,
    /// Emulated adapters, except within a node.
    Emulated(Emulation),
    /// Adapters of this machine, for every PE or for those that loads and stores don't reach.
    Real(Real),
}

/// The PEs that a PE calls by load and store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// None, not even itself.
    Nobody,
    /// Nodes of so many PEs, itself among them.
    Nodes(u32),
    /// Those whose memory its device reaches.
    Devices,
}

impl Reach {
    /// Whether load and store carries calls of a PE to another one, where devices reach each other.
    pub(crate) fn loads(self, pe: u32, peer: u32, pes: u32) -> bool {
        match self {
            Self::Nobody => false,
            Self::Nodes(_) => self.node(pe, pes).contains(&peer),
            Self::Devices => true,
        }
    }

    /// The PEs of a PE's node where they are those that load and store reaches; itself where there are none.
    pub(crate) fn node(self, pe: u32, pes: u32) -> Range<u32> {
        let size = match self {
            Self::Nodes(size) => size,
            Self::Nobody | Self::Devices => 1,
        };
        let start = pe / size * size;
        start..(start + size).min(pes)
    }
}

/// Send queues of each PE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Queues {
    /// Contexts that have some of their own.
    pub(crate) contexts: u32,
    /// Log2 of the blocks of each.
    pub(crate) log2: u32,
}

/// Emulated adapters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Emulation {
    pub(crate) reach: Reach,
    pub(crate) queues: Queues,
}

/// Real adapters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Real {
    pub(crate) reach: Reach,
    pub(crate) queues: Queues,
}

impl Way {
    pub(crate) fn of(settings: &Settings, group: &Group) -> Result<Self, Error> {
        let hca = std::env::var_os("SHMEM_HCA").unwrap_or_default();
        Self::choose(settings, &group.layout, &hca.to_string_lossy())
    }

    fn choose(settings: &Settings, layout: &Layout, hca: &str) -> Result<Self, Error> {
        let (processes, pes) = (layout.processes(), layout.pes());
        let far = (0..processes).find(|&rank| !settings.reaches(layout, rank));
        if let (Path::LoadStore, Some(second)) = (settings.path, far) {
            let (first, backend) = (layout.rank(), "SHMEM_PATH=load-store");
            return Err(ProcessError::Machines { first, second, backend }.into());
        }
        let queues = Queues {
            contexts: settings.queue_contexts,
            log2: settings.queue_blocks.ilog2(),
        };
        let emulated = hca == EMULATED;
        let reach = match settings.path {
            Path::Auto if far.is_some() => Reach::Devices,
            Path::Auto | Path::LoadStore => return Ok(Self::LoadStore),
            Path::Ibgda => Reach::Nobody,
            Path::Mixed if emulated => Reach::Nodes(settings.node_pes.unwrap_or(pes.div_ceil(2))),
            Path::Mixed => Reach::Devices,
        };
        if !emulated {
            return Ok(Self::Real(Real { reach, queues }));
        }
        if processes > 1 {
            return Err(NetworkError::Processes { processes }.into());
        }
        Ok(Self::Emulated(Emulation { reach, queues }))
    }

    /// Bytes of a heap where nobody asked for others; `memory` of a device.
    pub(crate) fn default_heap(self, memory: u64) -> u64 {
        match self {
            Self::LoadStore => memory,
            Self::Emulated(_) => EMULATED_HEAP,
            Self::Real(_) => REAL_HEAP,
        }
    }

    /// Bytes of heaps of `whole` bytes that are there before any kernel; `system` of them are the library's own.
    pub(crate) fn backed_first(self, whole: u64, system: u64) -> u64 {
        match self {
            Self::LoadStore | Self::Emulated(_) => system,
            // Adapters are told of all of it.
            Self::Real(_) => whole,
        }
    }

    /// The heaps.
    pub(crate) fn heap(
        self,
        gpus: &[Gpu],
        parts: Vec<Part>,
        bytes: u64,
        granularity: u64,
        travel: Option<Travel>,
    ) -> Result<Heap, Error> {
        if matches!(self, Self::Emulated(_)) {
            return Heap::pinned(&gpus[0], parts, bytes, granularity);
        }
        // What no load or store reaches need not be mapped.
        let travel = travel.filter(|_| self.reach() == Reach::Devices);
        Heap::reserve(gpus[0].driver, parts, bytes, granularity, travel)
    }

    /// Which PEs load and store may reach.
    pub(crate) fn reach(self) -> Reach {
        match self {
            Self::LoadStore => Reach::Devices,
            Self::Emulated(Emulation { reach, .. }) | Self::Real(Real { reach, .. }) => reach,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryHandles;

    fn of(path: Path, node_pes: Option<u32>, processes: u32, hca: &str) -> Result<Way, String> {
        let settings = Settings {
            path,
            node_pes,
            queue_blocks: 1024,
            queue_contexts: 3,
            ..Settings::default()
        };
        let pes = |rank| if rank == 0 { 6 - processes } else { 1 };
        let layout = Layout::new(0, (0..processes).map(pes));
        Way::choose(&settings, &layout, hca).map_err(|error| error.to_string())
    }

    #[test]
    fn between_machines_go_adapters() {
        let layout = Layout::new(1, [2, 2]).on_hosts(&["a", "b"]);
        let of = |path, handles, hca| {
            let settings = Settings {
                handles,
                path,
                ..Settings::default()
            };
            Way::choose(&settings, &layout, hca).map(Way::reach)
        };
        let descriptors = |path, hca| of(path, MemoryHandles::Descriptor, hca).map_err(|error| error.to_string());
        assert_eq!(descriptors(Path::Auto, ""), Ok(Reach::Devices));
        assert_eq!(descriptors(Path::Ibgda, ""), Ok(Reach::Nobody));
        let refused = descriptors(Path::LoadStore, "").unwrap_err();
        assert!(
            refused.starts_with("processes 1 and 0 run on different machines"),
            "{refused}"
        );
        let emulated = descriptors(Path::Auto, EMULATED).unwrap_err();
        assert!(emulated.contains("serve the PEs of one process"), "{emulated}");
        let fabric = of(Path::LoadStore, MemoryHandles::Fabric, "").unwrap();
        assert_eq!(fabric, Reach::Devices);
    }

    #[test]
    fn the_path_and_the_adapter_decide() {
        assert_eq!(of(Path::Auto, None, 2, EMULATED), Ok(Way::LoadStore));
        assert_eq!(of(Path::LoadStore, None, 1, "mlx5_0"), Ok(Way::LoadStore));
        let queues = Queues { contexts: 3, log2: 10 };
        let emulated = |reach| Ok(Way::Emulated(Emulation { reach, queues }));
        assert_eq!(of(Path::Ibgda, Some(2), 1, EMULATED), emulated(Reach::Nobody));
        assert_eq!(of(Path::Mixed, None, 1, EMULATED), emulated(Reach::Nodes(3)));
        assert_eq!(of(Path::Mixed, Some(2), 1, EMULATED), emulated(Reach::Nodes(2)));
        let real = |reach| Ok(Way::Real(Real { reach, queues }));
        assert_eq!(of(Path::Ibgda, None, 2, ""), real(Reach::Nobody));
        assert_eq!(of(Path::Mixed, Some(2), 1, "mlx5_0"), real(Reach::Devices));
        let text = of(Path::Mixed, None, 2, EMULATED).unwrap_err();
        assert!(text.contains("has 2: start one process"), "{text}");
    }

    #[test]
    fn nodes_are_of_so_many_pes_one_after_the_other() {
        let two = Reach::Nodes(2);
        assert_eq!([0, 1, 2, 4].map(|pe| two.node(pe, 5)), [0..2, 0..2, 2..4, 4..5]);
        assert!(two.loads(1, 0, 5) && two.loads(4, 4, 5) && !two.loads(1, 2, 5));
        assert_eq!(Reach::Nobody.node(3, 5), 3..4);
        assert!(!Reach::Nobody.loads(3, 3, 5) && Reach::Devices.loads(0, 4, 5));
    }
}
