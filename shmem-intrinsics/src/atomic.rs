//! Atomics on symmetric words, at any PE. One thread calls them.
//!
//! | call | types | `nvshmem_TYPE_atomic_` | PTX |
//! |---|---|---|---|
//! | [`fetch`], [`set`] | all | `fetch`, `set` | `ld`, `st` |
//! | [`fetch_add`], [`add`] | all | `fetch_add`, `add` | `atom.add`, `red.add` |
//! | [`swap`] | all | `swap` | `atom.exch` |
//! | [`compare_swap`] | integers | `compare_swap` | `atom.cas` |
//! | [`fetch_inc`], [`inc`] | integers | `fetch_inc`, `inc` | `atom.add`, `red.add` |
//! | [`fetch_and`], [`and`], [`fetch_or`], [`or`], [`fetch_xor`], [`xor`] | integers | the same names | `atom.and`, `red.and`, .. |
//!
//! Integers are i32, u32, i64, u64, and their sums wrap; all types are those and f32, f64, [`F16x2`],
//! [`Bf16x2`]. The halves of a pair are added each by itself: a reader may see one sum without the other.
//! A GPU's f32 sums take subnormal numbers for zero.
//!
//! **Ordering.** They are relaxed and at system scope: atomic with every PE's, and order nothing else. Those without a
//! result are put-like, and `fence` and `quiet` cover them; those with a result return with it. The forms named
//! `_acqrel` acquire and release; where there is no result nothing can be acquired, so that their forms are named
//! `_release`. Releasing covers this thread's memory stores, and puts that a `fence` came after.
//!
//! A value that others wait for can be written by any of these: waits see them. A loop that waits for another thread by
//! itself (a lock, say) must be written with [`spin_until`](crate::spin_until), which is bounded and lets the simulator
//! run the others.
//!
//! All of them fault with `FaultKind::Pe` where the PE does not exist.

use crate::arch::{self, Order, Target as At};
use crate::team::{self, Target};
use crate::{Bf16x2, F16x2, Pod, Sym};

/// How a type adds.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    Integer,
    F32,
    F64,
    F16x2,
    Bf16x2,
}

mod sealed {
    pub trait Sealed {
        const SUM: super::Sum;
    }
}

/// A type with atomic sums: i32, u32, i64, u64, f32, f64, F16x2, Bf16x2.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no atomics",
    label = "not a word of 4 or 8 bytes that a GPU adds to",
    note = "types with atomics are i32, u32, i64, u64, f32, f64, F16x2 and Bf16x2: for a u16 use u32, for an f16 F16x2"
)]
pub trait AtomicAdd: Pod + sealed::Sealed {}

/// A type with all atomics: i32, u32, i64, u64.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no such atomic",
    label = "not an integer of 4 or 8 bytes",
    note = "types with all atomics are i32, u32, i64 and u64 (for a u16 use u32); floats and their pairs have fetch, set, swap, add and fetch_add"
)]
pub trait AtomicInteger: AtomicAdd + From<bool> {}

macro_rules! words { ($($t:ty: $sum:ident;)*) => { $(
    impl sealed::Sealed for $t { const SUM: Sum = Sum::$sum; }
    impl AtomicAdd for $t {}
)* } }
words! {
    i32: Integer;
    u32: Integer;
    i64: Integer;
    u64: Integer;
    f32: F32;
    f64: F64;
    F16x2: F16x2;
    Bf16x2: Bf16x2;
}

macro_rules! integers { ($($t:ty)*) => { $(impl AtomicInteger for $t {})* } }
integers!(i32 u32 i64 u64);

#[inline(always)]
#[track_caller]
fn at<T>(x: Sym<T>, to: impl Target) -> At {
    At::At {
        offset: x.offset(),
        to: team::peer(to),
    }
}

/// The word at PE `to`, now. One thread calls it. Orders nothing.
///
/// OpenSHMEM `shmem_atomic_fetch`, NVSHMEM `nvshmem_TYPE_atomic_fetch`; PTX `ld.relaxed.sys`. Faults with `FaultKind::Pe`.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 1, || {
///     let x = shmem_sim::symmetric_with(1, |pe, _| 10 * pe as i64).at(0);
///     assert_eq!(shmem::fetch(x, 1), 10);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn fetch<T: AtomicAdd>(x: Sym<T>, from: impl Target) -> T {
    // SAFETY: `at` found it inside a live object, which every PE has.
    unsafe { arch::atomic::load(at(x, from), Order::Relaxed) }
}

/// As [`fetch`], and acquires: whatever was released before the value that it returns is visible to this thread.
///
/// PTX `ld.acquire.sys`.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 1, || {
///     let x = shmem_sim::symmetric_with(1, |pe, _| 10 * pe as i64).at(0);
///     assert_eq!(shmem::fetch_acquire(x, 1), 10);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn fetch_acquire<T: AtomicAdd>(x: Sym<T>, from: impl Target) -> T {
    // SAFETY: as in `fetch`.
    unsafe { arch::atomic::load(at(x, from), Order::Acquire) }
}

/// Sets the word at PE `to`. One thread calls it. Put-like; orders nothing.
///
/// OpenSHMEM `shmem_atomic_set`, NVSHMEM `nvshmem_TYPE_atomic_set`; PTX `st.relaxed.sys`. Faults with `FaultKind::Pe`.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(1, 1, 1, || {
///     let x = shmem_sim::symmetric::<f64>(1).at(0);
///     shmem::set(x, 0.5, 0);
///     shmem::quiet(Thread);
///     assert_eq!(shmem::fetch(x, 0), 0.5);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn set<T: AtomicAdd>(x: Sym<T>, value: T, to: impl Target) {
    // SAFETY: as in `fetch`.
    unsafe { arch::atomic::store(at(x, to), value, Order::Relaxed) }
}

/// As [`set`], and releases: whoever acquires the value also sees this thread's earlier memory stores.
///
/// PTX `st.release.sys`.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(1, 1, 1, || {
///     let x = shmem_sim::symmetric::<f64>(1).at(0);
///     shmem::set_release(x, 0.5, 0);
///     shmem::quiet(Thread);
///     assert_eq!(shmem::fetch_acquire(x, 0), 0.5);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn set_release<T: AtomicAdd>(x: Sym<T>, value: T, to: impl Target) {
    // SAFETY: as in `fetch`.
    unsafe { arch::atomic::store(at(x, to), value, Order::Release) }
}

/// The example of an operation on a word that holds 6.
macro_rules! example {
    ($call:expr, $after:literal) => {
        concat!(
            "```\n",
            "use shmem::prelude::*;\n",
            "shmem_sim::run(1, 1, 1, || {\n",
            "    let x = shmem_sim::symmetric_with(1, |_, _| 6u32).at(0);\n",
            "    ",
            $call,
            "\n",
            "    assert_eq!(shmem::fetch(x, 0), ",
            $after,
            ");\n",
            "}).unwrap();\n",
            "```"
        )
    };
}

/// | column | what it is |
/// |---|---|
/// | `fetch_add`, `fetch_add_acqrel` | the function, and the one that acquires and releases |
/// | `(value)` | its operands |
/// | `AtomicAdd` | its types |
/// | `arch` | what it is in `arch::atomic`, with its operands there |
/// | `"3, " => "9"` | an example's operands, and what 6 becomes |
macro_rules! with_result {
    ($($name:ident $acqrel:ident ($($operand:ident),*): $bound:ident = $arch:ident($($value:expr),*), $doc:literal, $api:literal, $ptx:literal, $with:literal => $after:literal;)*) => { $(
        #[doc = concat!($doc, " Returns what it was. One thread calls it. Orders nothing.")]
        #[doc = ""]
        #[doc = concat!("OpenSHMEM `shmem_atomic_", $api, "`, NVSHMEM `nvshmem_TYPE_atomic_", $api, "`; PTX `atom.relaxed.sys.", $ptx, "`. Faults with `FaultKind::Pe`.")]
        #[doc = ""]
        #[doc = example!(concat!("assert_eq!(shmem::", stringify!($name), "(x, ", $with, "0), 6);"), $after)]
        #[inline(always)]
        #[track_caller]
        pub fn $name<T: $bound>(x: Sym<T>, $($operand: T,)* to: impl Target) -> T {
            // SAFETY: `at` found it inside a live object, which every PE has.
            unsafe { arch::atomic::$arch(at(x, to), $($value,)* Order::Relaxed) }
        }

        #[doc = concat!("As [`", stringify!($name), "`], and acquires and releases.")]
        #[doc = ""]
        #[doc = concat!("PTX `atom.acq_rel.sys.", $ptx, "`.")]
        #[doc = ""]
        #[doc = example!(concat!("assert_eq!(shmem::", stringify!($acqrel), "(x, ", $with, "0), 6);"), $after)]
        #[inline(always)]
        #[track_caller]
        pub fn $acqrel<T: $bound>(x: Sym<T>, $($operand: T,)* to: impl Target) -> T {
            // SAFETY: as above.
            unsafe { arch::atomic::$arch(at(x, to), $($value,)* Order::AcqRel) }
        }
    )* };
}
with_result! {
    fetch_add fetch_add_acqrel(value): AtomicAdd = fetch_add(value), "Adds to the word at PE `to`.", "fetch_add", "add", "3, " => "9";
    fetch_inc fetch_inc_acqrel(): AtomicInteger = fetch_add(T::from(true)), "Adds 1 to the word at PE `to`.", "fetch_inc", "add", "" => "7";
    swap swap_acqrel(value): AtomicAdd = swap(value), "Replaces the word at PE `to`.", "swap", "exch", "3, " => "3";
    compare_swap compare_swap_acqrel(expected, value): AtomicInteger = compare_swap(expected, value), "Replaces the word at PE `to` where it equals `expected`.", "compare_swap", "cas", "6, 3, " => "3";
    fetch_and fetch_and_acqrel(mask): AtomicInteger = fetch_and(mask), "Keeps the bits of `mask` of the word at PE `to`.", "fetch_and", "and", "3, " => "2";
    fetch_or fetch_or_acqrel(mask): AtomicInteger = fetch_or(mask), "Sets the bits of `mask` in the word at PE `to`.", "fetch_or", "or", "3, " => "7";
    fetch_xor fetch_xor_acqrel(mask): AtomicInteger = fetch_xor(mask), "Flips the bits of `mask` in the word at PE `to`.", "fetch_xor", "xor", "3, " => "5";
}

/// Columns as in `with_result`; the second function releases.
macro_rules! without_result {
    ($($name:ident $release:ident ($($operand:ident),*): $bound:ident = $arch:ident($($value:expr),*), $doc:literal, $ptx:literal, $with:literal => $after:literal;)*) => { $(
        #[doc = concat!($doc, " One thread calls it. Put-like; orders nothing.")]
        #[doc = ""]
        #[doc = concat!("OpenSHMEM `shmem_atomic_", stringify!($name), "`, NVSHMEM `nvshmem_TYPE_atomic_", stringify!($name), "`; PTX `red.relaxed.sys.", $ptx, "`. Faults with `FaultKind::Pe`.")]
        #[doc = ""]
        #[doc = example!(concat!("shmem::", stringify!($name), "(x, ", $with, "0);\n    shmem::quiet(Thread);"), $after)]
        #[inline(always)]
        #[track_caller]
        pub fn $name<T: $bound>(x: Sym<T>, $($operand: T,)* to: impl Target) {
            // SAFETY: `at` found it inside a live object, which every PE has.
            unsafe { arch::atomic::$arch(at(x, to), $($value,)* Order::Relaxed) }
        }

        #[doc = concat!("As [`", stringify!($name), "`], and releases: whoever acquires the result also sees this thread's earlier memory stores.")]
        #[doc = ""]
        #[doc = concat!("PTX `red.release.sys.", $ptx, "`.")]
        #[doc = ""]
        #[doc = example!(concat!("shmem::", stringify!($release), "(x, ", $with, "0);\n    shmem::quiet(Thread);"), $after)]
        #[inline(always)]
        #[track_caller]
        pub fn $release<T: $bound>(x: Sym<T>, $($operand: T,)* to: impl Target) {
            // SAFETY: as above.
            unsafe { arch::atomic::$arch(at(x, to), $($value,)* Order::Release) }
        }
    )* };
}
without_result! {
    add add_release(value): AtomicAdd = add(value), "Adds to the word at PE `to`.", "add", "3, " => "9";
    inc inc_release(): AtomicInteger = add(T::from(true)), "Adds 1 to the word at PE `to`.", "add", "" => "7";
    and and_release(mask): AtomicInteger = and(mask), "Keeps the bits of `mask` of the word at PE `to`.", "and", "3, " => "2";
    or or_release(mask): AtomicInteger = or(mask), "Sets the bits of `mask` in the word at PE `to`.", "or", "3, " => "7";
    xor xor_release(mask): AtomicInteger = xor(mask), "Flips the bits of `mask` in the word at PE `to`.", "xor", "3, " => "5";
}
