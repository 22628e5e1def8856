//! Several words that a wait or a test looks at together, what they are compared with, and where it tells which.

use crate::arch;
use crate::fault::{FaultKind, check};
use crate::tile::{InBlock, Thread, Tile};
use crate::wait::{Condition, Relation, WaitWord};
use crate::{Global, Pod, Shared, Sym, SymSlice};
use core::marker::PhantomData;

/// Words that are waited for together: a [`SymSlice`] of signals, counters or integers, or [`except`](SymSlice::except)
/// of one, which leaves some out.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a set of words to wait for",
    note = "such sets are SymSlice of SignalWord, CounterWord, u32, i32, u64, i64, and `words.except(|i| ..)` of one"
)]
pub trait Words: Copy {
    /// One of them.
    type Word: WaitWord;
    #[doc(hidden)]
    const __STRIDE: usize;
    #[doc(hidden)]
    fn __len(self) -> u64;
    #[doc(hidden)]
    fn __word(self, i: u64) -> Self::Word;
    #[doc(hidden)]
    fn __excluded(self, i: u64) -> bool;
}

impl<T> Words for SymSlice<T>
where
    Sym<T>: WaitWord,
{
    type Word = Sym<T>;
    const __STRIDE: usize = size_of::<T>();
    #[inline(always)]
    fn __len(self) -> u64 {
        self.len()
    }
    #[inline(always)]
    #[track_caller]
    fn __word(self, i: u64) -> Sym<T> {
        self.at(i)
    }
    #[inline(always)]
    fn __excluded(self, _: u64) -> bool {
        false
    }
}

/// Words without those that a closure names, as [`SymSlice::except`] makes it.
#[derive(Clone, Copy, Debug)]
pub struct Except<S, F> {
    words: S,
    excluded: F,
}

impl<T> SymSlice<T>
where
    Sym<T>: WaitWord,
{
    /// These words without those whose index the closure says true of: neither waited for nor reported. OpenSHMEM's
    /// `status` array. One member of the tile asks it, as often as it looks at the word.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// shmem_sim::run(2, 1, 32, || {
    ///     let arrived = shmem_sim::signals(2);
    ///     let me = u64::from(shmem::my_pe());
    ///     if Block.leader() {
    ///         shmem::signal_op(arrived.at(me).set(1), 1 - shmem::my_pe());
    ///     }
    ///     shmem::wait_until_all(Block, arrived.except(|pe| pe == me), eq(1));
    /// }).unwrap();
    /// ```
    #[inline(always)]
    pub fn except<F: Fn(u64) -> bool + Copy>(self, excluded: F) -> Except<Self, F> {
        Except { words: self, excluded }
    }
}

impl<S: Words, F: Fn(u64) -> bool + Copy> Words for Except<S, F> {
    type Word = S::Word;
    const __STRIDE: usize = S::__STRIDE;
    #[inline(always)]
    fn __len(self) -> u64 {
        self.words.__len()
    }
    #[inline(always)]
    #[track_caller]
    fn __word(self, i: u64) -> S::Word {
        self.words.__word(i)
    }
    #[inline(always)]
    #[track_caller]
    fn __excluded(self, i: u64) -> bool {
        (self.excluded)(i) || self.words.__excluded(i)
    }
}

/// What words are compared with: one value for all, or a value for each (OpenSHMEM's `_vector` forms) from a [`Global`],
/// a [`Shared`], this PE's copy of a [`SymSlice`], or with [`Thread`] a slice. As many values as words, or it is a fault
/// (`FaultKind::Length`). They are ordered before the call for the whole tile.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not what words of `{V}` are compared with by `{G}`",
    note = "one `{V}`, or a Global, Shared or SymSlice of `{V}`; with Thread also a slice"
)]
pub trait Against<V, G: Tile>: Copy {
    #[doc(hidden)]
    const __EACH: bool;
    #[doc(hidden)]
    fn __value(self, i: u64) -> V;
    /// How many there are; any number does where it is one for all.
    #[doc(hidden)]
    fn __fits(self, words: u64) -> (bool, u64);
}

macro_rules! one_for_all { ($($v:ty)*) => { $(
    impl<G: Tile> Against<$v, G> for $v {
        const __EACH: bool = false;
        #[inline(always)]
        fn __value(self, _: u64) -> $v { self }
        #[inline(always)]
        fn __fits(self, _: u64) -> (bool, u64) { (true, 1) }
    }
)* } }
one_for_all!(u32 i32 u64 i64);

macro_rules! one_for_each { ($(($($bound:tt)*) $values:ty, $self:ident, $i:ident, $value:expr;)*) => { $(
    impl<$($bound)*> Against<V, one_for_each!(@tile $($bound)*)> for $values {
        const __EACH: bool = true;
        #[inline(always)]
        #[track_caller]
        fn __value($self, $i: u64) -> V { $value }
        #[inline(always)]
        fn __fits($self, words: u64) -> (bool, u64) {
            let n = $self.len() as u64;
            (n == words, n)
        }
    }
)* };
    (@tile V: Pod) => { Thread };
    (@tile V: Pod, const N: usize) => { Thread };
    (@tile V: Pod, $g:ident: $t:ident) => { $g };
}
one_for_each! {
    (V: Pod, G: Tile) Global<V>, self, i, self.load(i);
    (V: Pod, G: Tile) SymSlice<V>, self, i, self.load(i);
    (V: Pod, G: InBlock) Shared<V>, self, i, self.load(i);
    (V: Pod) &[V], self, i, self[i as usize];
    (V: Pod, const N: usize) &[V; N], self, i, self[i as usize];
}

/// Where the `_some` forms tell which words: a [`Global`] or [`Shared`] of u32, or with [`Thread`] a slice. As long as the
/// set of words, or longer; shorter is a fault (`FaultKind::Length`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't hold the indices of words for `{G}`",
    note = "a Global<u32> or Shared<u32>; with Thread also a &mut [u32]"
)]
pub trait Found<G: Tile> {
    #[doc(hidden)]
    fn __len(&self) -> u64;
    #[doc(hidden)]
    fn __set(&mut self, k: u64, i: u32);
}

macro_rules! found { ($(($($bound:tt)*) $place:ty, $tile:ty, $self:ident, $k:ident, $i:ident, $set:expr;)*) => { $(
    impl<$($bound)*> Found<$tile> for $place {
        #[inline(always)]
        fn __len(&self) -> u64 { self.len() as u64 }
        #[inline(always)]
        #[track_caller]
        fn __set(&mut $self, $k: u64, $i: u32) { $set }
    }
)* } }
found! {
    (G: Tile) Global<u32>, G, self, k, i, self.store(k, i);
    (G: InBlock) Shared<u32>, G, self, k, i, self.store(k, i);
    () &mut [u32], Thread, self, k, i, self[k as usize] = i;
    (const N: usize) &mut [u32; N], Thread, self, k, i, self[k as usize] = i;
}

/// What a look at the words has found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// All of them are left out.
    Empty,
    /// None stands in the relation yet.
    None,
    /// This one does, or this many.
    Some(u64),
}

impl Look {
    /// The number, or `otherwise`.
    #[inline(always)]
    pub(crate) fn or(self, otherwise: u64) -> u64 {
        match self {
            Self::Some(n) => n,
            Self::Empty | Self::None => otherwise,
        }
    }
}

/// A set of words with its condition.
pub(crate) struct Query<S, R, A, G> {
    words: S,
    until: Condition<R, A>,
    tile: PhantomData<G>,
}

impl<S, R, A, G> Query<S, R, A, G>
where
    G: Tile,
    S: Words,
    R: Relation,
    A: Against<<S::Word as WaitWord>::Value, G>,
{
    #[inline(always)]
    #[track_caller]
    pub(crate) fn new(_tile: G, words: S, until: Condition<R, A>) -> Self {
        let (fits, values) = until.value.__fits(words.__len());
        check(fits, FaultKind::Length, words.__len(), values);
        Self {
            words,
            until,
            tile: PhantomData,
        }
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> u64 {
        self.words.__len()
    }

    /// Whether word i stands in the relation now. Acquires.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn holds(&self, i: u64) -> bool {
        R::holds(self.words.__word(i).__acquire(), self.until.value.__value(i))
    }

    /// The first word that does, from `start` on and round the end.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn first(&self, start: u64) -> Look {
        let n = self.len();
        let (mut look, mut i, mut left) = (Look::Empty, start, n);
        while left != 0 {
            if !self.words.__excluded(i) {
                if self.holds(i) {
                    return Look::Some(i);
                }
                look = Look::None;
            }
            i = if i + 1 == n { 0 } else { i + 1 };
            left -= 1;
        }
        look
    }

    /// All that do, told to `found`.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn collect(&self, found: &mut impl Found<G>) -> Look {
        let (mut look, mut count, mut i) = (Look::Empty, 0, 0);
        while i < self.len() {
            if !self.words.__excluded(i) {
                if self.holds(i) {
                    found.__set(count, i as u32);
                    count += 1;
                    look = Look::Some(count);
                } else if look == Look::Empty {
                    look = Look::None;
                }
            }
            i += 1;
        }
        look
    }

    /// Where a fair look for one word begins.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn start(&self) -> u64 {
        arch::pick(self.len())
    }

    #[inline(always)]
    #[track_caller]
    pub(crate) fn check_room(&self, found: &impl Found<G>) {
        check(
            self.len() <= found.__len(),
            FaultKind::Length,
            found.__len(),
            self.len(),
        );
    }

    /// Waits until word i does. Its value is read once.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn wait(&self, i: u64) {
        let (word, value) = (self.words.__word(i), self.until.value.__value(i));
        arch::spin(&Self::watch(word, value), || R::holds(word.__acquire(), value));
    }

    /// What the simulator reports of a wait for any of them.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn watch_any(&self) -> arch::Watch {
        let first = Self::watch(self.words.__word(0), self.until.value.__value(0));
        arch::watch_any(first, self.len(), S::__STRIDE, A::__EACH)
    }

    #[inline(always)]
    #[track_caller]
    fn watch(word: S::Word, value: <S::Word as WaitWord>::Value) -> arch::Watch {
        let bytes = size_of::<<S::Word as WaitWord>::Value>();
        arch::watch(word.__address(), bytes, R::NAME, <S::Word as WaitWord>::__bits(value))
    }
}
