//! Scopes of atomics on ordinary memory, as types: which threads an access is atomic for, and ordered.
//!
//! | type | threads | PTX | CUDA C++ |
//! |---|---|---|---|
//! | [`Cta`] | of this block | `.cta` | `thread_scope_block` |
//! | [`Gpu`] | of this device | `.gpu` | `thread_scope_device` |
//! | [`System`] | all devices and hosts | `.sys` | `thread_scope_system` |
//!
//! The names are PTX's. The smallest is `Cta`, because `Block` is the tile: one names who is affected, the other who calls.
//! Symmetric words are always at system scope.

use crate::arch;

mod sealed {
    pub trait Sealed {
        const PLACE: crate::arch::Place;
    }
}

/// Where a [`Word`](crate::Word) lies, and for whom it is atomic: a [`Scope`] in device memory,
/// [`CtaShared`], or [`Peer`].
pub trait Place: sealed::Sealed + Copy + 'static {}

/// For whom an access to device memory is atomic.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a scope",
    note = "scopes are the types Cta, Gpu and System of shmem::scope"
)]
pub trait Scope: Place {}

macro_rules! places { ($($(#[doc = $doc:literal])* $name:ident = $place:ident;)*) => { $(
    $(#[doc = $doc])*
    #[derive(Clone, Copy, Debug)]
    pub struct $name;
    impl sealed::Sealed for $name {
        const PLACE: arch::Place = arch::Place::$place;
    }
    impl Place for $name {}
)* } }
places! {
    /// The threads of this block (`.cta`).
    Cta = Cta;
    /// The threads of this device (`.gpu`).
    Gpu = Gpu;
    /// All threads of all devices, and the hosts (`.sys`).
    System = System;
    /// Shared memory of this block, which nobody else reaches (`.cta`).
    CtaShared = Shared;
    /// A peer's symmetric memory, which all reach (`.sys`).
    Peer = Peer;
}
impl Scope for Cta {}
impl Scope for Gpu {}
impl Scope for System {}

/// Orders this thread's loads and stores for the threads in the scope: earlier ones stay ahead of later ones. For
/// ordinary memory; [`shmem::fence`](crate::fence()) is for what goes to PEs. One thread calls it.
///
/// CUDA `__threadfence_block`, `__threadfence`, `__threadfence_system`; PTX `fence.acq_rel`.
///
/// ```
/// use shmem::prelude::*;
/// use shmem::scope::{self, Gpu};
/// shmem_sim::run(1, 2, 1, || {
///     let (data, ready) = (shmem_sim::global::<u32>(1), shmem_sim::global::<u32>(1));
///     let ready = ready.word::<Gpu>(0);
///     if Block.id() == 0 {
///         data.store(0, 7);
///         scope::fence::<Gpu>();
///         ready.store(1);
///     } else {
///         shmem::wait_until(Thread, ready, eq(1));
///         assert_eq!(data.load(0), 7);
///     }
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn fence<S: Scope>() {
    arch::atomic::fence(S::PLACE);
}
