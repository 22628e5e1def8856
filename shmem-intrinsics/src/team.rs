//! Who: the PEs of the world, and how a call names one of them.

use crate::arch;
use crate::fault::{FaultKind, check};

/// This PE's number in the world, `0..n_pes()`.
///
/// OpenSHMEM `shmem_my_pe`, NVSHMEM `nvshmem_my_pe`. One load from constant memory.
///
/// ```
/// shmem_sim::run(4, 1, 1, || assert!(shmem::my_pe() < shmem::n_pes())).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn my_pe() -> u32 {
    arch::my_pe()
}

/// How many PEs the world has. Never 0, and the compiler knows: `% n_pes()` has no check for a zero divisor.
///
/// OpenSHMEM `shmem_n_pes`, NVSHMEM `nvshmem_n_pes`. One load from constant memory.
///
/// ```
/// shmem_sim::run(3, 1, 1, || assert_eq!(shmem::n_pes(), 3)).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn n_pes() -> u32 {
    let n = arch::n_pes();
    // SAFETY: the host makes no world without PEs.
    unsafe { core::hint::assert_unchecked(n != 0) };
    n
}

/// The PE that a call is for. A number outside the world is a fault ([`FaultKind::Pe`]).
///
/// ```
/// use shmem::prelude::*;
///
/// /// A PE by its place in a grid of PEs.
/// #[derive(Clone, Copy)]
/// struct At(u32, u32);
/// impl Target for At {
///     fn pe(self) -> u32 {
///         self.0 + 2 * self.1
///     }
/// }
/// shmem_sim::run(4, 1, 1, || {
///     let x = shmem_sim::symmetric::<u32>(1);
///     shmem::p(x.at(0), 1, At(1, 1));
/// }).unwrap();
/// ```
pub trait Target: Copy {
    /// Its number in the world.
    fn pe(self) -> u32;
}

impl Target for u32 {
    #[inline(always)]
    fn pe(self) -> u32 {
        self
    }
}

/// The number of a target that was found to be in the world.
#[inline(always)]
#[track_caller]
pub(crate) fn checked(to: impl Target) -> u32 {
    let pe = to.pe();
    let n = arch::n_pes();
    check(pe < n, FaultKind::Pe, u64::from(pe), u64::from(n));
    pe
}

/// PEs that do collectives together, and the slot that a collective uses. One collective may be in flight per slot.
#[derive(Clone, Copy, Debug)]
pub struct Team {
    slot: u32,
}

/// The team of all PEs, at slot 0.
///
/// ```
/// use shmem::prelude::*;
/// // Two warps of a block in barriers of their own: each uses a slot of its own.
/// fn two_barriers(all: Collective) {
///     let team = shmem::world().slot(1 + Warp.id());
///     all.barrier(Warp, team);
/// }
/// ```
pub fn world() -> Team {
    Team { slot: 0 }
}

impl Team {
    /// The same team at another slot, `0..SYNC_SLOTS`; slot 0 is also what a stream's barrier uses.
    /// A larger number is a fault ([`FaultKind::Slot`]) when a collective uses it.
    ///
    /// ```
    /// let team = shmem::world().slot(3);
    /// # let _ = team;
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn slot(self, slot: u32) -> Self {
        Self { slot }
    }

    #[inline(always)]
    pub(crate) fn slot_number(self) -> u32 {
        self.slot
    }
}
