//! One pass over a run of elements of all members: loads them, combines them in the order of the members' indices, and
//! stores the result. 16 bytes at a time where both sides are aligned alike, with several loads of each member in flight.

use super::op::{Combine, Fixed, ReduceOp};
use crate::arch::{self, Space, Strength};
use crate::team::{Peer, Team};
use crate::tile::Tile;
use crate::vector::U64x2;
use crate::{Pod, context, network};
use core::marker::PhantomData;

/// Bytes of a line.
const LINE: u64 = 16;
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

/// What the loads of a flight are added up in: up to two words of each.
type Sums<C> = [<C as Combine>::Wide; 2 * FLIGHT];

/// What a member's loads have brought.
#[inline(always)]
fn widened<C: Combine, U: Unit>(units: &[U; FLIGHT]) -> Sums<C> {
    let mut wide = [C::widen(0); 2 * FLIGHT];
    let mut k = 0;
    while k < flight::<C::Wide>() {
        let words = units[k].words();
        let mut w = 0;
        while w < U::WORDS {
            wide[2 * k + w] = C::widen(words[w]);
            w += 1;
        }
        k += 1;
    }
    wide
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
        self.run_by::<T, Fixed<T, O>, G>(tile, Fixed(PhantomData));
    }

    /// The same.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    #[track_caller]
    pub(super) fn run_by<T: Pod, C: Combine, G: Tile>(self, tile: G, by: C) {
        let (mut head, mut body) = (self.bytes, 0);
        if (self.from ^ self.to).is_multiple_of(LINE) {
            head = (self.from.wrapping_neg() % LINE).min(self.bytes);
            body = (self.bytes - head) & !(LINE - 1);
            self.lines::<C, G>(tile, by, head, body);
        }
        let edges = self.bytes - body;
        match size_of::<T>() {
            1 => self.elements::<C, u8, G>(tile, by, head, body, edges),
            2 => self.elements::<C, u16, G>(tile, by, head, body, edges),
            4 => self.elements::<C, u32, G>(tile, by, head, body, edges),
            _ => self.elements::<C, u64, G>(tile, by, head, body, edges),
        }
    }

    /// Bytes `begin..begin + bytes`, a multiple of 16, aligned to them on both sides.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    #[track_caller]
    fn lines<C: Combine, G: Tile>(self, tile: G, by: C, begin: u64, bytes: u64) {
        let (flight, step) = (flight::<C::Wide>() as u64, u64::from(tile.size()) * LINE);
        let mut at = u64::from(tile.rank()) * LINE;
        // Below this, the member's next flight is all inside: its loads go out one after the other, with nothing between.
        let whole = bytes.saturating_sub((flight - 1) * step);
        while at < whole {
            self.flight::<C, U64x2>(by, |k| (begin + at + k as u64 * step, true));
            at += flight * step;
        }
        // Fewer than a flight are left: one more, in which each line is looked at.
        if at < bytes {
            self.flight::<C, U64x2>(by, |k| {
                let at = at + k as u64 * step;
                (begin + at, at < bytes)
            });
        }
    }

    /// `bytes` in all, by elements: those before `gap_at`, and those from `gap_at + gap` on.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    #[track_caller]
    fn elements<C: Combine, U: Unit, G: Tile>(self, tile: G, by: C, gap_at: u64, gap: u64, bytes: u64) {
        let step = u64::from(tile.size()) * size_of::<U>() as u64;
        let mut first = u64::from(tile.rank()) * size_of::<U>() as u64;
        while first < bytes {
            self.flight::<C, U>(by, |k| {
                let at = first + k as u64 * step;
                (if at < gap_at { at } else { at + gap }, at < bytes)
            });
            first += flight::<C::Wide>() as u64 * step;
        }
    }

    /// One flight of a member of the tile: `place` tells where in the run its k-th unit lies, and whether it is one.
    #[inline(always)]
    #[track_caller]
    fn flight<C: Combine, U: Unit>(self, by: C, place: impl Fn(usize) -> (u64, bool)) {
        let n = self.team.n_pes();
        let mut sums = [C::widen(0); 2 * FLIGHT];
        // Two members at a time: the loads of both are in flight together.
        let mut s = 0;
        while s < n {
            let two = s + 1 < n;
            let (a, b) = (self.peer(s), self.peer(if two { s + 1 } else { s }));
            let (mut one, mut other) = ([U::zeroed(); FLIGHT], [U::zeroed(); FLIGHT]);
            // Counted loops unroll, and the flights stay in registers.
            let mut k = 0;
            while k < flight::<C::Wide>() {
                let (at, inside) = place(k);
                if inside {
                    // SAFETY: inside the run, which every member has.
                    one[k] = unsafe { arch::load_remote(self.from + at, a) };
                }
                k += 1;
            }
            if two {
                k = 0;
                while k < flight::<C::Wide>() {
                    let (at, inside) = place(k);
                    if inside {
                        // SAFETY: as above.
                        other[k] = unsafe { arch::load_remote(self.from + at, b) };
                    }
                    k += 1;
                }
            }
            if s == 0 {
                sums = widened::<C, U>(&one);
            } else {
                by.combine(&mut sums, &widened::<C, U>(&one));
            }
            if two {
                by.combine(&mut sums, &widened::<C, U>(&other));
            }
            s = arch::next(arch::next(s));
        }
        let mut results = [U::zeroed(); FLIGHT];
        let mut k = 0;
        while k < flight::<C::Wide>() {
            let mut words = [0; 2];
            let mut w = 0;
            while w < U::WORDS {
                words[w] = C::narrow(sums[2 * k + w]);
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
            while k < flight::<C::Wide>() {
                let (at, inside) = place(k);
                if inside {
                    self.give(self.to + at, results[k], to);
                }
                k += 1;
            }
            t = arch::next(t);
        }
    }

    #[inline(always)]
    #[track_caller]
    fn give<U: Unit>(self, offset: u64, unit: U, to: Peer) {
        // What an adapter brings to this PE itself may be there later than all others have answered.
        let here = self.count == 0 || network::present() && to.pe == arch::my_pe();
        // SAFETY: inside the destination, which every member has.
        unsafe {
            if here {
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
