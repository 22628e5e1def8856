//! Collectives: calls that every PE of a team makes.
//!
//! | call | what a member gets | in place | NVSHMEM |
//! |---|---|---|---|
//! | [`barrier`](Collective::barrier), [`sync`](Collective::sync) | nobody goes before all have come | | `nvshmem_barrier`, `nvshmem_team_sync` |
//! | [`broadcast`](Collective::broadcast) | the root's elements | `dst` is `src` | `nvshmem_TYPE_broadcast` |
//! | [`fcollect`](Collective::fcollect) | everyone's, one after the other | `src` is one's own part of `dst` | `nvshmem_TYPE_fcollect` |
//! | [`alltoall`](Collective::alltoall), [`alltoallv`](Collective::alltoallv) | from everyone the part for it | no | `nvshmem_TYPE_alltoall` |
//! | [`reduce`](Collective::reduce) | everyone's, combined | `dst` is `src` | `nvshmem_TYPE_sum_reduce`, .. |
//! | [`reduce_to`](Collective::reduce_to) | the root alone: everyone's, combined | `dst` is `src` | |
//! | [`reduce_scatter`](Collective::reduce_scatter) | its part of them, combined | `dst` is one's own part of `src` | `nvshmem_TYPE_sum_reducescatter`, .. |
//!
//! What all of them have in common:
//! - One tile of each member calls it, with all its threads, on the same slot of the team with the same lengths, operation, root and
//!   [`Algorithm`]. The tiles need not be of one kind. One collective is in flight per slot.
//! - What the tile did before is part of the source, without a sync. `dst` may be written as soon as its PE has called.
//! - At return the result is visible to the tile, and `src` and `dst` may be written again. Nothing else is ordered or done.
//! - Calls that give no elements return at once.
//! - Results are the same bits on every member and in every run, whatever the algorithm, tile and block size: members are
//!   combined in the order of their indices.
//! - Faults: `FaultKind::Length` where lengths don't fit each other, `FaultKind::Pe` where there is no such root,
//!   `FaultKind::Overlap` where source and destination overlap otherwise than in place, `FaultKind::Slot`,
//!   `FaultKind::TimeLimit`; `FaultKind::Epoch` where members were seen to make different calls.

// The calls are inlined on GPUs, as every convergent call is. On the host they are not: a lane's stack is small, and a build
// without optimisation would give each inlined call a place of its own on it.
mod alltoall;
mod alltoallv;
mod boxes;
mod broadcast;
#[doc(hidden)]
pub mod by_blocks;
mod choice;
mod fcollect;
mod lines;
mod op;
mod reduce;
mod reduce_scatter;
mod reduce_to;

pub use alltoallv::Part;
pub use choice::{Algorithm, room};
pub use op::{And, Max, Min, Or, Prod, ReduceOp, Sum, Xor};

use crate::arch::{self, Space, Strength};
use crate::fault::{FaultKind, check};
use crate::state::{SYNC_SLOTS, TeamBlock};
use crate::team::Team;
use crate::tile::{Grid, Tile};
use crate::{Pod, SymSlice};

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
    slot: u32,
    algorithm: Option<Algorithm>,
}

impl Collective {
    /// For the code that `#[kernel(collective)]` makes.
    ///
    /// # Safety
    /// The kernel was launched by a collective launch, and no other kernel in flight on this PE has the same number, which
    /// is below [`GRID_SLOTS`](crate::state::GRID_SLOTS).
    #[doc(hidden)]
    #[inline(always)]
    pub const unsafe fn __new(slot: u32) -> Self {
        Self { slot, algorithm: None }
    }

    /// The same calls by this algorithm, where they have it and it has room; every member says the same. Without it, the
    /// size decides.
    ///
    /// ```
    /// use shmem::collective::{Algorithm, Sum};
    /// use shmem::prelude::*;
    /// shmem_sim::run(3, 1, 32, || {
    ///     let x = shmem_sim::symmetric::<u32>(100);
    ///     let all = shmem_sim::collective();
    ///     all.by(Algorithm::TwoShot).reduce(Block, shmem::world(), Sum, x, x);
    /// }).unwrap();
    /// ```
    #[inline(always)]
    #[must_use]
    pub const fn by(self, algorithm: Algorithm) -> Self {
        Self {
            algorithm: Some(algorithm),
            ..self
        }
    }

    /// All threads of this PE's grid, as a tile: `put(all.grid(), ..)`, `all.barrier(all.grid(), ..)`.
    ///
    /// CUDA `this_grid()` of a cooperative launch.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// shmem_sim::run(2, 4, 32, || {
    ///     let (dst, src) = (shmem_sim::symmetric::<u32>(1000), shmem_sim::symmetric::<u32>(1000));
    ///     let grid = shmem_sim::collective().grid();
    ///     for i in grid.strided(1000) {
    ///         src.store(i, i);
    ///     }
    ///     grid.sync();
    ///     shmem::put(grid, dst, src, 1 - shmem::my_pe());
    ///     shmem_sim::collective().barrier(grid, shmem::world());
    ///     assert_eq!(dst.load(grid.rank()), grid.rank());
    /// }).unwrap();
    /// ```
    #[inline(always)]
    pub fn grid(self) -> Grid {
        Grid::new(self.slot)
    }

    /// No PE of the team leaves before all have arrived, and everything that the tile issued before in the default context
    /// is done. One tile per PE calls it; its members all call it.
    ///
    /// OpenSHMEM `shmem_barrier_all`, NVSHMEM `nvshmem_barrier` and its `_warp` and `_block` forms. Faults with
    /// `FaultKind::Slot`, `FaultKind::TimeLimit`.
    #[inline(always)]
    #[track_caller]
    pub fn barrier<G: Tile>(self, tile: G, team: Team) {
        meet::<G, true>(tile, team);
    }

    /// No PE of the team leaves before all have arrived. Orders memory stores, but not puts. One tile per PE calls it; its
    /// members all call it.
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
    #[cfg(all(shmem_timeline, target_arch = "nvptx64"))]
    let _span = arch::timeline::begin_tile(tile, crate::timeline::Kind::Barrier, crate::timeline::NO_PEER, 0);
    let (me, n, slot) = (team.my_pe(), team.n_pes(), team.slot_number());
    check(
        (slot as usize) < SYNC_SLOTS,
        FaultKind::Slot,
        slot.into(),
        SYNC_SLOTS as u64,
    );
    let start = team.sync_offset();
    let words = start + TeamBlock::WORDS + u64::from(slot) * u64::from(n) * 8;
    let epoch_at = arch::heap_base() + start + TeamBlock::SYNC_EPOCHS + u64::from(slot) * 8;
    // SAFETY: the slot's words lie where the host laid them out for n PEs (`state::TeamBlock`).
    let epoch = 1 + unsafe { arch::load::<u64>(epoch_at, Space::Symmetric, Strength::Weak) };
    // What the tile did before is ordered ahead of the words that its members set.
    arch::arrive::<G, QUIET>(tile, n);
    // One thread takes the others in turn, and leaves itself out.
    let others = |index: &u32| !G::__LONE || *index != me;
    for index in tile.strided(n).filter(others) {
        // SAFETY: as above; every member has the same layout.
        unsafe { arch::tell::<QUIET>(words + u64::from(me) * 8, epoch, team.member(index)) };
    }
    for index in tile.strided(n).filter(others) {
        let at = arch::heap_base() + words + u64::from(index) * 8;
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

/// Tells the simulator what this member calls, so that it sees where another one makes another call.
#[cfg(not(target_arch = "nvptx64"))]
#[track_caller]
fn begin<G: Tile, T>(all: Collective, tile: G, team: Team, name: &'static str, op: &'static str, len: u64, root: u32) {
    if tile.leader() {
        let call = crate::hook::CollectiveCall {
            name,
            team: team.sync_offset(),
            serial: team.serial(),
            slot: team.slot_number(),
            me: team.my_pe(),
            n: team.n_pes(),
            first: team.member(0),
            len,
            element: size_of::<T>() as u32,
            root,
            op,
            algorithm: all.algorithm,
        };
        let at = core::panic::Location::caller();
        crate::hook::current().machine.begin_collective(&call, at);
    }
}

/// On a GPU nobody looks.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
fn begin<G: Tile, T>(_: Collective, _: G, _: Team, _: &'static str, _: &'static str, _: u64, _: u32) {}

/// Faults unless two objects are apart, or the same run where the call may be in place.
#[inline(always)]
#[track_caller]
fn check_apart<T: Pod>(dst: SymSlice<T>, src: SymSlice<T>, in_place: Option<SymSlice<T>>) {
    let end = |x: SymSlice<T>| x.offset() + x.len() * size_of::<T>() as u64;
    let apart = end(dst) <= src.offset() || end(src) <= dst.offset();
    let same = in_place.is_some_and(|place| place.offset() == dst.offset());
    check(apart || same, FaultKind::Overlap, dst.offset(), src.offset());
}

/// Faults unless the team has a member of this index.
#[inline(always)]
#[track_caller]
fn check_root(team: Team, root: u32) {
    check(root < team.n_pes(), FaultKind::Pe, root.into(), team.n_pes().into());
}

/// This PE's run as pieces of packets.
#[inline(always)]
fn pieces_of<T: Pod>(x: SymSlice<T>) -> boxes::Pieces {
    boxes::Pieces {
        address: arch::heap_base() + x.offset(),
        bytes: bytes_of(x) as u32,
    }
}

#[inline(always)]
fn bytes_of<T: Pod>(x: SymSlice<T>) -> u64 {
    x.len() * size_of::<T>() as u64
}
