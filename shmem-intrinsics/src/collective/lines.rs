//! One pass over a run of elements of all members: loads them, combines them in the order of the members' indices, and
//! stores the result. 16 bytes at a time where both sides are aligned alike, with several loads of each member in flight.

use super::op::ReduceOp;
use crate::arch::{self, Space, Strength};
use crate::team::{Peer, Team};
use crate::tile::Tile;
use crate::vector::U64x2;
use crate::{Pod, context};

/// Loads that a thread has in flight for each member's run, at most.
const FLIGHT: usize = 4;

/// How many it has: fewer where what they are added up in is wide, so that a block of 1024 threads has the registers.
const fn flight<W>() -> usize {
    if size_of::<W>() > 8 { 2 } else { FLIGHT }
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
fn add<T: Pod, O: ReduceOp<T>, U: Unit>(sums: &mut [[O::Wide; 2]; FLIGHT], units: &[U; FLIGHT], first: bool) {
    let mut k = 0;
    while k < flight::<O::Wide>() {
        let words = units[k].words();
        let mut w = 0;
        while w < U::WORDS {
            let wide = O::__widen(words[w]);
            sums[k][w] = if first { wide } else { O::__combine(sums[k][w], wide) };
            w += 1;
        }
        k += 1;
    }
}

/// A run of `bytes` at `from` in the heap of every member, whose result goes to `to` in the heaps of some.
#[derive(Clone, Copy)]
pub(super) struct Pass {
    pub(super) team: Team,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) bytes: u64,
    /// Index of the first member that gets it.
    pub(super) first: u32,
    /// How many get it, from there round the team: put-like. 0: this PE alone, by plain stores.
    pub(super) count: u32,
}

impl Pass {
    /// Shared out among the tile's members. No sync.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    #[track_caller]
    pub(super) fn run<T: Pod, O: ReduceOp<T>, G: Tile>(self, tile: G) {
        let (mut head, mut body) = (self.bytes, 0);
        if (self.from ^ self.to).is_multiple_of(16) {
            head = (self.from.wrapping_neg() & 15).min(self.bytes);
            body = (self.bytes - head) & !15;
            self.units::<T, O, U64x2, G>(tile, head, 0, body);
        }
        let edges = self.bytes - body;
        match size_of::<T>() {
            1 => self.units::<T, O, u8, G>(tile, head, body, edges),
            2 => self.units::<T, O, u16, G>(tile, head, body, edges),
            4 => self.units::<T, O, u32, G>(tile, head, body, edges),
            _ => self.units::<T, O, u64, G>(tile, head, body, edges),
        }
    }

    /// `bytes` in all, by units. For lines they begin at `head`; for elements they are those before `head`, and those from
    /// `head + gap` on.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    #[track_caller]
    fn units<T: Pod, O: ReduceOp<T>, U: Unit, G: Tile>(self, tile: G, head: u64, gap: u64, bytes: u64) {
        let (n, step) = (self.team.n_pes(), u64::from(tile.size()) * size_of::<U>() as u64);
        let mut first = u64::from(tile.rank()) * size_of::<U>() as u64;
        // Where the member's k-th unit from here lies, and whether it is one of them.
        let place = |first: u64, k: usize| {
            let at = first + k as u64 * step;
            let place = if U::WORDS == 2 {
                at + head
            } else if at < head {
                at
            } else {
                at + gap
            };
            (place, at < bytes)
        };
        while first < bytes {
            let mut sums = [[O::__widen(0); 2]; FLIGHT];
            // Two members at a time: the loads of both are in flight together.
            let mut s = 0;
            while s < n {
                let two = s + 1 < n;
                let (a, b) = (self.peer(s), self.peer(if two { s + 1 } else { s }));
                let (mut one, mut other) = ([U::zeroed(); FLIGHT], [U::zeroed(); FLIGHT]);
                // Counted loops unroll, and the flights stay in registers.
                let mut k = 0;
                while k < flight::<O::Wide>() {
                    let (at, inside) = place(first, k);
                    if inside {
                        // SAFETY: inside the run, which every member has.
                        one[k] = unsafe { arch::load_remote(self.from + at, a) };
                    }
                    k += 1;
                }
                k = 0;
                while k < flight::<O::Wide>() {
                    let (at, inside) = place(first, k);
                    if two && inside {
                        // SAFETY: as above.
                        other[k] = unsafe { arch::load_remote(self.from + at, b) };
                    }
                    k += 1;
                }
                add::<T, O, U>(&mut sums, &one, s == 0);
                if two {
                    add::<T, O, U>(&mut sums, &other, false);
                }
                s = arch::next(arch::next(s));
            }
            let mut results = [U::zeroed(); FLIGHT];
            let mut k = 0;
            while k < flight::<O::Wide>() {
                let mut words = [0; 2];
                let mut w = 0;
                while w < U::WORDS {
                    words[w] = O::__narrow(sums[k][w]);
                    w += 1;
                }
                results[k] = U::of(words);
                k += 1;
            }
            let mut t = 0;
            while t < self.count.max(1) {
                let index = self.first + t;
                let index = if index < n { index } else { index - n };
                let to = self.peer(if self.count == 0 { 0 } else { index });
                k = 0;
                while k < flight::<O::Wide>() {
                    let (at, inside) = place(first, k);
                    if inside {
                        self.give(self.to + at, results[k], to);
                    }
                    k += 1;
                }
                t = arch::next(t);
            }
            first += flight::<O::Wide>() as u64 * step;
        }
    }

    #[inline(always)]
    #[track_caller]
    fn give<U: Unit>(self, offset: u64, unit: U, to: Peer) {
        // SAFETY: inside the destination, which every member has.
        unsafe {
            if self.count == 0 {
                arch::store(arch::heap_base() + offset, unit, Space::Symmetric, Strength::Weak);
            } else {
                arch::store_remote(offset, unit, to);
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
