//! Words of ordinary memory that threads share: atomics with the scope in the type and the order in the name.

use crate::arch::{self, Order, Target};
use crate::atomic::{AtomicAdd, AtomicInteger};
use crate::scope::{CtaShared, Place, Scope};
use crate::wait::{Allows, Relation, WaitWord};
use crate::{Global, Index, Shared};
use core::marker::PhantomData;

/// One word of a [`Global`], a [`Shared`] or a peer ([`PeerPtr::word`](crate::PeerPtr::word)) as an atomic, for the threads
/// in the scope of `S`. Can be waited on.
///
/// Take a `Sym` and the functions of [`atomic`](crate::atomic) where another PE is to reach the word.
///
/// | methods | types | orders | PTX |
/// |---|---|---|---|
/// | `load` | all | relaxed, `_acquire` | `ld` |
/// | `store` | all | relaxed, `_release` | `st` |
/// | `fetch_add`, `swap` | all | relaxed, `_acquire`, `_release`, `_acqrel` | `atom` |
/// | `compare_swap`, `fetch_and`, `fetch_or`, `fetch_xor` | integers | the same | `atom` |
/// | `add` | all | relaxed, `_release` | `red` |
/// | `and`, `or`, `xor` | integers | relaxed, `_release` | `red` |
///
/// Relaxed accesses are atomic and order nothing else. The types are those of [`AtomicAdd`] and [`AtomicInteger`].
///
/// ```
/// use shmem::prelude::*;
/// use shmem::scope::Gpu;
/// shmem_sim::run(1, 4, 32, || {
///     let tickets = shmem_sim::global::<u32>(1).word::<Gpu>(0);
///     let mine = tickets.fetch_add(1);
///     assert!(mine < 128);
///     assert!(shmem::wait_until(Warp, tickets, ge(128)) == 128);
/// }).unwrap();
/// ```
pub struct Word<T, S> {
    address: u64,
    place: PhantomData<fn() -> (T, S)>,
}

impl<T, S> Clone for Word<T, S> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, S> Copy for Word<T, S> {}
impl<T, S> core::fmt::Debug for Word<T, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Word({:#x})", self.address)
    }
}

impl<T: AtomicAdd> Global<T> {
    /// Element i as an atomic for the threads in the scope. Faults with `FaultKind::Index` where i is outside.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// use shmem::scope::Gpu;
    /// shmem_sim::run(1, 2, 32, || {
    ///     let sum = shmem_sim::global::<f32>(1).word::<Gpu>(0);
    ///     sum.add(0.5);
    /// }).unwrap();
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn word<S: Scope>(self, i: impl Index) -> Word<T, S> {
        Word::at(self.position(i))
    }
}

impl<T: AtomicAdd> Shared<T> {
    /// Element i as an atomic for the threads of the block. Faults with `FaultKind::Index` where i is outside.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// shmem_sim::run(1, 1, 64, || {
    ///     shared!(count: [u32; 1]);
    ///     if Block.leader() {
    ///         count.store(0, 0);
    ///     }
    ///     Block.sync();
    ///     count.word(0).add(1);
    ///     Block.sync();
    ///     assert_eq!(count.load(0), 64);
    /// }).unwrap();
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn word(self, i: impl Index) -> Word<T, CtaShared> {
        Word::at(self.position(i))
    }
}

impl<T, S: Place> Word<T, S> {
    /// The word at an address, which is that of a live element.
    #[inline(always)]
    pub(crate) fn at(address: u64) -> Self {
        Self {
            address,
            place: PhantomData,
        }
    }

    #[inline(always)]
    fn target(self) -> Target {
        Target::Here {
            address: self.address,
            place: S::PLACE,
        }
    }
}

/// The example of an operation on a word that holds 6.
macro_rules! example {
    ($call:expr, $after:literal) => {
        concat!(
            "```\n",
            "use shmem::prelude::*;\n",
            "use shmem::scope::Gpu;\n",
            "shmem_sim::run(1, 1, 1, || {\n",
            "    let x = shmem_sim::global::<u32>(1).word::<Gpu>(0);\n",
            "    x.store(6);\n",
            "    ",
            $call,
            "\n",
            "    assert_eq!(x.load(), ",
            $after,
            ");\n",
            "}).unwrap();\n",
            "```"
        )
    };
}

/// One method.
macro_rules! method {
    ($name:ident $order:ident $orders:literal ($($operand:ident),*) -> T, $arch:ident $doc:literal $with:literal $after:literal) => {
        #[doc = concat!($doc, " Returns what it was. One thread calls it. ", $orders)]
        #[doc = ""]
        #[doc = example!(concat!("assert_eq!(x.", stringify!($name), "(", $with, "), 6);"), $after)]
        #[inline(always)]
        #[track_caller]
        pub fn $name(self, $($operand: T),*) -> T {
            // SAFETY: `word` or `ptr` found it inside a live object.
            unsafe { arch::atomic::$arch(self.target(), $($operand,)* Order::$order) }
        }
    };
    ($name:ident $order:ident $orders:literal ($operand:ident), $arch:ident $doc:literal $with:literal $after:literal) => {
        #[doc = concat!($doc, " One thread calls it. ", $orders)]
        #[doc = ""]
        #[doc = example!(concat!("x.", stringify!($name), "(", $with, ");"), $after)]
        #[inline(always)]
        #[track_caller]
        pub fn $name(self, $operand: T) {
            // SAFETY: as above.
            unsafe { arch::atomic::$arch(self.target(), $operand, Order::$order) }
        }
    };
}

/// A method for each name in brackets, of that order; then operands, what it returns, the function of `arch::atomic`, what
/// it does, an example's operands and what 6 becomes.
macro_rules! methods {
    () => {};
    ([$($name:ident $order:ident $orders:literal),*] $operands:tt -> T, $arch:ident $doc:literal $with:literal => $after:literal; $($rest:tt)*) => {
        $(method!($name $order $orders $operands -> T, $arch $doc $with $after);)*
        methods!($($rest)*);
    };
    ([$($name:ident $order:ident $orders:literal),*] $operands:tt, $arch:ident $doc:literal $with:literal => $after:literal; $($rest:tt)*) => {
        $(method!($name $order $orders $operands, $arch $doc $with $after);)*
        methods!($($rest)*);
    };
}

impl<T: AtomicAdd, S: Place> Word<T, S> {
    methods! {
        [load Relaxed "Relaxed.", load_acquire Acquire "Acquires."]
            () -> T, load "Reads the word." "" => "6";
        [store Relaxed "Relaxed.", store_release Release "Releases."]
            (value), store "Sets the word." "3" => "3";
        [swap Relaxed "Relaxed.", swap_acquire Acquire "Acquires.", swap_release Release "Releases.", swap_acqrel AcqRel "Acquires and releases."]
            (value) -> T, swap "Replaces the word." "3" => "3";
        [fetch_add Relaxed "Relaxed.", fetch_add_acquire Acquire "Acquires.", fetch_add_release Release "Releases.", fetch_add_acqrel AcqRel "Acquires and releases."]
            (value) -> T, fetch_add "Adds to the word." "3" => "9";
        [add Relaxed "Relaxed.", add_release Release "Releases."]
            (value), add "Adds to the word." "3" => "9";
    }
}

impl<T: AtomicInteger, S: Place> Word<T, S> {
    methods! {
        [compare_swap Relaxed "Relaxed.", compare_swap_acquire Acquire "Acquires.", compare_swap_release Release "Releases.", compare_swap_acqrel AcqRel "Acquires and releases."]
            (expected, value) -> T, compare_swap "Replaces the word where it equals `expected`." "6, 3" => "3";
        [fetch_and Relaxed "Relaxed.", fetch_and_acquire Acquire "Acquires.", fetch_and_release Release "Releases.", fetch_and_acqrel AcqRel "Acquires and releases."]
            (mask) -> T, fetch_and "Keeps the bits of `mask`." "3" => "2";
        [and Relaxed "Relaxed.", and_release Release "Releases."]
            (mask), and "Keeps the bits of `mask`." "3" => "2";
        [fetch_or Relaxed "Relaxed.", fetch_or_acquire Acquire "Acquires.", fetch_or_release Release "Releases.", fetch_or_acqrel AcqRel "Acquires and releases."]
            (mask) -> T, fetch_or "Sets the bits of `mask`." "3" => "7";
        [or Relaxed "Relaxed.", or_release Release "Releases."]
            (mask), or "Sets the bits of `mask`." "3" => "7";
        [fetch_xor Relaxed "Relaxed.", fetch_xor_acquire Acquire "Acquires.", fetch_xor_release Release "Releases.", fetch_xor_acqrel AcqRel "Acquires and releases."]
            (mask) -> T, fetch_xor "Flips the bits of `mask`." "3" => "5";
        [xor Relaxed "Relaxed.", xor_release Release "Releases."]
            (mask), xor "Flips the bits of `mask`." "3" => "5";
    }
}

macro_rules! wait_words { ($($t:ident)*) => { $(
    impl<S: Place> WaitWord for Word<$t, S> {
        type Value = $t;
        #[inline(always)]
        #[track_caller]
        fn __acquire(self) -> $t { self.load_acquire() }
        #[inline(always)]
        fn __address(self) -> u64 { self.address }
        #[inline(always)]
        fn __bits(value: $t) -> u64 { value as u64 }
        #[inline(always)]
        fn __value(bits: u64) -> $t { bits as $t }
    }
    impl<S: Place, R: Relation> Allows<R> for Word<$t, S> {}
)* } }
wait_words!(u32 i32 u64 i64);
