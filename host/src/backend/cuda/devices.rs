//! Which devices the processes of a World see, and which PE gets which.

use crate::device_use::{DeviceUse, Uuid};
use crate::layout::Layout;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// What a process sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sees {
    /// By the driver's numbers here.
    pub(super) devices: Vec<Uuid>,
    /// MPS runs kernels of several processes at the same time.
    pub(super) mps: bool,
}

/// The device of each PE, as its process numbers them. `sees` has each process's devices, by rank.
///
/// Where all processes see the same devices, PE i is on device i if there are enough, and else the devices are divided among
/// the processes. A process that sees others than the rest has been given its own.
pub(super) fn place(layout: &Layout, sees: &[Sees]) -> Vec<usize> {
    let (pes, processes) = (layout.pes() as usize, layout.processes() as usize);
    let same = sees.iter().all(|other| other.devices == sees[0].devices);
    let mut places = Vec::with_capacity(pes);
    for (rank, Sees { devices, .. }) in sees.iter().enumerate() {
        let (local, count) = (layout.of_rank(rank as u32), devices.len().max(1));
        let part = if same && processes > 1 && pes > count {
            // More processes than devices share them.
            let start = rank * count / processes;
            start..((rank + 1) * count / processes).max(start + 1)
        } else {
            0..count
        };
        let first = if same && processes > 1 && pes <= count {
            local.start as usize
        } else {
            0
        };
        places.extend((0..local.len()).map(|i| part.start + (first + i) % part.len()));
    }
    places
}

/// PEs one after the other that all reach each other: the node of each PE. `apart` has pairs where the first does not reach the
/// second.
pub(super) fn nodes(pes: u32, apart: &[(u32, u32)]) -> Vec<Range<u32>> {
    let mut nodes = vec![];
    let mut start = 0;
    for pe in 0..pes {
        let among = |other: u32| (start..pe).contains(&other);
        if apart
            .iter()
            .any(|(a, b)| (*a == pe && among(*b)) || (*b == pe && among(*a)))
        {
            nodes.extend((start..pe).map(|_| start..pe));
            start = pe;
        }
    }
    nodes.extend((start..pes).map(|_| start..pes));
    nodes
}

/// The devices that each process uses, by rank.
pub(super) fn used(layout: &Layout, sees: &[Sees], places: &[usize]) -> Vec<Vec<DeviceUse>> {
    let of = |(rank, sees): (u32, &Sees)| {
        let device = |pe: u32| {
            let (uuid, mps) = (*sees.devices.get(places[pe as usize])?, sees.mps);
            Some(DeviceUse { uuid, mps })
        };
        layout.of_rank(rank).filter_map(device).collect()
    };
    (0..).zip(sees).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device_use::exclusive;

    fn devices(numbers: &[u8]) -> Sees {
        Sees {
            devices: numbers.iter().map(|n| Uuid([*n; 16])).collect(),
            mps: false,
        }
    }

    /// Whether two processes have the same device.
    fn shared(layout: &Layout, sees: &[Sees]) -> bool {
        exclusive(used(layout, sees, &place(layout, sees)).iter().map(|used| &**used)).is_err()
    }

    #[test]
    fn pes_of_one_process_take_devices_in_turns() {
        assert_eq!(place(&Layout::alone(5), &[devices(&[1, 2])]), [0, 1, 0, 1, 0]);
    }

    #[test]
    fn processes_that_see_the_same_devices_divide_them() {
        let sees = |processes| vec![devices(&[1, 2, 3, 4]); processes];
        assert_eq!(place(&Layout::new(0, [1, 1]), &sees(2)), [0, 1]);
        assert_eq!(place(&Layout::new(0, [2, 1, 1]), &sees(3)), [0, 1, 2, 3]);
        assert_eq!(place(&Layout::new(0, [4, 4]), &sees(2)), [0, 1, 0, 1, 2, 3, 2, 3]);
        let crowded = Layout::new(0, [1; 8]);
        assert_eq!(place(&crowded, &sees(8)), [0, 0, 1, 1, 2, 2, 3, 3]);
        assert!(shared(&crowded, &sees(8)) && !shared(&Layout::new(0, [1, 1]), &sees(2)));
    }

    #[test]
    fn a_node_is_of_pes_that_all_reach_each_other() {
        assert_eq!(nodes(3, &[]), [0..3, 0..3, 0..3]);
        let two = |a: u32, b: u32| (0..2).flat_map(move |i| (2..4).map(move |j| (a + i, b + j)));
        let apart: Vec<_> = two(0, 0).collect();
        assert_eq!(nodes(4, &apart), [0..2, 0..2, 2..4, 2..4]);
        assert_eq!(nodes(3, &[(2, 0)]), [0..2, 0..2, 2..3]);
    }

    #[test]
    fn a_process_with_devices_of_its_own_takes_those() {
        let layout = Layout::new(0, [2, 2]);
        let sees = [devices(&[1]), devices(&[2, 3])];
        let places = place(&layout, &sees);
        assert_eq!(places, [0, 0, 0, 1]);
        assert!(!shared(&layout, &sees));
    }
}
