//! How long operations are held back: each seed has a style, and each operation a draw.

use crate::clock::TICK_NS;
use crate::rng::{Rng, below, mix};

/// When an operation takes effect, and how it stands among those of the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delay {
    /// From now on.
    pub(crate) ns: u64,
    pub(crate) tie: u32,
}

/// Different seeds find different bugs: what is late depends on the style.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Style {
    /// Mostly at once.
    Eager,
    /// Within a few rounds of all lanes.
    Even,
    /// From at once to very late, each order of magnitude as often.
    Scales,
    /// Very late, in any order.
    Lazy,
    /// All at once now and then, in any order.
    Bursts,
    /// What one PE issues is late, all else is early.
    SlowPe(u32),
    /// So is what goes from one PE to another.
    SlowLink(u32, u32),
    /// Signals overtake data.
    DataLate,
    /// Data overtakes signals.
    DataEarly,
}

const STYLES: usize = 9;
/// Rounds of all lanes that count as late: by then, most kernels wait for what is held back.
const LATE: u64 = 32;

impl Style {
    pub(crate) fn new(rng: &Rng, pes: u32) -> Self {
        let pe = || below(rng.next(), pes as usize) as u32;
        match below(rng.next(), STYLES) {
            0 => Self::Eager,
            1 => Self::Even,
            2 => Self::Scales,
            3 => Self::Lazy,
            4 => Self::Bursts,
            5 => Self::SlowPe(pe()),
            6 => Self::SlowLink(pe(), pe()),
            7 => Self::DataLate,
            _ => Self::DataEarly,
        }
    }

    /// `round_ns`: how long a round of all lanes takes.
    pub(crate) fn delay(self, draw: u64, now_ns: u64, round_ns: u64, (from, to): (u32, u32), data: bool) -> Delay {
        let draw = mix(draw);
        let upto = |ns: u64| below(draw, ns as usize) as u64;
        let early = || match draw % 8 {
            0 => upto(4 * round_ns),
            _ => 0,
        };
        let late = || LATE * round_ns + upto(LATE * round_ns);
        let if_late = |is| if is { late() } else { early() };
        let ns = match self {
            Self::Eager => early(),
            Self::Even => upto(4 * round_ns),
            Self::Scales => match draw % 8 {
                0 => 0,
                scale => upto(round_ns << scale) / 4,
            },
            Self::Lazy => late(),
            Self::Bursts => (now_ns + 1).next_multiple_of(LATE * round_ns) - now_ns,
            Self::SlowPe(pe) => if_late(from == pe),
            Self::SlowLink(a, b) => if_late((from, to) == (a, b)),
            Self::DataLate => if_late(data),
            Self::DataEarly => if_late(!data),
        };
        Delay {
            ns,
            tie: mix(draw) as u32,
        }
    }
}

/// A round of so many lanes; that of a large world is not waited for as long.
pub(crate) fn round_ns(lanes: u32) -> u64 {
    u64::from(lanes.clamp(4, 1024)) * TICK_NS
}

/// Where a transfer of so many elements is cut: pieces that take effect by themselves.
pub(crate) fn cuts(draw: u64, elements: usize) -> Vec<usize> {
    let draw = mix(draw ^ 1);
    if elements < 2 || !draw.is_multiple_of(4) {
        return Vec::new();
    }
    let count = 1 + (draw >> 8) as usize % 3;
    let mut cuts: Vec<usize> = (0..count as u64)
        .map(|i| 1 + below(mix(draw ^ (2 + i)), elements - 1))
        .collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_elements_and_never_empty() {
        let mut most = 0;
        for draw in 0..1000 {
            let cuts = cuts(draw, 7);
            assert!(cuts.iter().all(|cut| (1..7).contains(cut)) && cuts.is_sorted_by(|a, b| a < b));
            most = most.max(cuts.len());
        }
        assert_eq!(most, 3);
        assert!(cuts(8, 1).is_empty());
    }

    #[test]
    fn every_style_is_some_seeds() {
        let styles: std::collections::HashSet<_> = (0..200)
            .map(|seed| std::mem::discriminant(&Style::new(&Rng::new(seed, &[]), 3)))
            .collect();
        assert_eq!(styles.len(), STYLES);
    }
}
