//! First fit over one range of offsets. Deterministic, so that every PE's copy takes the same decisions.

use std::collections::BTreeMap;

#[derive(Debug)]
pub(crate) struct Allocator {
    /// Start and end of each free range. No two touch.
    free: BTreeMap<u64, u64>,
}

impl Allocator {
    pub(crate) fn new(start: u64, end: u64) -> Self {
        Self {
            free: (start < end).then_some((start, end)).into_iter().collect(),
        }
    }

    /// Takes the lowest `bytes` at a multiple of `align` (a power of two).
    pub(crate) fn take(&mut self, bytes: u64, align: u64) -> Option<u64> {
        let fits = |(&from, &to): (&u64, &u64)| {
            let start = from.checked_next_multiple_of(align)?;
            (start.checked_add(bytes)? <= to).then_some((from, start, to))
        };
        let (from, start, to) = self.free.iter().find_map(fits)?;
        self.free.remove(&from);
        let rest = [(from, start), (start + bytes, to)];
        self.free.extend(rest.into_iter().filter(|(from, to)| from < to));
        Some(start)
    }

    /// Takes the highest `bytes` at a multiple of `align` (a power of two), none of them below `above`.
    pub(crate) fn take_high(&mut self, bytes: u64, align: u64, above: u64) -> Option<u64> {
        let fits = |(&from, &to): (&u64, &u64)| {
            let start = to.checked_sub(bytes)? & !(align - 1);
            (start >= from.max(above)).then_some((from, start, to))
        };
        let (from, start, to) = self.free.iter().rev().find_map(fits)?;
        self.free.remove(&from);
        let rest = [(from, start), (start + bytes, to)];
        self.free.extend(rest.into_iter().filter(|(from, to)| from < to));
        Some(start)
    }

    /// Gives back what `take` returned.
    pub(crate) fn give(&mut self, start: u64, bytes: u64) {
        let (mut from, mut to) = (start, start + bytes);
        if let Some(after) = self.free.remove(&to) {
            to = after;
        }
        if let Some((&before, _)) = self.free.range(..from).next_back().filter(|(_, end)| **end == from) {
            from = before;
        }
        if from < to {
            self.free.insert(from, to);
        }
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.free.iter().map(|(from, to)| to - from).sum()
    }

    pub(crate) fn largest(&self) -> u64 {
        self.free.iter().map(|(from, to)| to - from).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn splits_and_coalesces() {
        let mut a = Allocator::new(512, 4096);
        let [x, y, z] = [(); 3].map(|()| a.take(512, 512).unwrap());
        assert_eq!([x, y, z], [512, 1024, 1536]);
        a.give(x, 512);
        a.give(z, 512);
        assert_eq!(a.largest(), 4096 - 1536);
        assert_eq!(a.take(1024, 512), Some(1536), "the hole at 512 is too small");
        a.give(1536, 1024);
        a.give(y, 512);
        assert_eq!((a.free_bytes(), a.largest()), (3584, 3584));
    }

    #[test]
    fn from_above_the_highest_place_is_taken() {
        let mut a = Allocator::new(512, 10_000);
        assert_eq!(a.take_high(4096, 4096, 0), Some(4096));
        // What is behind it stays free, what is before it too.
        assert_eq!((a.free_bytes(), a.largest()), (3584 + 1808, 3584));
        assert_eq!(a.take_high(512, 512, 0), Some(9216));
        assert_eq!(a.take_high(512, 512, 2000), Some(8704));
        assert_eq!(a.take_high(3584, 512, 513), None, "below what may be taken");
        assert_eq!(a.take_high(3584, 512, 512), Some(512));
        assert_eq!(a.take_high(u64::MAX, 1, 0), None);
    }

    #[test]
    fn alignment_leaves_the_gap_usable() {
        let mut a = Allocator::new(512, 1 << 20);
        assert_eq!(a.take(10, 65536), Some(65536));
        assert_eq!(a.take(512, 512), Some(512));
    }

    #[test]
    fn what_does_not_fit_is_refused_and_changes_nothing() {
        let mut a = Allocator::new(0, 4096);
        for (bytes, align) in [(4097, 1), (u64::MAX, 1), (1, 1 << 63)] {
            // The last one fits at 0: only then is it taken.
            let before = a.free_bytes();
            let taken = a.take(bytes, align);
            assert_eq!(before - a.free_bytes(), taken.map_or(0, |_| bytes));
        }
        assert_eq!(Allocator::new(8, 8).take(1, 1), None);
    }

    proptest! {
        /// Blocks lie inside, are aligned, never overlap; all given back, the range is whole again.
        #[test]
        fn blocks_are_disjoint(steps in prop::collection::vec((any::<bool>(), 1u64..3000, 0u32..13, any::<prop::sample::Index>()), 1..200)) {
            const END: u64 = 100_000;
            let mut a = Allocator::new(512, END);
            let mut live: Vec<(u64, u64)> = vec![];
            for (give, bytes, shift, index) in steps {
                if give && !live.is_empty() {
                    let (start, bytes) = live.swap_remove(index.index(live.len()));
                    a.give(start, bytes);
                } else if let Some(start) = a.take(bytes, 1 << shift) {
                    prop_assert!(start >= 512 && start + bytes <= END && start % (1 << shift) == 0);
                    prop_assert!(live.iter().all(|&(s, b)| s + b <= start || start + bytes <= s));
                    live.push((start, bytes));
                } else {
                    prop_assert!(a.largest() < bytes + (1 << shift));
                }
                prop_assert_eq!(a.free_bytes() + live.iter().map(|l| l.1).sum::<u64>(), END - 512);
            }
            for (start, bytes) in live {
                a.give(start, bytes);
            }
            prop_assert_eq!(a.largest(), END - 512);
        }
    }
}
