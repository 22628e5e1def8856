//! Which launches are known to have ended.
//!
//! Launches of one stream follow each other, so that a number for each stream says it. A kernel's end is known to what comes
//! behind it on its stream, and to its PE's host once that has waited for the stream; to others only through what orders
//! them: signals, barriers, and meetings of hosts.

use std::rc::Rc;

/// A launch: the number of its stream among those of all PEs, and its own on that stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaunchId {
    pub(crate) stream: u32,
    pub(crate) number: u32,
}

/// For each stream, how many of its launches are known to have ended. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ends(Option<Rc<[u32]>>);

impl Ends {
    fn counts(&self) -> &[u32] {
        self.0.as_deref().unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn contains(&self, launch: LaunchId) -> bool {
        let known = self.counts().get(launch.stream as usize);
        known.is_some_and(|&count| launch.number < count)
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(a), Some(b)) => Rc::ptr_eq(a, b) || a == b,
            _ => false,
        }
    }

    /// This one has ended, and with it those before it on its stream.
    pub(crate) fn add(&mut self, launch: LaunchId) {
        if self.contains(launch) {
            return;
        }
        let mut counts = self.counts().to_vec();
        counts.resize(counts.len().max(launch.stream as usize + 1), 0);
        counts[launch.stream as usize] = launch.number + 1;
        self.0 = Some(counts.into());
    }

    pub(crate) fn join(&mut self, other: &Self) {
        let (Some(mine), Some(theirs)) = (&self.0, &other.0) else {
            if self.0.is_none() {
                self.clone_from(other);
            }
            return;
        };
        let within = |a: &[u32], b: &[u32]| a.len() <= b.len() && a.iter().zip(b).all(|(a, b)| a <= b);
        if Rc::ptr_eq(mine, theirs) || within(theirs, mine) {
            return;
        }
        if within(mine, theirs) {
            self.clone_from(other);
            return;
        }
        let at = |counts: &[u32], i: usize| counts.get(i).copied().unwrap_or(0);
        let len = mine.len().max(theirs.len());
        self.0 = Some((0..len).map(|i| at(mine, i).max(at(theirs, i))).collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(stream: u32, number: u32) -> LaunchId {
        LaunchId { stream, number }
    }

    #[test]
    fn an_end_tells_of_those_before_it_on_its_stream_alone() {
        let mut ends = Ends::default();
        assert!(!ends.contains(launch(0, 0)));
        ends.add(launch(2, 4));
        ends.add(launch(2, 1));
        assert!(ends.contains(launch(2, 0)) && ends.contains(launch(2, 4)));
        assert!(!ends.contains(launch(2, 5)) && !ends.contains(launch(1, 0)) && !ends.contains(launch(3, 0)));
    }

    #[test]
    fn a_join_knows_what_either_knows() {
        let (mut a, mut b) = (Ends::default(), Ends::default());
        a.add(launch(0, 3));
        b.add(launch(0, 1));
        b.add(launch(4, 0));
        let mut sum = a.clone();
        sum.join(&b);
        for (stream, number) in (0..6).flat_map(|stream| (0..6).map(move |number| (stream, number))) {
            let l = launch(stream, number);
            assert_eq!(sum.contains(l), a.contains(l) || b.contains(l), "{l:?}");
        }
        let before = sum.clone();
        sum.join(&a);
        assert!(sum.same(&before) && !sum.same(&a));
    }
}
