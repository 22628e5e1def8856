//! Who: the PEs of the world and of its teams, and how a call names one of them.

use crate::arch::{self, Space, Strength};
use crate::fault::{FaultKind, check};
use crate::state::TeamBlock;
use crate::{KernelArg, Serial};

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

/// The PE that a call is for: its number in the world, `(team, index)`, or either of them through a context
/// ([`Ctx::to`](crate::Ctx::to)). A number outside the world, and an index outside the team, are faults ([`FaultKind::Pe`]).
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
///     let x = shmem_sim::symmetric::<u32>(4);
///     shmem::p(x.at(shmem::my_pe()), 1, At(1, 1));
/// }).unwrap();
/// ```
pub trait Target: Copy {
    /// Its number in the world.
    #[track_caller]
    fn pe(self) -> u32;

    /// The number of the context that the operation belongs to.
    #[doc(hidden)]
    #[inline(always)]
    fn __ctx(self) -> u32 {
        crate::context::DEFAULT
    }
}

impl Target for u32 {
    #[inline(always)]
    fn pe(self) -> u32 {
        self
    }
}

impl Target for (Team, u32) {
    #[inline(always)]
    #[track_caller]
    fn pe(self) -> u32 {
        self.0.translate(self.1)
    }
}

/// A PE of the world, and the context in which an operation reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its number in the world.
    pub pe: u32,
    /// The context; 0 is the default one.
    pub ctx: u32,
}

/// A target that was found to be in the world.
#[inline(always)]
#[track_caller]
pub(crate) fn peer(to: impl Target) -> Peer {
    Peer {
        pe: checked(to),
        ctx: to.__ctx(),
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

/// PEs that do collectives together, numbered 0, 1, .. within the team. Every kernel has [`world()`] and [`node()`]; others
/// the host makes by splitting one (`team.split_strided`, `split_2d`, `split`), and passes as arguments. A value of 40 bytes.
/// It also names the slot that a collective uses: one collective may be in flight per slot of a team.
///
/// A team of every k-th PE keeps its members as first, stride and number; of other teams a call reads the member's number
/// from a table in this PE's memory.
///
/// OpenSHMEM `shmem_team_t`, NVSHMEM `nvshmem_team_t`.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(4, 1, 1, || {
///     let x = shmem_sim::symmetric::<u32>(1);
///     let team = shmem::node();
///     let right = team.pe((team.my_pe() + 1) % team.n_pes());
///     shmem::p(x.at(0), 7, right);
/// }).unwrap();
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Team {
    /// Offset of its [`TeamBlock`] in the heap, the same on every member. It begins with its sync words.
    sync: u64,
    start: u32,
    /// 0: the members are those in the block.
    stride: u32,
    n_pes: u32,
    my_pe: u32,
    slot: u32,
    /// Spelt out, so that no byte of an argument is undefined.
    unused: u32,
    serial: Serial,
}

// SAFETY: numbers; those that reach memory were laid out by the library, which alone makes teams, and the launch checks that
// the team is live.
unsafe impl KernelArg for Team {
    #[cfg(not(target_arch = "nvptx64"))]
    fn regions(&self, visit: &mut dyn FnMut(crate::Region)) {
        visit(crate::Region::Team { serial: self.serial });
    }
}

/// The team of all PEs, at slot 0.
///
/// OpenSHMEM `SHMEM_TEAM_WORLD`, NVSHMEM `NVSHMEM_TEAM_WORLD`.
///
/// ```
/// use shmem::prelude::*;
/// // Two warps of a block in barriers of their own: each uses a slot of its own.
/// shmem_sim::run(2, 1, 64, || {
///     let team = shmem::world().slot(1 + Warp.id());
///     shmem_sim::collective().barrier(Warp, team);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn world() -> Team {
    Team {
        sync: arch::world_sync(),
        start: 0,
        stride: 1,
        n_pes: n_pes(),
        my_pe: my_pe(),
        slot: 0,
        unused: 0,
        serial: Serial::NONE,
    }
}

/// The team of the PEs that this PE reaches by load and store on its host, at slot 0. Today these are all PEs.
///
/// OpenSHMEM `SHMEM_TEAM_SHARED`, NVSHMEM `NVSHMEMX_TEAM_NODE`.
///
/// ```
/// shmem_sim::run(2, 1, 1, || {
///     let node = shmem::node();
///     assert_eq!(node.translate(node.my_pe()), shmem::my_pe());
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn node() -> Team {
    let start = arch::node_start();
    Team {
        sync: arch::node_sync(),
        start,
        stride: 1,
        n_pes: arch::node_size(),
        my_pe: my_pe().wrapping_sub(start),
        slot: 0,
        unused: 0,
        serial: Serial::NONE,
    }
}

impl Team {
    /// In the place of a team on a PE that is in none.
    pub(crate) const NOBODY: Self = Self {
        sync: 0,
        start: 0,
        stride: 1,
        n_pes: 0,
        my_pe: 0,
        slot: 0,
        unused: 0,
        serial: Serial::NONE,
    };

    /// For the host and the simulator: a team whose sync words lie at this offset of the heap, of these PEs, of which this
    /// one has the index `my_pe`. Unless the members are evenly spaced, the words begin a [`TeamBlock`].
    #[doc(hidden)]
    #[cfg(not(target_arch = "nvptx64"))]
    #[must_use]
    pub fn __new(sync: u64, members: &[u32], my_pe: u32, serial: Serial) -> Self {
        let stride = match members {
            [_] => Some(1),
            [first, second, ..] => second.checked_sub(*first).filter(|&stride| stride > 0),
            [] => panic!("a team has members"),
        };
        let even = |stride: &u32| members.windows(2).all(|pair| pair[1] == pair[0] + stride);
        Self {
            sync,
            start: members[0],
            stride: stride.filter(even).unwrap_or(0),
            n_pes: members.len() as u32,
            my_pe,
            slot: 0,
            unused: 0,
            serial,
        }
    }

    /// Whether it stands for a team.
    #[inline(always)]
    pub(crate) fn has_members(self) -> bool {
        self.n_pes != 0
    }

    /// This PE's index in the team.
    ///
    /// OpenSHMEM `shmem_team_my_pe`, NVSHMEM `nvshmem_team_my_pe`.
    ///
    /// ```
    /// shmem_sim::run(3, 1, 1, || assert_eq!(shmem::world().my_pe(), shmem::my_pe())).unwrap();
    /// ```
    #[inline(always)]
    pub fn my_pe(self) -> u32 {
        self.my_pe
    }

    /// How many PEs the team has. Never 0.
    ///
    /// OpenSHMEM `shmem_team_n_pes`, NVSHMEM `nvshmem_team_n_pes`.
    ///
    /// ```
    /// shmem_sim::run(3, 1, 1, || assert_eq!(shmem::world().n_pes(), 3)).unwrap();
    /// ```
    #[inline(always)]
    pub fn n_pes(self) -> u32 {
        // SAFETY: this PE is a member.
        unsafe { core::hint::assert_unchecked(self.n_pes != 0) };
        self.n_pes
    }

    /// The number in the world of the PE of this index. Faults with `FaultKind::Pe`, the index and the team's size, where
    /// there is none.
    ///
    /// OpenSHMEM `shmem_team_translate_pe` to the world, NVSHMEM `nvshmem_team_translate_pe`.
    ///
    /// ```
    /// shmem_sim::run(3, 1, 1, || {
    ///     assert_eq!(shmem::world().translate(2), 2);
    ///     if let Some(team) = shmem_sim::team(&[2, 0]) {
    ///         assert_eq!(team.translate(0), 2);
    ///     }
    /// }).unwrap();
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn translate(self, index: u32) -> u32 {
        check(
            index < self.n_pes,
            FaultKind::Pe,
            u64::from(index),
            u64::from(self.n_pes),
        );
        self.member(index)
    }

    /// The index in another team of the PE that has this one here; None where it is in only one of them, or in none.
    ///
    /// OpenSHMEM `shmem_team_translate_pe`, NVSHMEM `nvshmem_team_translate_pe`.
    ///
    /// ```
    /// shmem_sim::run(3, 1, 1, || {
    ///     let (world, node) = (shmem::world(), shmem::node());
    ///     assert_eq!(world.translate_to(shmem::my_pe(), node), Some(node.my_pe()));
    ///     assert_eq!(node.translate_to(node.n_pes(), world), None);
    /// }).unwrap();
    /// ```
    #[inline(always)]
    pub fn translate_to(self, index: u32, other: Self) -> Option<u32> {
        if index >= self.n_pes {
            return None;
        }
        other.index_of(self.member(index))
    }

    /// The index of a PE of the world.
    #[inline(always)]
    fn index_of(self, pe: u32) -> Option<u32> {
        if self.stride == 0 {
            // SAFETY: the block has an index for each PE of the world.
            let index = unsafe { self.listed(TeamBlock::indices(self.n_pes), pe) };
            return (index != TeamBlock::NONE).then_some(index);
        }
        let beyond = pe.checked_sub(self.start)?;
        let index = beyond / self.stride;
        (beyond.is_multiple_of(self.stride) && index < self.n_pes).then_some(index)
    }

    /// The PE of this index, for a call: `put(Block, dst, src, team.pe(i))`, the same as `(team, i)`.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// shmem_sim::run(2, 1, 1, || {
    ///     let x = shmem_sim::symmetric::<u32>(2);
    ///     shmem::p(x.at(shmem::my_pe()), 1, shmem::world().pe(1));
    /// }).unwrap();
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn pe(self, index: u32) -> (Self, u32) {
        (self, index)
    }

    /// The same team at another slot, `0..SYNC_SLOTS`; slot 0 of the world is also what a stream's barrier uses.
    /// A larger number is a fault ([`FaultKind::Slot`]) when a collective uses it.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// shmem_sim::run(2, 1, 32, || shmem_sim::collective().sync(Warp, shmem::node().slot(3))).unwrap();
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn slot(self, slot: u32) -> Self {
        Self { slot, ..self }
    }

    #[inline(always)]
    pub(crate) fn slot_number(self) -> u32 {
        self.slot
    }

    /// For the host, which refuses a slot that there is not.
    #[doc(hidden)]
    #[cfg(not(target_arch = "nvptx64"))]
    #[must_use]
    pub fn __slot(self) -> u32 {
        self.slot
    }

    #[cfg(not(target_arch = "nvptx64"))]
    pub(crate) fn serial(self) -> Serial {
        self.serial
    }

    #[inline(always)]
    pub(crate) fn sync_offset(self) -> u64 {
        self.sync
    }

    /// The number in the world of a member. `index` is below `n_pes`.
    #[inline(always)]
    pub(crate) fn member(self, index: u32) -> u32 {
        if self.stride == 0 {
            // SAFETY: the block has so many members.
            return unsafe { self.listed(TeamBlock::members(self.n_pes), index) };
        }
        self.start + index * self.stride
    }

    /// Entry `i` of a table of this PE's block.
    ///
    /// # Safety
    /// The team has a block, and the table that begins there has such an entry.
    #[inline(always)]
    unsafe fn listed(self, table: u64, i: u32) -> u32 {
        let at = arch::heap_base() + self.sync + table + u64::from(i) * 4;
        // SAFETY: the caller's promise; the host wrote the block before any kernel got the team.
        unsafe { arch::load(at, Space::Symmetric, Strength::Weak) }
    }
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::Team;

    fn team(start: u32, stride: u32, n_pes: u32) -> Team {
        Team {
            start,
            stride,
            n_pes,
            ..Team::NOBODY
        }
    }

    #[test]
    fn evenly_spaced_members_need_no_table() {
        let of = |members: &[u32]| {
            let team = Team::__new(0, members, 0, super::Serial::NONE);
            (team.start, team.stride, team.n_pes)
        };
        assert_eq!(of(&[5]), (5, 1, 1));
        assert_eq!(of(&[1, 3, 5]), (1, 2, 3));
        assert_eq!(of(&[1, 3, 6]), (1, 0, 3));
        assert_eq!(of(&[3, 1]), (3, 0, 2));
    }

    #[test]
    fn indices_translate_between_teams_and_only_where_both_have_the_pe() {
        let (all, odd, fours) = (team(0, 1, 16), team(1, 2, 8), team(3, 4, 3));
        assert_eq!(odd.member(7), 15);
        assert_eq!(fours.translate_to(2, odd), Some(5));
        assert_eq!(odd.translate_to(5, fours), Some(2));
        assert_eq!(odd.translate_to(0, fours), None, "PE 1 comes before the first of them");
        assert_eq!(odd.translate_to(2, fours), None, "PE 5 lies between two of them");
        assert_eq!(odd.translate_to(7, fours), None, "PE 15 comes behind the last of them");
        assert_eq!(all.translate_to(16, odd), None);
        assert_eq!(all.translate_to(4, odd), None);
    }
}
