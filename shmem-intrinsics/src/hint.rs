//! Loads and stores that tell the first-level cache what to keep. Hints change speed, never results.
//!
//! | hint | PTX (sm_80) | for |
//! |---|---|---|
//! | [`Streaming`] | `.L1::no_allocate` | data that is touched once |
//! | [`EvictFirst`] | `.L1::evict_first` | data that is soon done with |
//! | [`EvictLast`] | `.L1::evict_last` | data that is used again and again |
//!
//! An element has up to 16 bytes, so that a vector type ([`vector`](crate::vector)) moves 16 bytes in one instruction.

use crate::arch::{self, Space};
use crate::fault::{FaultKind, check};
use crate::{Global, Index, Pod, SymSlice};

/// A cache hint, as a type.
pub trait Hint: Copy {
    #[doc(hidden)]
    const __PRIORITY: Priority;
}

/// What a hint says.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// `.L1::no_allocate`
    NoAllocate,
    /// `.L1::evict_first`
    EvictFirst,
    /// `.L1::evict_last`
    EvictLast,
}

macro_rules! hints { ($($(#[doc = $doc:literal])* $name:ident = $priority:ident;)*) => { $(
    $(#[doc = $doc])*
    #[derive(Clone, Copy, Debug)]
    pub struct $name;
    impl Hint for $name {
        const __PRIORITY: Priority = Priority::$priority;
    }
)* } }
hints! {
    /// Touched once: takes no place in the first-level cache.
    Streaming = NoAllocate;
    /// Soon done with: the first to leave the cache.
    EvictFirst = EvictFirst;
    /// Used again and again: the last to leave the cache.
    EvictLast = EvictLast;
}

macro_rules! hinted { ($($name:ident, $space:expr, $address:ident, $make:ident;)*) => { $(
    impl<T: Pod> $name<T> {
        /// As `load`, with a cache hint: `x.load_hint::<Streaming>(i)`.
        ///
        /// PTX `ld.global.L1::..`. Faults with `FaultKind::Index` where i is outside.
        ///
        /// ```
        /// use shmem::{hint::Streaming, prelude::*};
        /// shmem_sim::run(1, 1, 32, || {
        #[doc = concat!("    let x = shmem_sim::", stringify!($make), "::<u32>(32);")]
        ///     x.store_hint::<Streaming>(thread::index(), 5);
        ///     assert_eq!(x.load_hint::<Streaming>(thread::index()), 5);
        /// }).unwrap();
        /// ```
        #[inline(always)]
        #[track_caller]
        pub fn load_hint<H: Hint>(self, i: impl Index) -> T {
            let at = $address(self, i.index());
            // SAFETY: inside the object, which the launch checked to be live.
            unsafe { arch::load_hint::<T, H>(at, $space) }
        }

        /// As `store`, with a cache hint.
        ///
        /// PTX `st.global.L1::..`. Faults with `FaultKind::Index` where i is outside.
        #[inline(always)]
        #[track_caller]
        pub fn store_hint<H: Hint>(self, i: impl Index, value: T) {
            let at = $address(self, i.index());
            // SAFETY: as in `load_hint`.
            unsafe { arch::store_hint::<T, H>(at, value, $space) }
        }
    }
)* } }
hinted! {
    Global, Space::Global, global_address, global;
    SymSlice, Space::Symmetric, symmetric_address, symmetric;
}

#[inline(always)]
#[track_caller]
fn global_address<T>(x: Global<T>, i: u64) -> u64 {
    check(i < x.len(), FaultKind::Index, i, x.len());
    x.start() + i * size_of::<T>() as u64
}

#[inline(always)]
#[track_caller]
fn symmetric_address<T>(x: SymSlice<T>, i: u64) -> u64 {
    x.at(i).address()
}
