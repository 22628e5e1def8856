//! Teams, as the host makes them.

use crate::blocks::choose;
use crate::collective::{Call, Turn};
use crate::meetings::Circle;
use crate::session::{Memory, Session};
use crate::{Error, Pe, Site};
use serde::{Deserialize, Serialize};
use shmem::state::{MAX_TEAMS, SystemArea, TeamBlock};
use shmem::{IntoArg, Region, Serial};
use std::cell::OnceCell;
use std::fmt;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

/// PEs that do collectives together, as one of them has it: indices `0..n_pes()` in place of the World's numbers.
///
/// [`Pe::world`] and [`Pe::node`] are there from the start; a team is split into others. A kernel that takes a
/// `shmem::Team` gets one as `&team`. Teams may overlap, and all of them may be in a barrier at once, each with words of its
/// own in the heap. A PE may be in 64 at a time; one that every member has dropped no longer counts, from their next split
/// on.
///
/// OpenSHMEM 1.5 `shmem_team_t`; NVSHMEM `nvshmem_team_t`. Dropping it is `nvshmem_team_destroy`, and takes no other PE.
///
/// ```
/// use shmem::prelude::*;
/// use shmem_host::{Backend, World, collective_launch};
///
/// /// A grid of PEs, two in a row: each passes its number to the right in its row, and down in its column.
/// #[kernel(collective)]
/// pub fn pass(all: Collective, row: Team, column: Team, got: SymSlice<u32>) {
///     if Block.leader() {
///         shmem::p(got.at(0), shmem::my_pe(), row.pe((row.my_pe() + 1) % row.n_pes()));
///         shmem::p(got.at(1), shmem::my_pe(), column.pe((column.my_pe() + 1) % column.n_pes()));
///     }
///     all.barrier(Block, row);
///     all.barrier(Block, column);
/// }
///
/// World::builder().pes(6).backend(Backend::Sim).build()?.run(|pe| {
///     let (row, column) = pe.world().split_2d(2)?;
///     let got = pe.alloc::<u32>(2)?;
///     collective_launch!(pe, pass<<<1, 32>>>(&row, &column, &got))?;
///     let (x, y) = (pe.id() % 2, pe.id() / 2);
///     assert_eq!(got.to_vec()?, [y * 2 + (1 - x), (y + 2) % 3 * 2 + x]);
///     Ok::<(), shmem_host::Error>(())
/// })?;
/// # Ok::<(), shmem_host::Error>(())
/// ```
pub struct Team {
    session: Rc<Session>,
    members: Arc<[u32]>,
    me: u32,
    handle: shmem::Team,
    serial: Serial,
    /// Where its words are; none of the world and the node, whose words are always there.
    block: Option<u32>,
    /// Where its members meet, once they have.
    circle: OnceCell<Circle>,
}

/// A split that was refused, on every member alike. The World stays usable.
///
/// ```
/// use shmem_host::{Backend, Error, TeamError, World};
///
/// World::builder().pes(4).backend(Backend::Sim).build()?.run(|pe| {
///     let refused = pe.world().split_strided(1, 2, 3); // PEs 1, 3, 5
///     assert!(matches!(refused, Err(Error::Team(TeamError::Outside { index: 5, n: 4 }))));
///     Ok::<(), Error>(())
/// })?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TeamError {
    /// Members asked for different splits.
    #[error(
        "PE {} asked for {}, but PE {} for {}: every member of a team makes the same splits of it in the same order",
        first.0, first.1, second.0, second.1
    )]
    Mismatch {
        /// A PE and what it asked for.
        first: (u32, String),
        /// The first member that asked for something else.
        second: (u32, String),
    },
    /// An index that the team which is split does not have.
    #[error("index {index} was asked for in a team of {n} PEs: indices are 0 to {}", n - 1)]
    Outside {
        /// The index.
        index: u64,
        /// How many PEs the team has.
        n: u32,
    },
    /// One PE twice.
    #[error("index {index} was asked for twice: a PE has one index in a team")]
    Twice {
        /// The index, in the team that is split.
        index: u32,
    },
    /// A team without PEs.
    #[error("a team without PEs was asked for: {}", if *stride_or_range { "give a stride or range of at least 1" } else { "list at least one" })]
    Empty {
        /// Whether because a stride or a range was 0.
        stride_or_range: bool,
    },
    /// More teams than a PE may be in.
    #[error("a PE would be in more than {most} teams at once: drop those that are no longer used, on every member")]
    TooMany {
        /// How many it may be in.
        most: u32,
    },
}

/// What a member asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SplitRequest {
    split: Split,
    site: Site,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Split {
    Strided { start: u32, stride: u32, size: u32 },
    Grid { range: u32 },
    List(Box<[u32]>),
}

impl fmt::Display for SplitRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.split {
            Split::Strided { start, stride, size } => write!(f, "split_strided({start}, {stride}, {size})")?,
            Split::Grid { range } => write!(f, "split_2d({range})")?,
            Split::List(list) => write!(f, "split({list:?})")?,
        }
        write!(f, " at {}", self.site)
    }
}

impl Split {
    /// The new teams, as indices of the one of `n` that is split. Those that share a member come in the order in which it
    /// gets them.
    fn groups(&self, n: u32) -> Result<Vec<Vec<u32>>, TeamError> {
        let stride_or_range = true;
        match *self {
            Self::Strided { stride: 0, .. } | Self::Grid { range: 0 } => Err(TeamError::Empty { stride_or_range }),
            Self::Strided { start, stride, size } => {
                let index = |i: u32| u64::from(start) + u64::from(i) * u64::from(stride);
                let last = index(size.checked_sub(1).ok_or(TeamError::Empty { stride_or_range: false })?);
                if last >= n.into() {
                    return Err(TeamError::Outside { index: last, n });
                }
                Ok(vec![(0..size).map(|i| index(i) as u32).collect()])
            }
            Self::Grid { range } => {
                let range = range.min(n) as usize;
                let rows = (0..n).step_by(range).map(|first| (first..n).take(range).collect());
                let columns = (0..range as u32).map(|first| (first..n).step_by(range).collect());
                Ok(rows.chain(columns).collect())
            }
            Self::List(ref list) => {
                if list.is_empty() {
                    return Err(TeamError::Empty { stride_or_range: false });
                }
                let mut seen = vec![false; n as usize];
                for &index in list {
                    match seen.get_mut(index as usize) {
                        None => return Err(TeamError::Outside { index: index.into(), n }),
                        Some(true) => return Err(TeamError::Twice { index }),
                        Some(new) => *new = true,
                    }
                }
                Ok(vec![list.to_vec()])
            }
        }
    }
}

impl Pe {
    /// The team of all PEs. A kernel has it as `shmem::world()`, so that no launch needs to pass it.
    ///
    /// OpenSHMEM `SHMEM_TEAM_WORLD`, NVSHMEM `NVSHMEM_TEAM_WORLD`.
    ///
    /// ```
    /// # use shmem_host::{Backend, World};
    /// World::builder().pes(3).backend(Backend::Sim).build()?.run(|pe| {
    ///     assert_eq!((pe.world().my_pe(), pe.world().n_pes()), (pe.id(), 3));
    ///     Ok::<(), shmem_host::Error>(())
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    pub fn world(&self) -> Team {
        let members = (0..self.n()).collect();
        Team::new(self.session_rc(), members, None, SystemArea::new(self.n()).world_sync)
    }

    /// The team of the PEs that this PE reaches by load and store on its host, in kernels `shmem::node()`.
    ///
    /// OpenSHMEM `SHMEM_TEAM_SHARED`, NVSHMEM `NVSHMEMX_TEAM_NODE`.
    ///
    /// ```
    /// # use shmem_host::{Backend, World};
    /// World::builder().pes(2).backend(Backend::Sim).build()?.run(|pe| {
    ///     assert_eq!(pe.node().translate(pe.node().my_pe()), Some(pe.id()));
    ///     Ok::<(), shmem_host::Error>(())
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    pub fn node(&self) -> Team {
        let members = self.session().shared.platform.node(self.id()).collect();
        Team::new(self.session_rc(), members, None, SystemArea::new(self.n()).node_sync)
    }

    /// The team of these PEs, indexed in this order; None on the others. Every PE of the World calls it with the same list.
    /// The same as `pe.world().split(pes)`.
    ///
    /// # Errors
    /// As [`Team::split`].
    ///
    /// ```
    /// # use shmem_host::{Backend, World};
    /// World::builder().pes(4).backend(Backend::Sim).build()?.run(|pe| {
    ///     match pe.team(&[3, 0, 1])? {
    ///         Some(team) => assert_eq!(team.translate(team.my_pe()), Some(pe.id())),
    ///         None => assert_eq!(pe.id(), 2),
    ///     }
    ///     Ok::<(), shmem_host::Error>(())
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    #[track_caller]
    pub fn team(&self, pes: &[u32]) -> Result<Option<Team>, Error> {
        self.world().split(pes)
    }
}

impl Team {
    fn new(session: &Rc<Session>, members: Arc<[u32]>, block: Option<u32>, sync: u64) -> Self {
        let me = members
            .iter()
            .position(|&pe| pe == session.pe)
            .expect("a PE has its own teams") as u32;
        let serial = session.local_serial();
        session.handles.borrow_mut().insert(Region::Team { serial });
        Self {
            session: session.clone(),
            handle: shmem::Team::__new(sync, &members, me, serial),
            members,
            me,
            serial,
            block,
            circle: OnceCell::new(),
        }
    }

    /// This PE's index in the team. OpenSHMEM `shmem_team_my_pe`.
    pub fn my_pe(&self) -> u32 {
        self.me
    }

    /// How many PEs the team has; never 0. OpenSHMEM `shmem_team_n_pes`.
    pub fn n_pes(&self) -> u32 {
        self.members.len() as u32
    }

    /// The members' numbers in the World, by index.
    pub fn members(&self) -> &[u32] {
        &self.members
    }

    /// The number in the World of the PE of this index; None where there is none. OpenSHMEM `shmem_team_translate_pe`.
    pub fn translate(&self, index: u32) -> Option<u32> {
        self.members.get(index as usize).copied()
    }

    /// The index in another team of the PE that has this one here; None where it is in only one of them, or in none.
    ///
    /// OpenSHMEM `shmem_team_translate_pe`, NVSHMEM `nvshmem_team_translate_pe`.
    ///
    /// ```
    /// # use shmem_host::{Backend, World};
    /// World::builder().pes(4).backend(Backend::Sim).build()?.run(|pe| {
    ///     let world = pe.world();
    ///     let (row, _) = world.split_2d(2)?;
    ///     assert_eq!(row.translate_to(1, &world), Some(pe.id() / 2 * 2 + 1));
    ///     assert_eq!(world.translate_to((pe.id() + 2) % 4, &row), None);
    ///     Ok::<(), shmem_host::Error>(())
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    pub fn translate_to(&self, index: u32, other: &Self) -> Option<u32> {
        let pe = self.translate(index)?;
        other
            .members
            .iter()
            .position(|&there| there == pe)
            .map(|index| index as u32)
    }

    /// What a kernel gets for it. It is stale once the team is dropped, and good on this PE only: a launch with it is refused
    /// then. `&team` works as an argument too; where a split left PEs out, `team.as_ref()` is one of type
    /// [`Membership`](shmem::Membership).
    pub fn handle(&self) -> shmem::Team {
        self.handle
    }

    /// The team of indices `start`, `start + stride`, .., `size` of them, indexed in this order; None on members of this team
    /// that it leaves out. Collective: every member of this team makes the same call, and returns when all have it.
    ///
    /// OpenSHMEM 1.5 `shmem_team_split_strided`, NVSHMEM `nvshmem_team_split_strided`.
    ///
    /// # Errors
    /// [`TeamError`] on every member alike: members that ask for different splits or from different source lines; indices
    /// that this team does not have; more teams than a PE may be in.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// use shmem_host::{Backend, World, collective_launch};
    ///
    /// #[kernel(collective)]
    /// pub fn meet(all: Collective, odd: Membership) {
    ///     if let Some(team) = odd.team() {
    ///         all.barrier(Block, team);
    ///     }
    /// }
    ///
    /// World::builder().pes(5).backend(Backend::Sim).build()?.run(|pe| {
    ///     let odd = pe.world().split_strided(1, 2, 2)?;
    ///     assert_eq!(odd.is_some(), pe.id() == 1 || pe.id() == 3);
    ///     collective_launch!(pe, meet<<<1, 32>>>(odd.as_ref()))?;
    ///     pe.barrier_all()
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    #[track_caller]
    pub fn split_strided(&self, start: u32, stride: u32, size: u32) -> Result<Option<Self>, Error> {
        let teams = self.split_into(Split::Strided { start, stride, size }, Location::caller())?;
        Ok(teams.into_iter().next())
    }

    /// The row and the column of this PE, with the members laid out in rows of `range`, the last of which may be shorter.
    /// A row's indices go along x, a column's along y. A range beyond the team's size makes one row. Collective, as
    /// [`split_strided`](Self::split_strided).
    ///
    /// OpenSHMEM 1.5 `shmem_team_split_2d`, NVSHMEM `nvshmem_team_split_2d`. [`Team`] has an example.
    ///
    /// # Errors
    /// As [`split_strided`](Self::split_strided).
    #[track_caller]
    pub fn split_2d(&self, range: u32) -> Result<(Self, Self), Error> {
        let mut teams = self.split_into(Split::Grid { range }, Location::caller())?.into_iter();
        let mut next = || teams.next().expect("every member is in a row and in a column");
        Ok((next(), next()))
    }

    /// The team of the members with these indices, indexed in this order; None on the others. Collective, as
    /// [`split_strided`](Self::split_strided). Kernels read the members of such a team from memory, unless they are evenly
    /// spaced.
    ///
    /// NVSHMEM `nvshmemx_team_init`, MPI `MPI_Group_incl`. Example at [`Pe::team`].
    ///
    /// # Errors
    /// As [`split_strided`](Self::split_strided); a list without indices, or with one twice.
    #[track_caller]
    pub fn split(&self, indices: &[u32]) -> Result<Option<Self>, Error> {
        let teams = self.split_into(Split::List(indices.into()), Location::caller())?;
        Ok(teams.into_iter().next())
    }

    /// The teams that this PE is in.
    fn split_into(&self, split: Split, site: &'static Location<'static>) -> Result<Vec<Self>, Error> {
        let session = &self.session;
        let site = &Site::from(site);
        let request = SplitRequest {
            split,
            site: site.clone(),
        };
        let turns = self.meet(session.split_call(&request), site)?;
        self.agree(&turns)?;
        let groups = request.split.groups(self.n_pes())?;
        let blocks = if let Some(blocks) = choose(&groups, free(&turns)) {
            blocks
        } else {
            // What is on the streams may use dropped teams.
            session.wait_all()?;
            self.meet(Call::Reclaim, site)?;
            let turns = self.meet(session.split_call(&request), site)?;
            choose(&groups, free(&turns)).ok_or(TeamError::TooMany { most: MAX_TEAMS })?
        };
        let mine: Vec<(u32, Arc<[u32]>)> = groups
            .iter()
            .zip(blocks)
            .filter(|(group, _)| group.contains(&self.me))
            .map(|(group, block)| (block, group.iter().map(|&index| self.members[index as usize]).collect()))
            .collect();
        let written = mine
            .iter()
            .try_for_each(|(block, members)| session.write_block(*block, members));
        // Nobody comes to a barrier before everybody's words are zero.
        let turns = self.meet(Call::Ready(written), site)?;
        if let Some(refused) = turns.iter().find_map(Turn::refused) {
            return Err(refused);
        }
        let make = |(block, members): (u32, Arc<[u32]>)| {
            let others = members.iter().copied().filter(|&pe| pe != session.pe).collect();
            session.blocks.borrow_mut().take(block, others);
            let sync = session.block_offset(block);
            Self::new(session, members, Some(block), sync)
        };
        Ok(mine.into_iter().map(make).collect())
    }

    /// Meets the other members. Those of the World meet where all PEs do.
    fn meet(&self, call: Call, site: &Site) -> Result<Arc<[Turn]>, Error> {
        let shared = &self.session.shared;
        let is_world = self.block.is_none() && self.n_pes() == shared.pes();
        let circle = (!is_world).then(|| {
            self.circle
                .get_or_init(|| Circle::new(shared, self.block, &self.members, self.me))
        });
        self.session.meet_in(circle, call, site)
    }

    fn agree(&self, turns: &[Turn]) -> Result<(), TeamError> {
        let request = |turn: &Turn| match &turn.call {
            Call::Split(request, _) => Some(request.clone()),
            _ => None,
        };
        let first = request(&turns[0]);
        let asked = |at: usize, request: Option<SplitRequest>| {
            let text = request.map_or_else(String::new, |request| request.to_string());
            (self.members[at], text)
        };
        match turns.iter().map(request).enumerate().find(|(_, other)| *other != first) {
            None => Ok(()),
            Some((at, other)) => Err(TeamError::Mismatch {
                first: asked(0, first),
                second: asked(at, other),
            }),
        }
    }
}

/// The blocks that are free on each member.
fn free(turns: &[Turn]) -> Vec<u64> {
    let of = |turn: &Turn| match turn.call {
        Call::Split(_, free) => free,
        _ => 0,
    };
    turns.iter().map(of).collect()
}

impl Session {
    fn split_call(&self, request: &SplitRequest) -> Call {
        Call::Split(request.clone(), self.blocks.borrow().free())
    }

    fn block_offset(&self, block: u32) -> u64 {
        let pes = self.shared.pes();
        SystemArea::new(pes).teams + u64::from(block) * TeamBlock::bytes(pes)
    }

    fn write_block(&self, block: u32, members: &[u32]) -> Result<(), Error> {
        let image = TeamBlock::image(self.shared.pes(), members);
        let address = self.device.heap_base() + self.block_offset(block);
        let what = || format!("the words of a team of {} PEs", members.len());
        self.watched(self.shared.time_limit, &what, |watch| {
            self.device.reused(address, image.len() as u64);
            self.device.write(address, &image, Location::caller(), watch)
        })
    }
}

impl IntoArg<shmem::Team> for &Team {
    fn into_arg(self) -> shmem::Team {
        self.handle
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        let session = &self.session;
        session
            .handles
            .borrow_mut()
            .remove(Region::Team { serial: self.serial });
        if let Some(block) = self.block {
            session.drop_memory(Memory::Team(block));
        }
    }
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "index {} of the team of PEs {:?}", self.me, self.members)
    }
}
