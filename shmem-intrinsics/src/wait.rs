//! Waiting for a word that another PE writes; [`wait_many`](crate::wait_many) waits for several.
//!
//! Every wait is bounded: past the world's time limit it is a fault ([`FaultKind::TimeLimit`](crate::fault::FaultKind)), and once a PE has failed it
//! ends with [`FaultKind::PeerFailed`](crate::fault::FaultKind). Nothing hangs.

use crate::KernelArg;
use crate::arch::{self, Space, Strength};
use crate::network;
use crate::signal::{Counter, CounterWord, SignalWord};
use crate::sym::Sym;
use crate::tile::Tile;
use core::marker::PhantomData;

/// A word that can be waited on: [`Signal`](crate::Signal), [`Counter`], `Sym` of u32, i32,
/// u64, i64, and [`Word`](crate::Word) of those.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be waited on",
    note = "words to wait for are Signal, Counter, and Sym or Word of u32, i32, u64, i64: for a u16 use u32"
)]
pub trait WaitWord: Copy {
    /// What it holds.
    type Value: Copy + PartialOrd;
    #[doc(hidden)]
    fn __acquire(self) -> Self::Value;
    #[doc(hidden)]
    fn __address(self) -> u64;
    #[doc(hidden)]
    fn __bits(value: Self::Value) -> u64;
    #[doc(hidden)]
    fn __value(bits: u64) -> Self::Value;
}

macro_rules! wait_words {
    ($($word:ty: $value:ty, $raw:ty;)*) => { $(
        impl WaitWord for Sym<$word> {
            type Value = $value;
            #[inline(always)]
            #[track_caller]
            fn __acquire(self) -> $value {
                // SAFETY: `at` found it inside a live object.
                let raw: $raw = unsafe { arch::load(self.address(), Space::Symmetric, Strength::Acquire) };
                raw as $value
            }
            #[inline(always)]
            fn __address(self) -> u64 { self.address() }
            #[inline(always)]
            fn __bits(value: $value) -> u64 { value as u64 }
            #[inline(always)]
            fn __value(bits: u64) -> $value { bits as $value }
        }
    )* };
}
impl WaitWord for Counter {
    type Value = u64;
    /// The first half counts what load/store peers add, the second what adapters do.
    #[inline(always)]
    #[track_caller]
    fn __acquire(self) -> u64 {
        let half = |offset| -> u64 {
            // SAFETY: `at` found it inside a live object.
            unsafe { arch::load(self.address() + offset, Space::Symmetric, Strength::Acquire) }
        };
        let here = half(0);
        if network::present() {
            here.wrapping_add(half(8))
        } else {
            here
        }
    }
    #[inline(always)]
    fn __address(self) -> u64 {
        self.address()
    }
    #[inline(always)]
    fn __bits(value: u64) -> u64 {
        value
    }
    #[inline(always)]
    fn __value(bits: u64) -> u64 {
        bits
    }
}
wait_words! {
    SignalWord: u64, u64;
    u32: u32, u32;
    i32: i32, i32;
    u64: u64, u64;
    i64: i64, i64;
}

/// `word <relation> value`, as `eq(3)` or `ge(epoch)` make it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Condition<R, V> {
    pub(crate) value: V,
    relation: PhantomData<R>,
}

// SAFETY: its value, and nothing else.
unsafe impl<R: Relation + 'static, V: KernelArg> KernelArg for Condition<R, V> {}

/// A comparison as a type.
pub trait Relation: Copy {
    /// As written.
    const NAME: &'static str;
    /// The word's value is known once it holds.
    const EXACT: bool;
    /// Whether `a` stands in this relation to `b`.
    fn holds<V: PartialOrd>(a: V, b: V) -> bool;
}

macro_rules! relations {
    ($($name:ident $type:ident $op:tt $exact:literal $doc:literal;)*) => { $(
        #[doc = $doc]
        #[derive(Clone, Copy, Debug)]
        pub struct $type;
        impl Relation for $type {
            const NAME: &'static str = stringify!($op);
            const EXACT: bool = $exact;
            #[inline(always)]
            fn holds<V: PartialOrd>(a: V, b: V) -> bool { a $op b }
        }
        #[doc = $doc]
        #[inline(always)]
        pub const fn $name<V>(value: V) -> Condition<$type, V> {
            Condition { value, relation: PhantomData }
        }
    )* };
}
relations! {
    eq Eq == true "The word equals the value.";
    ne Ne != false "The word differs from the value.";
    gt Gt > false "The word is greater than the value.";
    ge Ge >= false "The word is at least the value.";
    lt Lt < false "The word is less than the value.";
    le Le <= false "The word is at most the value.";
}

/// Relations that a word can be waited on with. A counter only grows, and others may add at any time, so that only `ge`
/// and `gt` are sure to be seen.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be waited on with `{R}`",
    note = "a Counter is added to by anyone, so a wait for an exact count may miss it: use ge(..) or gt(..)"
)]
pub trait Allows<R: Relation>: WaitWord {}
macro_rules! allow_all { ($($word:ty)*) => { $(impl<R: Relation> Allows<R> for Sym<$word> {})* } }
allow_all!(SignalWord u32 i32 u64 i64);
impl Allows<Ge> for Sym<CounterWord> {}
impl Allows<Gt> for Sym<CounterWord> {}

/// Waits until the word stands in the relation, and returns its value: the same in every member, the one that the leader
/// saw. All members call it. Acquires: what was ordered before the observed update is visible to the whole tile.
///
/// OpenSHMEM `shmem_wait_until`, NVSHMEM `nvshmem_signal_wait_until` and its `_warp` and `_block` forms; PTX
/// `ld.acquire.sys` in one lane, then the tile's sync.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 64, || {
///     let arrived = shmem_sim::counters(1).at(0);
///     shmem::signal_op(arrived.add(1), 0);
///     if shmem::my_pe() == 0 {
///         assert_eq!(shmem::wait_until(Block, arrived, ge(128)), 128);
///     }
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn wait_until<G: Tile, W: Allows<R>, R: Relation>(tile: G, word: W, until: Condition<R, W::Value>) -> W::Value {
    wait_by(tile, word, until, || word.__acquire())
}

/// The leader looks at the word until it stands in the relation; then all members have the value.
#[inline(always)]
#[track_caller]
pub(crate) fn wait_by<G: Tile, W: Allows<R>, R: Relation>(
    tile: G,
    word: W,
    until: Condition<R, W::Value>,
    mut look: impl FnMut() -> W::Value,
) -> W::Value {
    let mut seen = 0;
    if !R::EXACT {
        tile.__clear();
    }
    if tile.leader() {
        let watch = arch::watch(word.__address(), size_of::<W::Value>(), R::NAME, W::__bits(until.value));
        arch::spin(&watch, || {
            let value = look();
            seen = W::__bits(value);
            R::holds(value, until.value)
        });
    }
    if R::EXACT {
        tile.sync();
        until.value
    } else {
        W::__value(tile.__tell(seen))
    }
}

/// Calls `ready` until it is true. One thread. Bounded by the time limit and the abort word, and gives way to other lanes
/// in the simulator: the only way to write a waiting loop of one's own.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 1, || {
///     let flags = shmem_sim::signals(2);
///     for pe in 0..2 {
///         shmem::signal_op(flags.at(shmem::my_pe()).set(1), pe);
///     }
///     shmem::spin_until(|| (0..2).all(|pe| shmem::signal_fetch(flags.at(pe)) == 1));
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn spin_until(ready: impl FnMut() -> bool) {
    arch::spin(&arch::watch(0, 0, "", 0), ready);
}
