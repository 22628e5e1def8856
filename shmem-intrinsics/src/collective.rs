//! Collectives: calls that every PE of a team makes.

use crate::arch::{self, Space, Strength};
use crate::fault::{FaultKind, check};
use crate::state::SYNC_SLOTS;
use crate::team::Team;
use crate::tile::Tile;

/// Says that this kernel was launched on every PE together, with a grid that is resident at once. Only
/// `#[kernel(collective)]` gets one, as its first parameter; it is no argument of the launch.
///
/// ```
/// use shmem::prelude::*;
///
/// #[kernel(collective)]
/// pub fn step(all: Collective, dst: SymSlice<u32>) {
///     let me = shmem::my_pe();
///     shmem::p(dst.at(me), me, (me + 1) % shmem::n_pes());
///     all.barrier(Block, shmem::world());
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Collective {
    _launched: (),
}

impl Collective {
    /// For the code that `#[kernel(collective)]` makes.
    ///
    /// # Safety
    /// The kernel was launched by a collective launch.
    #[doc(hidden)]
    pub const unsafe fn __new() -> Self {
        Self { _launched: () }
    }

    /// No PE leaves before all have arrived, and everything that the tile issued before is done. One tile per PE calls it;
    /// its members all call it.
    ///
    /// OpenSHMEM `shmem_barrier_all`, NVSHMEM `nvshmem_barrier` and its `_warp` and `_block` forms. Faults with
    /// `FaultKind::Slot`, `FaultKind::TimeLimit`.
    #[inline(always)]
    #[track_caller]
    pub fn barrier<G: Tile>(self, tile: G, team: Team) {
        meet::<G, true>(tile, team);
    }

    /// No PE leaves before all have arrived. Orders memory stores, but not puts. One tile per PE calls it; its members all
    /// call it.
    ///
    /// ```
    /// use shmem::prelude::*;
    ///
    /// #[kernel(collective)]
    /// pub fn in_step(all: Collective) {
    ///     all.sync(Warp, shmem::world().slot(1));
    /// }
    /// ```
    ///
    /// OpenSHMEM `shmem_sync_all`, NVSHMEM `nvshmem_team_sync`. Faults as [`barrier`](Self::barrier).
    #[inline(always)]
    #[track_caller]
    pub fn sync<G: Tile>(self, tile: G, team: Team) {
        meet::<G, false>(tile, team);
    }
}

/// One flight: every PE tells every other, and the tile's members share the PEs among them.
#[inline(always)]
#[track_caller]
fn meet<G: Tile, const QUIET: bool>(tile: G, team: Team) {
    let (me, n, slot) = (arch::my_pe(), arch::n_pes(), team.slot_number());
    check(
        (slot as usize) < SYNC_SLOTS,
        FaultKind::Slot,
        slot.into(),
        SYNC_SLOTS as u64,
    );
    let words = arch::sync_words() + u64::from(slot) * u64::from(n) * 8;
    let epoch_at = arch::heap_base() + arch::sync_epochs() + u64::from(slot) * 8;
    // SAFETY: the slot's words lie in the system area, which the host laid out for n PEs.
    let epoch = 1 + unsafe { arch::load::<u64>(epoch_at, Space::Symmetric, Strength::Weak) };
    // What the tile did before is ordered ahead of the words that its members set.
    arch::arrive::<G, QUIET>(tile, n);
    // One thread takes its PEs in turn, and leaves itself out.
    let others = |pe: &u32| !G::__LONE || *pe != me;
    for pe in tile.strided(n).filter(others) {
        // SAFETY: as above; PE `pe` has the same layout.
        unsafe { arch::tell::<QUIET>(words + u64::from(me) * 8, epoch, pe) };
    }
    for pe in tile.strided(n).filter(others) {
        let at = arch::heap_base() + words + u64::from(pe) * 8;
        arch::spin(&arch::watch(at, 8, ">=", epoch), || {
            // SAFETY: as above.
            unsafe { arch::load::<u64>(at, Space::Symmetric, Strength::Acquire) >= epoch }
        });
    }
    if tile.leader() {
        // SAFETY: as above. Every member read the old epoch before it arrived.
        unsafe { arch::store(epoch_at, epoch, Space::Symmetric, Strength::Weak) };
    }
    tile.sync();
}
