//! Which devices the processes of a World see, and which PE gets which.

use crate::layout::Layout;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

/// Names a device in every process, and on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Uuid(pub(super) [u8; 16]);

impl fmt::Display for Uuid {
    /// As `nvidia-smi -L` and `CUDA_VISIBLE_DEVICES` have it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GPU")?;
        for (i, byte) in self.0.iter().enumerate() {
            f.write_str(if matches!(i, 0 | 4 | 6 | 8 | 10) { "-" } else { "" })?;
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// The device of each PE, as its process numbers them. `sees` has each process's devices, by rank.
///
/// Where all processes see the same devices, PE i is on device i if there are enough, and else the devices are divided among
/// the processes. A process that sees others than the rest has been given its own.
pub(super) fn place(layout: &Layout, sees: &[Vec<Uuid>]) -> Vec<usize> {
    let (pes, processes) = (layout.pes() as usize, layout.processes() as usize);
    let same = sees.iter().all(|devices| *devices == sees[0]);
    let mut places = Vec::with_capacity(pes);
    for (rank, devices) in sees.iter().enumerate() {
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

/// Two processes with the same device, if there are any.
pub(super) fn shared(layout: &Layout, sees: &[Vec<Uuid>], places: &[usize]) -> Option<(u32, u32, Uuid)> {
    let uuid = |rank: u32, pe: u32| sees[rank as usize].get(places[pe as usize]).copied();
    let used = |rank: u32| layout.of_rank(rank).filter_map(move |pe| uuid(rank, pe));
    let ranks = layout.processes();
    (0..ranks)
        .flat_map(|a| (a + 1..ranks).map(move |b| (a, b)))
        .find_map(|(a, b)| Some((a, b, used(a).find(|device| used(b).any(|other| other == *device))?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices(numbers: &[u8]) -> Vec<Uuid> {
        numbers.iter().map(|n| Uuid([*n; 16])).collect()
    }

    #[test]
    fn a_uuid_reads_as_the_tools_have_it() {
        let uuid = Uuid(std::array::from_fn(|i| i as u8 + 0xa0));
        assert_eq!(uuid.to_string(), "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf");
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
        assert_eq!(
            shared(&crowded, &sees(8), &place(&crowded, &sees(8))),
            Some((0, 1, Uuid([1; 16])))
        );
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
        assert_eq!(shared(&layout, &sees, &places), None);
    }
}
