//! What both lowerings say of an atomic access.

/// Where a word lies, and for which threads an access to it is atomic and ordered.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Device memory, the block.
    Cta,
    /// Device memory, the device.
    Gpu,
    /// Device memory, all.
    System,
    /// Shared memory, the block.
    Shared,
    /// A heap that is mapped here, all.
    Peer,
}

/// What stays ahead of an access, and what behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Relaxed,
    Acquire,
    Release,
    AcqRel,
}

/// The word of an atomic access.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// At an address that this thread reaches.
    Here { address: u64, place: Place },
    /// In the heap of a PE, which exists; atomic for all.
    At { offset: u64, to: crate::team::Peer },
}
