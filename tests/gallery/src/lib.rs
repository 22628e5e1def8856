//! A gallery of communication bugs of the kinds that public trackers are full of, each planted in a kernel of a few lines,
//! each with its fixed twin. The simulator must name every bug, and find nothing in any twin.
//!
//! | file | what it holds |
//! |---|---|
//! | `cases` | the kernels |
//! | `run` | many seeds of a bug and of its twin |
//! | `table` | how that reads, and where the book keeps it |
//!
//! ```
//! let case = gallery::all().next().unwrap();
//! let result = gallery::Outcome::of(case, 20, 20);
//! assert!(result.is_named() && result.is_clean());
//! ```

mod cases;
mod run;
mod table;

pub use cases::all;
pub use run::{Outcome, Tally};
use shmem_host::{Backend, Error, Pe, World};
use shmem_sim::{BugKind, Failure, Sim};
use std::fmt;
pub use table::{details, table, write};

/// A planted bug and its twin.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// What it is called.
    pub name: &'static str,
    /// What is wrong, in a line.
    pub about: &'static str,
    /// Where such a bug, or the question whether it is one, was seen: addresses with commas between, or nothing.
    pub seen: &'static str,
    /// How it fails.
    pub expected: Expected,
    /// A host program, which takes the place of `world` and `kernel`.
    pub host: Option<Host>,
    /// What it runs on.
    pub world: fn() -> Sim,
    /// The kernel; `true`: as it should be.
    pub kernel: fn(bool),
}

/// What each PE's host does.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// How many PEs.
    pub pes: u32,
    /// The program; `true`: as it should be.
    pub run: fn(&Pe, bool) -> Result<(), Error>,
}

impl Case {
    /// Runs the bug or its twin with a seed.
    fn run(&self, fixed: bool, seed: u64) -> Result<(), Failure> {
        let Some(Host { pes, run }) = self.host else {
            return (self.world)().seed(seed).run(|| (self.kernel)(fixed)).map(drop);
        };
        let world = World::builder().backend(Backend::Sim).pes(pes).seed(seed).build();
        let ran = world.and_then(|world| world.run(|pe| run(&pe, fixed)));
        ran.map_err(|error| match error {
            Error::Bug(bug) => Failure::Bug(bug),
            Error::Deadlock { report } => Failure::Deadlock { report },
            other => Failure::PeerFailed {
                pe: 0,
                cause: other.to_string(),
            },
        })
    }
}

/// How a bug shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The checker finds it.
    Kind(BugKind),
    /// The checker finds it, and what it takes it for depends on how far the reader was.
    Either(BugKind, BugKind),
    /// Nobody can go on.
    Deadlock,
}

impl Expected {
    /// Whether a failure is the expected one.
    pub fn is(self, failure: &Failure) -> bool {
        match (self, failure) {
            (Self::Kind(kind), Failure::Bug(bug)) => bug.kind == kind,
            (Self::Either(a, b), Failure::Bug(bug)) => [a, b].contains(&bug.kind),
            (Self::Deadlock, Failure::Deadlock { .. }) => true,
            _ => false,
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(kind) => f.write_str(kind.name()),
            Self::Either(a, b) => write!(f, "{} or {}", a.name(), b.name()),
            Self::Deadlock => f.write_str("deadlock"),
        }
    }
}
