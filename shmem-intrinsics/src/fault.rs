//! Faults: a kernel's error is recorded with its place and values, every PE is told, and the thread ends.
//!
//! The host returns the record as a typed error. Nothing is trapped: a trap would take the whole context, and every other
//! PE and framework on it, with it.

use crate::arch;
use core::panic::Location;

macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $name:ident = $n:literal,)*) => {
        /// What went wrong in a kernel. Each kind says what the record's two values `a` and `b` are.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(u32)]
        pub enum FaultKind { $($(#[doc = $doc])* $name = $n,)* }

        impl FaultKind {
            /// The kind with this number in a [`FaultRecord`](crate::state::FaultRecord).
            pub const fn from_number(n: u32) -> Option<Self> {
                match n { $($n => Some(Self::$name),)* _ => None }
            }
        }
    };
}

kinds! {
    /// An index outside an object: index `a`, length `b`.
    Index = 1,
    /// A range outside an object: start `a`, end `b`.
    Range = 2,
    /// A chunk outside an object: chunk `a`, elements per chunk `b`.
    Chunk = 3,
    /// A cast to elements that don't fit: byte offset `a`, bytes `b`.
    Cast = 4,
    /// A PE number outside the world, or an index outside a team: PE or index `a`, number of PEs `b`.
    Pe = 5,
    /// Source and destination of different lengths: destination `a`, source `b`, in elements.
    Length = 6,
    /// A wait that outlasted the time limit: the value last seen `a`, nanoseconds waited `b`.
    TimeLimit = 7,
    /// A wait that ended because another PE failed.
    PeerFailed = 8,
    /// A panic of the kernel's own code.
    Panic = 9,
    /// A tile that does not divide its block: tile size `a`, block size `b`.
    Tile = 10,
    /// A barrier slot that does not exist: slot `a`, slots `b`.
    Slot = 11,
    /// An operation that the network could not complete: the PE that it was for `a`, the NIC's syndrome `b`.
    Network = 12,
    /// An mbarrier of no or too many arrivals: arrivals `a`, at most `b`.
    Arrivals = 20,
    /// Too little staging for a bulk engine: its bytes `a`, at least `b`.
    Staging = 21,
    /// A packet of a later epoch where one was waited for, or epoch 0: the epoch wanted `a`, the one found `b`.
    Epoch = 30,
    /// Source and destination of a collective that overlap and are not in place: their offsets in the heap, destination `a`,
    /// source `b`.
    Overlap = 31,
}

/// Records the fault, tells every PE, ends the thread.
#[cold]
#[inline(never)]
pub fn fault(kind: FaultKind, a: u64, b: u64, at: &'static Location<'static>) -> ! {
    arch::fault(kind, a, b, Some(at))
}

/// The panic handler's fault: its place is read only with the feature `located-panics`.
#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    #[cfg(feature = "located-panics")]
    let at = info.location().map(|l| {
        // SAFETY: the compiler keeps a panic's place in static memory; only `PanicInfo`'s signature forgets that.
        unsafe { core::mem::transmute::<&Location<'_>, &'static Location<'static>>(l) }
    });
    #[cfg(not(feature = "located-panics"))]
    let at = {
        let _ = info;
        None
    };
    arch::fault(FaultKind::Panic, 0, 0, at)
}

/// Faults unless `ok`.
#[inline(always)]
#[track_caller]
pub(crate) fn check(ok: bool, kind: FaultKind, a: u64, b: u64) {
    if !ok {
        fault(kind, a, b, Location::caller());
    }
}
