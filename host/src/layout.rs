//! Which PE is in which process, and which processes are on one machine.

use std::ops::Range;

/// PEs are numbered by process: first those of rank 0, then those of rank 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    rank: u32,
    /// The first PE of each rank, and behind them the number of all.
    firsts: Box<[u32]>,
    /// The machine of each rank, as its lowest rank.
    hosts: Box<[u32]>,
}

impl Layout {
    /// All PEs in this process.
    pub(crate) fn alone(pes: u32) -> Self {
        Self {
            rank: 0,
            firsts: [0, pes].into(),
            hosts: [0].into(),
        }
    }

    /// This process is `rank`, and the processes, all on one machine, have so many PEs each.
    pub(crate) fn new(rank: u32, counts: impl IntoIterator<Item = u32>) -> Self {
        let mut next = 0u32;
        let mut firsts = vec![0];
        for count in counts {
            next = next.saturating_add(count);
            firsts.push(next);
        }
        Self {
            rank,
            hosts: vec![0; firsts.len() - 1].into(),
            firsts: firsts.into(),
        }
    }

    /// The same on machines with these names, by rank.
    pub(crate) fn on_hosts<T: PartialEq>(self, names: &[T]) -> Self {
        let first = |name: &T| names.iter().position(|other| other == name).unwrap_or_default() as u32;
        Self {
            hosts: names.iter().map(first).collect(),
            ..self
        }
    }

    /// The lowest rank of this process's machine.
    pub(crate) fn first_near(&self) -> u32 {
        self.hosts[self.rank as usize]
    }

    /// Whether a process is on this one's machine.
    pub(crate) fn is_near(&self, rank: u32) -> bool {
        self.hosts[rank as usize] == self.first_near()
    }

    /// Whether all processes are on one machine.
    pub(crate) fn is_one_host(&self) -> bool {
        self.hosts.iter().all(|host| *host == self.first_near())
    }

    /// PEs of the World.
    pub(crate) fn pes(&self) -> u32 {
        self.firsts[self.firsts.len() - 1]
    }

    /// This process.
    pub(crate) fn rank(&self) -> u32 {
        self.rank
    }

    pub(crate) fn processes(&self) -> u32 {
        self.firsts.len() as u32 - 1
    }

    /// PEs of this process.
    pub(crate) fn local(&self) -> Range<u32> {
        self.of_rank(self.rank)
    }

    pub(crate) fn of_rank(&self, rank: u32) -> Range<u32> {
        self.firsts[rank as usize]..self.firsts[rank as usize + 1]
    }

    /// The process of a PE.
    pub(crate) fn rank_of(&self, pe: u32) -> u32 {
        self.firsts.partition_point(|&first| first <= pe) as u32 - 1
    }

    pub(crate) fn is_local(&self, pe: u32) -> bool {
        self.local().contains(&pe)
    }

    /// PEs of other processes.
    pub(crate) fn remote(&self) -> impl Iterator<Item = u32> {
        (0..self.pes()).filter(|pe| !self.is_local(*pe))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pes_are_numbered_by_process() {
        let layout = Layout::new(1, [2, 3, 1]);
        assert_eq!((layout.pes(), layout.processes(), layout.local()), (6, 3, 2..5));
        assert_eq!(layout.remote().collect::<Vec<_>>(), [0, 1, 5]);
        assert_eq!(
            (0..6).map(|pe| layout.rank_of(pe)).collect::<Vec<_>>(),
            [0, 0, 1, 1, 1, 2]
        );
        assert!(layout.is_local(4) && !layout.is_local(5));
        assert_eq!([0, 1, 2, 4, 5].map(|pe| layout.rank_of(pe)), [0, 0, 1, 1, 2]);
        assert_eq!(Layout::alone(4).remote().count(), 0);
    }

    #[test]
    fn processes_of_one_name_are_near() {
        let one = Layout::new(1, [2, 3, 1, 1]);
        assert!(one.is_one_host() && one.is_near(3) && one.first_near() == 0);
        let two = one.on_hosts(&["b", "a", "b", "a"]);
        assert!(!two.is_one_host() && two.first_near() == 1);
        assert_eq!([0, 1, 2, 3].map(|rank| two.is_near(rank)), [false, true, false, true]);
    }
}
