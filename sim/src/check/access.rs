//! One access to memory, as it is remembered until the next of the same bytes, and which two of them may race.

use super::clock::{Channel, Clock, Done, LaneId};
use shmem::hook::At;
use std::cell::Cell;
use std::rc::Rc;

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
    /// Data and flag in one store.
    Packet,
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
    pub(crate) fn is_strong(self) -> bool {
        matches!(
            self,
            Self::StrongLoad
                | Self::StrongStore
                | Self::P
                | Self::Packet
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
            Self::Packet => "packet",
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

#[derive(Clone, Debug)]
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
    /// What its issuer had seen arrive, acquired or not: it would not have been issued else. For signals and packets.
    pub(crate) heard: Option<Done>,
    /// The counter that tells of it, of a put_signal: its address.
    pub(crate) counter: Option<u64>,
    /// It goes through a NIC, whose atomics and those of GPUs are not atomic with each other.
    pub(crate) network: bool,
    /// Of a p: its lane has read the word before, and may write what follows from that.
    pub(crate) again: bool,
    /// It is the signal of a put_signal.
    pub(crate) tail: bool,
    /// It has written over what another access of a kernel wrote.
    pub(crate) over: Cell<bool>,
    /// Of a word that is added to: who has done so, the newest first. These hold none themselves.
    pub(crate) adders: Option<Rc<[Rc<Access>]>>,
}

/// Adders that a word is remembered by.
const ADDERS: usize = 16;

impl Access {
    /// What `adders` is behind an access that comes after those `before`.
    pub(crate) fn adders(this: &Rc<Self>, before: &Rc<Self>) -> Rc<[Rc<Self>]> {
        let older = before.adders.as_deref().unwrap_or(std::slice::from_ref(before));
        [this].into_iter().chain(older).take(ADDERS).cloned().collect()
    }

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
    use What::{Atomic, G, P, Packet, Put, SignalAdd, SignalSet, StrongLoad, StrongStore};
    let (a, b) = (earlier.what, later.what);
    if !a.writes() && !b.writes() {
        return false;
    }
    match (a, b) {
        // Rule 8: one writer at a time. The earlier of two packets may never have been received.
        (SignalSet, SignalSet | SignalAdd | StrongStore) | (SignalAdd | StrongStore, SignalSet) | (Packet, Packet) => {
            true
        }
        (Atomic, Atomic) => earlier.network != later.network,
        // A put of a word that somebody waits for.
        (Put, StrongLoad) | (StrongLoad, Put) => false,
        // Any may win where several threads write, but not where one of them writes a sum of what it has read.
        (P, P) => earlier.lane == later.lane || earlier.again || later.again,
        // Whoever has heard of the p meant to read it; else it is polling.
        (P, G) => earlier.issued_before(later),
        (G, P) => later.issued_before(earlier),
        _ => !(a.is_strong() && b.is_strong()),
    }
}
