//! What the checker has found, and how it reads.

use shmem::hook::At;
use std::fmt;

/// The kinds of communication bugs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum BugKind {
    /// A put and the signal that tells of it are not ordered: no fence between them.
    MissingFence,
    /// A put is not done when its issuer meets the reader: no quiet before the sync, or before a read of its own.
    MissingQuiet,
    /// The fence or quiet is there, but of another context.
    WrongContext,
    /// A relaxed wait saw the signal, and acquired nothing.
    RelaxedWait,
    /// A relaxed signal was seen, and released nothing.
    RelaxedSignal,
    /// A counter says how many have arrived, and was taken to say which.
    CounterAliasing,
    /// Memory is written that an nbi put may still read: no flush.
    SourceReused,
    /// Data that an nbi get fetches is used before quiet.
    GetNotComplete,
    /// Memory is overwritten that somebody may still read.
    BufferReused,
    /// Two writes of the same bytes, in no order.
    WriteConflict,
    /// A signal has two writers.
    SignalWriters,
    /// A signal is reset while somebody sets it.
    ResetRace,
    /// Threads of a block use each other's data without a sync between.
    MissingSync,
    /// Atomics and plain accesses of one word.
    MixedAccess,
    /// One word is updated by atomics of GPUs and of a NIC, which are not atomic with each other.
    MixedDomains,
    /// Nothing at all orders a read behind the write.
    Unordered,
    /// Symmetric memory is read that nobody has written.
    Uninitialised,
    /// Members of a tile make different calls.
    DivergentCall,
}

impl BugKind {
    /// A name of one word, as tables have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::MissingFence => "missing-fence",
            Self::MissingQuiet => "missing-quiet",
            Self::WrongContext => "wrong-context",
            Self::RelaxedWait => "relaxed-wait",
            Self::RelaxedSignal => "relaxed-signal",
            Self::CounterAliasing => "counter-aliasing",
            Self::SourceReused => "source-reused",
            Self::GetNotComplete => "get-not-complete",
            Self::BufferReused => "buffer-reused",
            Self::WriteConflict => "write-conflict",
            Self::SignalWriters => "signal-writers",
            Self::ResetRace => "reset-race",
            Self::MissingSync => "missing-sync",
            Self::MixedAccess => "mixed-access",
            Self::MixedDomains => "mixed-domains",
            Self::Unordered => "unordered",
            Self::Uninitialised => "uninitialised",
            Self::DivergentCall => "divergent-call",
        }
    }
}

/// One side of a bug: a call, and who made it.
#[derive(Clone, Debug)]
pub struct Party {
    /// `put`, `load`, ..
    pub call: &'static str,
    /// The source line.
    pub at: At,
    /// The kernel; empty: it is the PE's host, whose block and thread are 0.
    pub kernel: &'static str,
    /// Its PE.
    pub pe: u32,
    /// Block of the grid.
    pub block: [u32; 3],
    /// Thread of the block.
    pub thread: [u32; 3],
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use crate::failure::triple;
        if self.kernel.is_empty() {
            return write!(f, "{:<12} at {}, the host of PE {}", self.call, self.at, self.pe);
        }
        write!(
            f,
            "{:<12} at {}, PE {}, block {}, thread {} of kernel `{}`",
            self.call,
            self.at,
            self.pe,
            triple(self.block),
            triple(self.thread),
            self.kernel
        )
    }
}

/// A bug in how kernels communicate: what two calls do, and which order between them is missing.
#[derive(Clone)]
#[non_exhaustive]
pub struct Bug {
    /// Its kind.
    pub kind: BugKind,
    /// What is wrong, in a sentence.
    pub what: String,
    /// The calls: first the one that came first in this run.
    pub calls: Vec<Party>,
    /// The memory that both touch, as text.
    pub memory: String,
    /// The smallest change that adds the missing order.
    pub fix: String,
    /// The seed it was found with.
    pub seed: u64,
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {} (seed {})", self.kind.name(), self.what, self.seed)?;
        for call in &self.calls {
            writeln!(f, "  {call}")?;
        }
        if !self.memory.is_empty() {
            writeln!(f, "  both touch {}", self.memory)?;
        }
        write!(f, "  fix: {}", self.fix)
    }
}

/// As a test's `unwrap` shows it: to be read.
impl fmt::Debug for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{self}\n")
    }
}
