//! How a world fails, and how that reads.

use crate::check::Bug;
use shmem::fault::FaultKind;
use shmem::state::FaultRecord;
use std::fmt::Write as _;

/// Why kernels of a world did not finish. A world that has failed stays so: make a new one.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    /// A kernel met an error, or panicked. The PE on which it happened gets this, the others [`Failure::PeerFailed`].
    #[error("{}", fault_text(kernel, *pe, record, message.as_deref()))]
    Fault {
        /// The kernel's name.
        kernel: &'static str,
        /// Where it ran.
        pe: u32,
        /// What happened, with place and values.
        record: Box<FaultRecord>,
        /// A panic's text.
        message: Option<String>,
    },
    /// Kernels communicate in a way that may go wrong, whether or not it has in this run.
    #[error("{0}")]
    Bug(Box<Bug>),
    /// No lane can run, nothing is in flight, and no host thread will submit anything. The closures of `spin_until` have
    /// been asked 65536 times in vain by then, in case one gives up by itself.
    #[error("{report}")]
    Deadlock {
        /// Who waits on what, and where.
        report: String,
    },
    /// A network adapter was given what it can't do: a work queue entry or a doorbell is wrong. Only over
    /// [`Path::Ibgda`](crate::Path::Ibgda).
    #[error("{report}")]
    Adapter {
        /// Whose adapter, which queue pair and entry, and what is wrong with it.
        report: String,
    },
    /// Another PE failed, or its host program did.
    #[error("PE {pe} failed: {cause}")]
    PeerFailed {
        /// Which.
        pe: u32,
        /// Its own failure, as text.
        cause: String,
    },
    /// Kernels ran, or a host thread kept them waiting, past [`Config::time_limit`](crate::Config::time_limit).
    #[error("{report}")]
    TimeLimit {
        /// Where the lanes are, and which host threads have not come.
        report: String,
    },
    /// A launch that can't run: PEs that launch different collective kernels, a grid or block of no threads, a stream that
    /// does not exist, stacks for which there is no memory.
    #[error("{report}")]
    Launch {
        /// What is wrong, and what the values were.
        report: String,
    },
}

impl Failure {
    /// What this failure of the world is to one of its PEs.
    pub(crate) fn seen_by(&self, observer: u32) -> Self {
        match self {
            Self::Fault { pe, .. } if *pe != observer => Self::PeerFailed {
                pe: *pe,
                cause: self.to_string(),
            },
            other => other.clone(),
        }
    }
}

fn fault_text(kernel: &str, pe: u32, record: &FaultRecord, message: Option<&str>) -> String {
    let mut text = format!("kernel `{kernel}` on PE {pe}");
    if record.line != 0 {
        let _ = write!(text, " at {}:{}:{}", record.file(), record.line, record.column);
    }
    let (block, thread) = (record.block, record.thread);
    let _ = write!(text, ", block {}, thread {}: ", triple(block), triple(thread));
    text + &message.map_or_else(|| kind_text(record), str::to_owned)
}

fn kind_text(record: &FaultRecord) -> String {
    let (a, b) = (record.a, record.b);
    match FaultKind::from_number(record.kind) {
        Some(FaultKind::Index) => format!("index {a} is outside an object of {b} elements"),
        Some(FaultKind::Range) => format!("range {a}..{b} is outside its object"),
        Some(FaultKind::Chunk) => format!("chunk {a} of {b} elements is outside its object"),
        Some(FaultKind::Cast) => format!("{b} bytes at offset {a} can't be seen as elements of that type"),
        Some(FaultKind::Pe) => format!("there is no PE {a} in a world of {b}"),
        Some(FaultKind::Length) => format!("the destination has {a} elements, the source {b}"),
        Some(FaultKind::TimeLimit) => format!("waited {b} ns; the value last seen is {a}"),
        Some(FaultKind::PeerFailed) => "another PE has failed".to_owned(),
        Some(FaultKind::Network) => format!("the network could not complete an operation to PE {a}"),
        Some(FaultKind::Panic) => "panicked".to_owned(),
        Some(FaultKind::Tile) => format!("a tile of {a} threads does not divide a block of {b}"),
        Some(FaultKind::Slot) => format!("there is no barrier slot {a}, only {b} of them"),
        Some(FaultKind::Epoch) if a == 0 => {
            "a packet has epoch 0, which empty slots have: count epochs from 1".to_owned()
        }
        Some(FaultKind::Epoch) => format!(
            "a packet of epoch {b} lies where one of epoch {a} is waited for: its sender was more than one epoch ahead, or \
             epochs began anew in a used buffer"
        ),
        Some(FaultKind::Overlap) => {
            format!("the destination at {a:#x} of the heap overlaps the source at {b:#x}, and the call is not in place")
        }
        Some(FaultKind::Staging) => {
            format!("a bulk engine was given {a} bytes of shared memory, and needs {b} at least")
        }
        _ => format!("fault {} with values {a} and {b}", record.kind),
    }
}

/// `(x, y, z)`, or `x` alone where the others are 0.
pub(crate) fn triple([x, y, z]: [u32; 3]) -> String {
    if y == 0 && z == 0 {
        x.to_string()
    } else {
        format!("({x}, {y}, {z})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault() -> Failure {
        let mut record = FaultRecord {
            kind: FaultKind::Index as u32,
            thread: [3, 0, 0],
            a: 9,
            b: 4,
            ..FaultRecord::EMPTY
        };
        record.locate(std::panic::Location::caller());
        Failure::Fault {
            kernel: "ring",
            pe: 2,
            record: Box::new(record),
            message: None,
        }
    }

    #[test]
    fn a_fault_reads_like_a_sentence() {
        let text = fault().to_string();
        assert!(text.starts_with("kernel `ring` on PE 2 at "), "{text}");
        assert!(text.contains("failure.rs:"), "{text}");
        assert!(
            text.ends_with(", block 0, thread 3: index 9 is outside an object of 4 elements"),
            "{text}"
        );
    }

    #[test]
    fn other_pes_see_a_failed_peer() {
        assert!(matches!(fault().seen_by(2), Failure::Fault { .. }));
        let Failure::PeerFailed { pe: 2, cause } = fault().seen_by(0) else {
            panic!("PE 0 did not fail itself")
        };
        assert!(cause.contains("index 9"));
    }
}
