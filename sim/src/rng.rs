//! The source of every choice the simulator makes.

use crate::choices::{Choices, Sequence};
use std::cell::Cell;

/// SplitMix64: one add and three multiplies a draw, and any two seeds give unrelated sequences.
pub(crate) struct Rng(Cell<u64>);

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads the bits of a number.
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Rng {
    /// A sequence of its own for each list of `labels`: what one launch draws never depends on another.
    pub(crate) fn new(seed: u64, labels: &[u64]) -> Self {
        let start = labels
            .iter()
            .fold(mix(seed ^ GOLDEN), |x, &label| mix(x.wrapping_add(GOLDEN) ^ mix(label)));
        Self(Cell::new(start))
    }

    pub(crate) fn next(&self) -> u64 {
        let x = self.0.get().wrapping_add(GOLDEN);
        self.0.set(x);
        mix(x)
    }

    /// The draw of a decision; None where it is to be plain. What comes later does not depend on which.
    pub(crate) fn choose(&self, choices: &Choices, sequence: Sequence) -> Option<u64> {
        let draw = self.next();
        choices.may_be_random(sequence).then_some(draw)
    }
}

/// Maps the upper half of a draw to `0..n` without a division.
pub(crate) fn below(draw: u64, n: usize) -> usize {
    (((draw >> 32) * n as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_has_its_own_sequence() {
        let first = |seed, labels: &[u64]| Rng::new(seed, labels).next();
        assert_eq!(first(1, &[2, 3]), first(1, &[2, 3]));
        assert_ne!(first(1, &[2, 3]), first(1, &[3, 2]));
        assert_ne!(first(1, &[2]), first(2, &[2]));
    }

    #[test]
    fn below_covers_its_range() {
        let rng = Rng::new(0, &[]);
        let mut seen = [0u32; 7];
        for _ in 0..7000 {
            seen[below(rng.next(), 7)] += 1;
        }
        assert!(seen.iter().all(|&n| n > 800), "{seen:?}");
    }
}
