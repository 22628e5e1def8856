//! What an adapter finds wrong. A real one would do anything from an error completion to nothing at all; this one always
//! says what it saw, and stops the queue pair.

use crate::keys::KeyFault;
use crate::memory::Unmapped;
use crate::state::State;
use crate::tables::syndrome;

/// A fault, and where.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("adapter {adapter}, queue pair {queue_pair:#x}, entry {index:#06x}: {fault}")]
pub struct Violation {
    /// The adapter, in the order they were made.
    pub adapter: usize,
    /// Number of the queue pair.
    pub queue_pair: u32,
    /// Index of the entry's first block, or where it would be.
    pub index: u16,
    /// What was wrong.
    pub fault: Fault,
}

/// What was wrong, with what was seen.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A unit was not written since the queue was made, or since its last entry was reported done.
    #[error(
        "unit {unit} of the entry was not written before the doorbell: write the whole entry, make it visible, then write the record"
    )]
    NotWritten {
        /// Which, from 0.
        unit: usize,
    },
    /// An entry says another index than the one it stands at.
    #[error(
        "the entry says index {seen:#06x}, and stands at {expected:#06x}: it is an old one, or the index was computed wrong"
    )]
    Index {
        /// In the entry.
        seen: u16,
        /// Where it stands.
        expected: u16,
    },
    /// An entry is for another queue pair than the one whose queue it is in.
    #[error("the entry is for queue pair {seen:#x}")]
    QueuePair {
        /// In the entry.
        seen: u32,
    },
    /// An opcode that reliable queue pairs do not have.
    #[error("opcode {seen:#04x} is none of a reliable queue pair")]
    Opcode {
        /// In the entry.
        seen: u8,
    },
    /// A field holds what it can't.
    #[error("{field} of the {segment} segment is {seen:#x}, must be {expected}")]
    Field {
        /// Segment of the entry, or record or register.
        segment: &'static str,
        /// Its field.
        field: &'static str,
        /// What it holds.
        seen: u64,
        /// What it may hold.
        expected: &'static str,
    },
    /// The count of units does not fit the operation.
    #[error("an entry of opcode {opcode:#04x} has {seen} units, must be {expected}")]
    Units {
        /// In the entry.
        opcode: u8,
        /// In the entry.
        seen: u8,
        /// What the operation needs.
        expected: &'static str,
    },
    /// Inline data goes on behind the entry's last unit.
    #[error("{bytes} bytes of inline data at unit {unit} of an entry of {units} units")]
    InlineTooLong {
        /// What its header says.
        bytes: u32,
        /// Where the header is.
        unit: usize,
        /// Units of the entry.
        units: usize,
    },
    /// A data pointer of 0 bytes, which adapters take for 2^31.
    #[error("a data pointer of 0 bytes, which means 2^31: leave it out")]
    ZeroLength,
    /// A message longer than 2^30 bytes.
    #[error("a message of {bytes} bytes: at most 2^30")]
    TooLong {
        /// Sum of its pointers.
        bytes: u64,
    },
    /// The entry goes on behind what the record says was posted.
    #[error("an entry of {blocks} blocks, and the record leaves {left}: the record must count whole entries")]
    PastRecord {
        /// Of the entry.
        blocks: u16,
        /// Up to the record.
        left: u16,
    },
    /// The record is further ahead than the queue has free blocks, or has gone back.
    #[error(
        "the record says {record:#06x} with {reported:#06x} reported done, in a queue of {size} blocks: wait for completions before posting, and never set the record back"
    )]
    Overrun {
        /// In the record.
        record: u16,
        /// Up to where completions told that blocks are free.
        reported: u16,
        /// Blocks of the queue.
        size: u32,
    },
    /// The register names an entry that the record doesn't cover.
    #[error(
        "the register names the entry at {register:#06x}, and the record ends at {record:#06x}: write the record, make it visible, then write the register"
    )]
    RegisterAhead {
        /// In the register.
        register: u16,
        /// In the record.
        record: u16,
    },
    /// The register names an earlier entry than the last one.
    #[error("the register names the entry at {register:#06x}, and the last one before the record is at {last:#06x}")]
    RegisterBehind {
        /// In the register.
        register: u16,
        /// Last entry that the record covers.
        last: u16,
    },
    /// The register is not the first 8 bytes of the last entry.
    #[error("the register holds {register:#018x}, and the last entry begins with {entry:#018x}")]
    RegisterDiffers {
        /// In the register.
        register: u64,
        /// In the queue.
        entry: u64,
    },
    /// The register was written with nothing new in the record.
    #[error("the register names the entry at {register:#06x}, and the record has not changed")]
    NothingNew {
        /// In the register.
        register: u16,
    },
    /// The register names no queue pair of this adapter.
    #[error("the register names queue pair {seen:#x}, which this adapter has not")]
    NoQueuePair {
        /// In the register.
        seen: u32,
    },
    /// The register lies in a page that the queue pair was not made with.
    #[error("the register of page {seen} was written, and the queue pair has page {expected}")]
    Page {
        /// Where it was written.
        seen: u32,
        /// The queue pair's.
        expected: u32,
    },
    /// Something was written to a page, and not 8 bytes to a register.
    #[error(
        "{bytes} bytes were written at {offset:#x} of a page: a register takes one store of 8 bytes, at 0x800 or 0x900"
    )]
    Register {
        /// In the page.
        offset: u64,
        /// How many.
        bytes: usize,
    },
    /// The queue pair does not send in its state.
    #[error("the queue pair is in state {0:?}: bring it to ReadyToSend first")]
    NotReady(State),
    /// An entry changed before it was reported done.
    #[error("unit {unit} of the entry was changed before its completion: reuse its blocks only after that")]
    Changed {
        /// Which, from 0.
        unit: usize,
    },
    /// A local key does not allow what the entry wants.
    #[error("local key: {0}")]
    Local(KeyFault),
    /// The target's key does not allow what the entry wants.
    #[error("remote key: {0}")]
    Remote(KeyFault),
    /// The target's queue pair does not allow it.
    #[error("the target's queue pair does not allow {what}")]
    TargetRefuses {
        /// Reads, writes or atomics.
        what: &'static str,
    },
    /// More reads and atomics at once than the target takes.
    #[error("the target takes {limit} reads and atomics at once: connect both ends with the same depth")]
    TooManyReads {
        /// What the target takes.
        limit: usize,
    },
    /// An atomic on a word that is not aligned to its size.
    #[error("an atomic of {bytes} bytes at {address:#x}: align it")]
    Misaligned {
        /// At the target.
        address: u64,
        /// Its size.
        bytes: usize,
    },
    /// Memory of a queue or key is gone.
    #[error(transparent)]
    Unmapped(#[from] Unmapped),
    /// A completion found no free slot.
    #[error(
        "completion {produced} has no slot: the queue has {size}, and its record says that {taken:#x} were taken: take completions, and write the record"
    )]
    CompletionOverrun {
        /// Number of the completion.
        produced: u64,
        /// In the record: 24 bits.
        taken: u32,
        /// Slots.
        size: u32,
    },
    /// More completions were taken than there were.
    #[error("the completion queue's record says that {taken:#x} were taken, of {produced}")]
    CompletionRecord {
        /// In the record: 24 bits.
        taken: u32,
        /// Written so far.
        produced: u64,
    },
    /// Nobody acknowledged. Not a fault of the sender's, but it ends the queue pair.
    #[error("no acknowledgement after {0} retries")]
    RetriesExceeded(u32),
    /// The target has no receives. Not a fault of the sender's, but it ends the queue pair.
    #[error("the target has no receive posted (this emulator has no receive queues)")]
    ReceiverNotReady,
}

impl Fault {
    /// Syndrome and vendor syndrome of the completion; the second is the emulator's own.
    pub(crate) fn syndrome(&self) -> (u8, u8) {
        match self {
            Self::TooLong { .. } => (syndrome::LOCAL_LENGTH, 0x90),
            Self::Local(_) => (syndrome::LOCAL_PROTECTION, 0x91),
            Self::Remote(_) => (syndrome::REMOTE_ACCESS, 0x92),
            Self::TargetRefuses { .. } => (syndrome::REMOTE_ACCESS, 0x93),
            Self::Misaligned { .. } => (syndrome::REMOTE_INVALID, 0x94),
            Self::TooManyReads { .. } => (syndrome::REMOTE_INVALID, 0x98),
            Self::Unmapped(_) => (syndrome::REMOTE_OPERATION, 0x95),
            Self::RetriesExceeded(_) => (syndrome::RETRIES, 0x96),
            Self::ReceiverNotReady => (syndrome::NOT_READY, 0x97),
            // The doorbell was wrong, the entry, or its blocks were reused early.
            Self::Overrun { .. }
            | Self::RegisterAhead { .. }
            | Self::RegisterBehind { .. }
            | Self::RegisterDiffers { .. }
            | Self::NothingNew { .. }
            | Self::Page { .. }
            | Self::NotReady(_) => (syndrome::LOCAL_OPERATION, 0x81),
            _ => (syndrome::LOCAL_OPERATION, 0x82),
        }
    }
}
