//! Direct access to a peer's memory, where it is mapped.

use crate::arch::{self, Space, Strength};
use crate::atomic::AtomicAdd;
use crate::scope::Peer;
use crate::team::{self, Target};
use crate::{Pod, Sym, Word};
use core::marker::PhantomData;

/// One element at a PE that this one reaches by load and store: its mapped address, found once.
///
/// Saves looking the PE up again at each access. `p` and `g` do the same accesses and work for every PE. Made by [`ptr`].
pub struct PeerPtr<T> {
    address: u64,
    element: PhantomData<fn() -> T>,
}

impl<T> Clone for PeerPtr<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for PeerPtr<T> {}
impl<T> core::fmt::Debug for PeerPtr<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "PeerPtr({:#x})", self.address)
    }
}

/// The element at PE `to` for direct loads, stores and atomics; None where that PE is not reached by load and store. One
/// thread calls it. Over NVLink every PE is.
///
/// What is stored through it is a memory store: `fence`, `quiet`, `sync` and `barrier` cover it. Faults with
/// `FaultKind::Pe` where the PE does not exist.
///
/// OpenSHMEM `shmem_ptr`, NVSHMEM `nvshmem_ptr`. One load from constant memory.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 32, || {
///     let (x, sums) = (shmem_sim::symmetric::<u32>(32), shmem_sim::symmetric::<u32>(1));
///     let (peer, t) = (1 - shmem::my_pe(), thread::index());
///     if let (Some(x), Some(sum)) = (shmem::ptr(x.at(t), peer), shmem::ptr(sums.at(0), peer)) {
///         x.store(7);
///         assert_eq!(x.load(), 7);
///         sum.word().fetch_add(1);
///     }
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn ptr<T: Pod>(x: Sym<T>, to: impl Target) -> Option<PeerPtr<T>> {
    let base = arch::peer_base(team::checked(to));
    (base != 0).then(|| PeerPtr {
        address: base + x.offset(),
        element: PhantomData,
    })
}

impl<T: Pod> PeerPtr<T> {
    /// Loads the element. One thread calls it. Orders nothing (PTX `ld.relaxed.sys`).
    #[inline(always)]
    #[track_caller]
    pub fn load(self) -> T {
        // SAFETY: `ptr` found it inside a live object, and mapped.
        unsafe { arch::load(self.address, Space::Symmetric, Strength::Relaxed) }
    }

    /// Stores the element, which may be waited on there. One thread calls it. Orders nothing (PTX `st.relaxed.sys`).
    #[inline(always)]
    #[track_caller]
    pub fn store(self, value: T) {
        // SAFETY: as in `load`.
        unsafe { arch::store(self.address, value, Space::Symmetric, Strength::Relaxed) }
    }

    /// The mapped address, for `unsafe` code: another PE may write there at any time, so that no reference to it is sound.
    #[inline(always)]
    pub fn as_ptr(self) -> *mut T {
        self.address as *mut T
    }
}

impl<T: AtomicAdd> PeerPtr<T> {
    /// The element as an atomic word at system scope, with every operation and order of [`Word`].
    ///
    /// ```
    /// use shmem::prelude::*;
    /// shmem_sim::run(1, 1, 8, || {
    ///     let x = shmem_sim::symmetric::<u64>(1).at(0);
    ///     let x = shmem::ptr(x, 0).unwrap().word();
    ///     x.add_release(1);
    ///     shmem::wait_until(Block, x, ge(8));
    /// }).unwrap();
    /// ```
    #[inline(always)]
    pub fn word(self) -> Word<T, Peer> {
        Word::at(self.address)
    }
}
