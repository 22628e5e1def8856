//! Which PE is in which process, and which processes are on one machine.

use std::ops::Range;

/// PEs are numbered by process: first those of rank 0, then those of rank 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    rank: u32,
    /// The first PE of each rank, and behind them the number of all.
    firsts: Box<[u32]>,
    /// The machine of each rank, from 0 in the order of their lowest ranks.
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
        let lowest: Vec<_> = names
            .iter()
            .map(|name| names.iter().position(|other| other == name))
            .collect();
        let mut numbers = lowest.clone();
        numbers.sort_unstable();
        numbers.dedup();
        let number = |lowest: &Option<usize>| numbers.binary_search(lowest).unwrap_or_default() as u32;
        Self {
            hosts: lowest.iter().map(number).collect(),
            ..self
        }
    }

    /// How many machines there are.
    pub(crate) fn hosts(&self) -> u32 {
        self.hosts.iter().max().map_or(0, |last| last + 1)
    }

    /// Whether a process is on this one's machine.
    pub(crate) fn is_near(&self, rank: u32) -> bool {
        self.hosts[rank as usize] == self.hosts[self.rank as usize]
    }

    /// The processes of this machine.
    pub(crate) fn near(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.processes()).filter(|&rank| self.is_near(rank))
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
    fn machines_are_numbered_by_their_lowest_ranks() {
        let one = Layout::new(1, [2, 3, 1, 1]);
        assert!(one.hosts() == 1 && one.is_near(3));
        let two = one.on_hosts(&["b", "a", "b", "a"]);
        assert_eq!((two.hosts(), &*two.hosts), (2, &[0, 1, 0, 1][..]));
        assert_eq!(two.near().collect::<Vec<_>>(), [1, 3]);
    }
}
