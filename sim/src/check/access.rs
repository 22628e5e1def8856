//! One access to memory, as it is remembered until the next of the same bytes, and which two of them may race.

use super::clock::{Channel, Clock, Done, LaneId};
use shmem::hook::At;

/// What touched the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// An ordinary load or store.
    Load,
    Store,
    /// At system scope and by itself: a wait, a test, a peer pointer's.
    StrongLoad,
    StrongStore,
    Put,
    /// The data of a put_signal.
    PutSignal,
    P,
    G,
    Get,
    /// What a get_nbi writes here.
    Fetched,
    /// What an nbi put reads here.
    Source,
    /// A PE's word of a sync or barrier.
    Sync,
    SignalSet,
    SignalAdd,
    Atomic,
    /// Memory that was allocated and has not been written.
    Fresh,
}

impl What {
    pub(crate) fn writes(self) -> bool {
        !matches!(self, Self::Load | Self::StrongLoad | Self::G | Self::Get | Self::Source)
    }

    /// Of one word, as a whole.
    fn strong(self) -> bool {
        matches!(
            self,
            Self::StrongLoad
                | Self::StrongStore
                | Self::P
                | Self::Sync
                | Self::G
                | Self::SignalSet
                | Self::SignalAdd
                | Self::Atomic
        )
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Store => "store",
            Self::StrongLoad => "wait or strong load",
            Self::StrongStore => "strong store",
            Self::Put => "put",
            Self::PutSignal => "put_signal",
            Self::P => "p",
            Self::G => "g",
            Self::Get => "get",
            Self::Fetched => "get_nbi",
            Self::Source => "put_nbi",
            Self::Sync => "sync",
            Self::SignalSet => "signal set",
            Self::SignalAdd => "counter add",
            Self::Atomic => "atomic",
            Self::Fresh => "allocation",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Access {
    pub(crate) lane: LaneId,
    pub(crate) epoch: u32,
    /// The lane's last operation of the channel before this one.
    pub(crate) after: u32,
    pub(crate) what: What,
    pub(crate) at: At,
    /// None where it has taken effect when the lane goes on.
    pub(crate) channel: Option<Channel>,
    /// What the lane knew.
    pub(crate) clock: Clock,
    /// What whoever observes it and acquires learns.
    pub(crate) release: Option<Clock>,
    /// What its issuer had seen arrive, acquired or not: it would not have been issued else. For signals.
    pub(crate) heard: Option<Done>,
    /// The counter that tells of it, of a put_signal: its address.
    pub(crate) counter: Option<u64>,
}

impl Access {
    /// Whether it came to be before the other was issued, as the other's lane knew. It need not have taken effect.
    pub(crate) fn issued_before(&self, other: &Self) -> bool {
        if self.lane == other.lane {
            self.epoch < other.epoch
        } else {
            other.clock.seen.contains(self.lane, self.epoch)
        }
    }
}

/// Whether two accesses of the same bytes, which nothing orders, are a fault of the program.
pub(crate) fn conflict(earlier: &Access, later: &Access) -> bool {
    use What::{Put, SignalAdd, SignalSet, StrongLoad, StrongStore};
    let (a, b) = (earlier.what, later.what);
    if !a.writes() && !b.writes() {
        return false;
    }
    match (a, b) {
        // Rule 8: one writer at a time.
        (SignalSet, SignalSet | SignalAdd | StrongStore) | (SignalAdd | StrongStore, SignalSet) => true,
        // A put of a word that somebody waits for.
        (Put, StrongLoad) | (StrongLoad, Put) => false,
        (What::P, What::P) => earlier.lane == later.lane,
        // Whoever has heard of the p meant to read it; else it is polling.
        (What::P, What::G) => earlier.issued_before(later),
        (What::G, What::P) => later.issued_before(earlier),
        _ => !(a.strong() && b.strong()),
    }
}
