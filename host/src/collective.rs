//! Calls that every PE makes: how they find out that they do.

use crate::heap::AllocRequest;
use crate::meetings::Circle;
use crate::rendezvous::Missed;
use crate::session::Session;
use crate::team::SplitRequest;
use crate::{Error, ProcessError, Site};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The PEs disagree about a collective call.
///
/// ```
/// use shmem_host::{Backend, CollectiveError, Error, World};
///
/// let run = World::builder().pes(2).backend(Backend::Sim).build()?.run(|pe| match pe.id() {
///     0 => pe.barrier_all(),
///     _ => Ok(()),
/// });
/// assert!(matches!(run, Err(Error::Collective(CollectiveError::PeerEnded { pe: 0, ended: 1, .. }))));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CollectiveError {
    /// Two PEs made different calls. The World stays usable.
    #[error(
        "PE {} called {}, while PE {} called {}: every PE makes the same collective calls in the same order",
        first.0, first.1, second.0, second.1
    )]
    Mismatch {
        /// A PE and its call.
        first: (u32, String),
        /// The first PE with another one.
        second: (u32, String),
    },
    /// PEs launched different kernels together. Only the simulator can tell.
    #[error("{report}")]
    Launch {
        /// Which PE launched what.
        report: String,
    },
    /// A PE's closure returned while others still waited for it.
    #[error("PE {pe} waits in {call}, but PE {ended} has ended without it: every PE makes the same collective calls")]
    PeerEnded {
        /// Who waited.
        pe: u32,
        /// In which call.
        call: String,
        /// Who has ended.
        ended: u32,
    },
    /// PEs did not come in time.
    #[error(
        "PE {pe} waited {limit:?} in {call} for PEs {absent:?}: look what they do instead, or set SHMEM_TIMEOUT (seconds, \
         0 for none)"
    )]
    TimeLimit {
        /// Who waited.
        pe: u32,
        /// In which call.
        call: String,
        /// PEs that did not come.
        absent: Vec<u32>,
        /// How long.
        limit: Duration,
    },
}

/// What a PE brings to a rendezvous.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Turn {
    pub(crate) call: Call,
    pub(crate) site: Site,
    /// Blocks of the symmetric heap that the PE has dropped and that its streams no longer use.
    pub(crate) dropped: Vec<u64>,
    /// Likewise blocks of teams, as bits.
    pub(crate) dropped_teams: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Call {
    /// Before a closure begins.
    Start,
    Alloc(AllocRequest),
    /// Teams out of another, and the blocks that are free on the PE.
    Split(SplitRequest, u64),
    /// There was no room: the second try, after all streams have drained.
    Reclaim,
    /// Memory of the program's own: where the PE's heap has no memory of its own any more, and whether it can be done.
    Register(
        AllocRequest,
        u64,
        #[serde(with = "crate::wire::outcome")] Result<(), Error>,
    ),
    /// Whether the PE's memory for it is there.
    Ready(#[serde(with = "crate::wire::outcome")] Result<(), Error>),
    Barrier,
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let call = match self.call {
            Call::Start => "World::run",
            Call::Alloc(_) => "alloc",
            Call::Split(..) => "a team's split",
            Call::Register(..) => "register",
            Call::Reclaim | Call::Ready(_) => "alloc, register or a team's split",
            Call::Barrier => "barrier_all",
        };
        write!(f, "{call} at {}", self.site)
    }
}

impl Turn {
    /// Why the PE has not got its memory.
    pub(crate) fn refused(&self) -> Option<Error> {
        match &self.call {
            Call::Ready(Err(error)) | Call::Register(_, _, Err(error)) => Some(error.clone()),
            _ => None,
        }
    }
}

impl Session {
    /// Meets the other PEs in the same call. Applies what they have dropped to this PE's books.
    pub(crate) fn meet(&self, call: Call, site: &Site) -> Result<Arc<[Turn]>, Error> {
        self.meet_in(None, call, site)
    }

    /// As [`meet`](Self::meet), among these members only.
    pub(crate) fn meet_in(&self, circle: Option<&Circle>, call: Call, site: &Site) -> Result<Arc<[Turn]>, Error> {
        self.check()?;
        self.sweep();
        self.sweep_teams();
        let dropped_teams = self.blocks.borrow().dropped();
        let turn = Turn {
            call,
            site: site.clone(),
            // All PEs keep the heap's book alike, so that it changes only where all meet.
            dropped: if circle.is_none() { self.unused_blocks() } else { vec![] },
            dropped_teams,
        };
        let name = turn.to_string();
        let (mut turn, mut met) = (Some(turn), Err(Missed::Failed));
        self.device.while_blocked(&mut || {
            if let Some(turn) = turn.take() {
                met = match circle {
                    None => self.shared.rendezvous.meet(self.pe, turn, &*self.shared),
                    Some(circle) => circle.meet(turn, &self.shared),
                };
            }
        });
        let turns = met.map_err(|missed| {
            let (pe, call) = (self.pe, name);
            match missed {
                Missed::Failed => self.world_failed(),
                // What the processes know of the failure is better than that they can't be reached.
                Missed::Lost(_) if self.shared.await_failure() => self.world_failed(),
                Missed::Lost(cause) => self.fatal(ProcessError::Lost { cause }.into()),
                Missed::Ended(ended) => self.fatal(CollectiveError::PeerEnded { pe, call, ended }.into()),
                Missed::TimeLimit(absent) => {
                    let limit = self.shared.time_limit.unwrap_or_default();
                    self.fatal(
                        CollectiveError::TimeLimit {
                            pe,
                            call,
                            absent,
                            limit,
                        }
                        .into(),
                    )
                }
            }
        })?;
        for serial in turns.iter().flat_map(|turn| &turn.dropped) {
            let freed = self.heap.borrow_mut().drop_one(*serial);
            self.unmap(freed);
        }
        let pe = |index: usize| circle.map_or(index as u32, |circle| circle.members[index]);
        let mut blocks = self.blocks.borrow_mut();
        for (index, turn) in turns.iter().enumerate() {
            blocks.settle(pe(index), turn.dropped_teams, dropped_teams);
        }
        same_call(&turns, pe)?;
        Ok(turns)
    }
}

fn same_call(turns: &[Turn], pe: impl Fn(usize) -> u32) -> Result<(), CollectiveError> {
    let kind = |turn: &Turn| std::mem::discriminant(&turn.call);
    match turns.iter().position(|turn| kind(turn) != kind(&turns[0])) {
        None => Ok(()),
        Some(other) => Err(CollectiveError::Mismatch {
            first: (pe(0), turns[0].to_string()),
            second: (pe(other), turns[other].to_string()),
        }),
    }
}
