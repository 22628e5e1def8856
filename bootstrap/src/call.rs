//! The calls.

/// A call: all processes make it together, but for [`Send`](Self::Send).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Call {
    /// [`Bootstrap::join`](crate::Bootstrap::join).
    Join,
    /// [`Bootstrap::barrier`](crate::Bootstrap::barrier).
    Barrier,
    /// [`Bootstrap::allgather`](crate::Bootstrap::allgather).
    AllGather,
    /// [`Bootstrap::broadcast`](crate::Bootstrap::broadcast).
    Broadcast {
        /// Whose bytes.
        from: u32,
    },
    /// [`Bootstrap::finish`](crate::Bootstrap::finish).
    Finish,
    /// [`Bootstrap::send`](crate::Bootstrap::send).
    Send {
        /// To whom.
        to: u32,
    },
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Join => f.write_str("join"),
            Self::Barrier => f.write_str("barrier"),
            Self::AllGather => f.write_str("allgather"),
            Self::Broadcast { from } => write!(f, "broadcast(from {from})"),
            Self::Finish => f.write_str("finish"),
            Self::Send { to } => write!(f, "send(to {to})"),
        }
    }
}
