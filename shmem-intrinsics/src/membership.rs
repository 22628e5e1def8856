//! A team, or none: what a kernel gets that runs on members and others alike.

use crate::KernelArg;
use crate::team::Team;

/// Whether this PE is in a team, as a kernel's argument: a collective launch takes every PE, also those that a split left
/// out. The host passes what the split returned: `team.as_ref()`.
///
/// OpenSHMEM `SHMEM_TEAM_INVALID`, NVSHMEM `NVSHMEM_TEAM_INVALID`, which here can't be used by mistake.
///
/// ```
/// use shmem::prelude::*;
///
/// #[kernel(collective)]
/// pub fn step(all: Collective, even: Membership, x: SymSlice<u32>) {
///     if let Some(team) = even.team() {
///         shmem::p(x.at(0), team.my_pe(), team.pe((team.my_pe() + 1) % team.n_pes()));
///         all.barrier(Block, team);
///     }
/// }
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Of no PEs where this PE is in none.
    team: Team,
}

// SAFETY: the bits of a team, or zeros.
unsafe impl KernelArg for Membership {
    #[cfg(not(target_arch = "nvptx64"))]
    fn regions(&self, visit: &mut dyn FnMut(crate::Region)) {
        if let Some(team) = self.team() {
            team.regions(visit);
        }
    }
}

impl Membership {
    /// The team, on its members.
    ///
    /// ```
    /// use shmem::{Membership, prelude::*};
    /// shmem_sim::run(3, 1, 1, || {
    ///     let odd = Membership::from(shmem_sim::team(&[1]));
    ///     assert_eq!(odd.team().is_some(), shmem::my_pe() == 1);
    /// }).unwrap();
    /// ```
    #[inline(always)]
    pub fn team(self) -> Option<Team> {
        self.team.has_members().then_some(self.team)
    }
}

impl From<Option<Team>> for Membership {
    fn from(team: Option<Team>) -> Self {
        Self {
            team: team.unwrap_or(Team::NOBODY),
        }
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl<'a, T> crate::IntoArg<Membership> for Option<&'a T>
where
    &'a T: crate::IntoArg<Team>,
{
    fn into_arg(self) -> Membership {
        self.map(crate::IntoArg::into_arg).into()
    }
}
