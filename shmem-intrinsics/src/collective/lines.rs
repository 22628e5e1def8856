//! One pass over a run of elements of all members: loads them, combines them in the order of the members' indices, and
//! stores the result. 16 bytes at a time where both sides are aligned alike, with several loads of each member in flight.

use super::op::ReduceOp;
use crate::arch::{self, Space, Strength};
use crate::team::{Peer, Team};
use crate::tile::Tile;
use crate::vector::U64x2;
use crate::{Pod, context};

/// Loads that a thread has in flight for each member's run.
const FLIGHT: usize = 4;

/// Who gets the result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum To {
    /// This PE alone.
    Me,
    /// Every member, this one too: put-like.
    All,
    /// The member of this index: put-like.
    One(u32),
}

/// What moves in one access: elements in one or two words.
trait Unit: Pod {
    const WORDS: usize;
    fn words(self) -> [u64; 2];
    fn of(words: [u64; 2]) -> Self;
}

macro_rules! units { ($($t:ident)*) => { $(
    impl Unit for $t {
        const WORDS: usize = 1;
        #[inline(always)]
        fn words(self) -> [u64; 2] { [self.into(), 0] }
        #[inline(always)]
        fn of([word, _]: [u64; 2]) -> Self { word as Self }
    }
)* } }
units!(u8 u16 u32 u64);

impl Unit for U64x2 {
    const WORDS: usize = 2;
    #[inline(always)]
    fn words(self) -> [u64; 2] {
        self.0
    }
    #[inline(always)]
    fn of(words: [u64; 2]) -> Self {
        Self(words)
    }
}

/// Combines what a member's loads have brought; `first` begins the sums.
#[inline(always)]
fn add<T: Pod, O: ReduceOp<T>, U: Unit>(sums: &mut [[O::Wide; 2]; FLIGHT], flight: &[U; FLIGHT], first: bool) {
    let mut k = 0;
    while k < FLIGHT {
        let words = flight[k].words();
        let mut w = 0;
        while w < U::WORDS {
            let wide = O::__widen(words[w]);
            sums[k][w] = if first { wide } else { O::__combine(sums[k][w], wide) };
            w += 1;
        }
        k += 1;
    }
}

/// A run of `bytes` at `from` in the heap of every member, whose result goes to `to` in the heap.
#[derive(Clone, Copy)]
pub(super) struct Pass {
    pub(super) team: Team,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) bytes: u64,
    pub(super) who: To,
}

impl Pass {
    /// Shared out among the tile's members. No sync.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    #[track_caller]
    pub(super) fn run<T: Pod, O: ReduceOp<T>, G: Tile>(self, tile: G) {
        let element = size_of::<T>() as u64;
        let mut head = self.bytes;
        if (self.from ^ self.to) & 15 == 0 {
            head = (self.from.wrapping_neg() & 15).min(self.bytes);
            let lines = (self.bytes - head) / 16;
            self.part(head).units::<T, O, U64x2, G>(tile, lines);
            let done = head + lines * 16;
            self.part(done).elements::<T, O, G>(tile, (self.bytes - done) / element);
        }
        self.elements::<T, O, G>(tile, head / element);
    }

    /// The run from byte `at` on.
    #[inline(always)]
    fn part(self, at: u64) -> Self {
        Self {
            from: self.from + at,
            to: self.to + at,
            ..self
        }
    }

    #[inline(always)]
    #[track_caller]
    fn elements<T: Pod, O: ReduceOp<T>, G: Tile>(self, tile: G, count: u64) {
        match size_of::<T>() {
            1 => self.units::<T, O, u8, G>(tile, count),
            2 => self.units::<T, O, u16, G>(tile, count),
            4 => self.units::<T, O, u32, G>(tile, count),
            _ => self.units::<T, O, u64, G>(tile, count),
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    #[track_caller]
    fn units<T: Pod, O: ReduceOp<T>, U: Unit, G: Tile>(self, tile: G, count: u64) {
        let (n, step, size) = (self.team.n_pes(), u64::from(tile.size()), size_of::<U>() as u64);
        let mut first = u64::from(tile.rank());
        while first < count {
            let mut sums = [[O::__widen(0); 2]; FLIGHT];
            // Two members at a time: the loads of both are in flight together.
            let mut s = 0;
            while s < n {
                let two = s + 1 < n;
                let (a, b) = (self.peer(s), self.peer(if two { s + 1 } else { s }));
                let (mut one, mut other) = ([U::zeroed(); FLIGHT], [U::zeroed(); FLIGHT]);
                // Counted loops unroll, and the flights stay in registers.
                let mut k = 0;
                while k < FLIGHT {
                    let i = first + k as u64 * step;
                    if i < count {
                        // SAFETY: inside the run, which every member has.
                        one[k] = unsafe { arch::load_remote(self.from + i * size, a) };
                    }
                    k += 1;
                }
                k = 0;
                while k < FLIGHT {
                    let i = first + k as u64 * step;
                    if two && i < count {
                        // SAFETY: as above.
                        other[k] = unsafe { arch::load_remote(self.from + i * size, b) };
                    }
                    k += 1;
                }
                add::<T, O, U>(&mut sums, &one, s == 0);
                if two {
                    add::<T, O, U>(&mut sums, &other, false);
                }
                s += 2;
            }
            let mut k = 0;
            while k < FLIGHT {
                let i = first + k as u64 * step;
                if i < count {
                    let mut words = [0; 2];
                    let mut w = 0;
                    while w < U::WORDS {
                        words[w] = O::__narrow(sums[k][w]);
                        w += 1;
                    }
                    self.give(self.to + i * size, U::of(words));
                }
                k += 1;
            }
            first += FLIGHT as u64 * step;
        }
    }

    #[inline(always)]
    #[track_caller]
    fn give<U: Unit>(self, offset: u64, unit: U) {
        // SAFETY: inside the destination, which every member has.
        unsafe {
            match self.who {
                To::Me => arch::store(arch::heap_base() + offset, unit, Space::Symmetric, Strength::Weak),
                To::One(index) => arch::store_remote(offset, unit, self.peer(index)),
                To::All => {
                    // Each begins with itself, so that not all store to one PE at a time.
                    let (me, n) = (self.team.my_pe(), self.team.n_pes());
                    let mut k = 0;
                    while k < n {
                        let index = if me + k < n { me + k } else { me + k - n };
                        arch::store_remote(offset, unit, self.peer(index));
                        k += 1;
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn peer(self, index: u32) -> Peer {
        Peer {
            pe: self.team.member(index),
            ctx: context::DEFAULT,
        }
    }
}
