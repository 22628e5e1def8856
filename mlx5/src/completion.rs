//! What the adapter writes to a completion queue.
//!
//! A slot is the adapter's until its opcode is valid and its owner bit is that of this pass
//! ([`QueueSize::owner`](crate::QueueSize::owner)). In a collapsed queue every completion goes to slot 0, and only
//! [`Tail::index`] tells how far the send queue is.

use crate::{Be16, Be32, Be64, Index};

/// Bytes of a completion.
pub const BYTES: usize = 64;
/// Where the word of [`Tail`] lies in it.
pub const TAIL_OFFSET: usize = 60;

/// A completion of 64 bytes (`mlx5_cqe64`), as far as reliable queue pairs use it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Completion {
    /// Nothing that a sender needs.
    pub reserved: [Be32; 8],
    /// Shared receive queue, or a number of the user's own.
    pub user_index: Be32,
    /// Immediate data that came with it.
    pub immediate: Be32,
    /// Nothing that a sender needs.
    pub application: Be32,
    /// Bytes that came with it.
    pub bytes: Be32,
    /// When.
    pub timestamp: Be64,
    /// The entry's opcode (8 bits) and queue pair (24).
    pub opcode_queue_pair: Be32,
    /// Index of the entry's first block.
    pub index: Be16,
    /// Signature.
    pub signature: u8,
    /// Opcode (4 bits), format (2), solicited (1), owner (1).
    pub opcode_owner: u8,
}

/// A completion in error (`mlx5_err_cqe`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct ErrorCompletion {
    /// Nothing.
    pub reserved: [Be32; 8],
    /// Shared receive queue.
    pub receive_queue: Be32,
    /// Nothing.
    pub reserved2: [Be16; 9],
    /// What the maker's support wants to know.
    pub vendor: u8,
    /// What went wrong: [`Syndrome`].
    pub syndrome: u8,
    /// The entry's opcode (8 bits) and queue pair (24).
    pub opcode_queue_pair: Be32,
    /// Index of the entry's first block.
    pub index: Be16,
    /// Signature.
    pub signature: u8,
    /// Opcode (4 bits), format (2), solicited (1), owner (1).
    pub opcode_owner: u8,
}

const fn be32(bytes: &[u8; BYTES], at: usize) -> Be32 {
    Be32::from_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

const fn reserved(bytes: &[u8; BYTES]) -> [Be32; 8] {
    let (mut words, mut i) = ([Be32::new(0); 8], 0);
    while i < 8 {
        words[i] = be32(bytes, 4 * i);
        i += 1;
    }
    words
}

impl Completion {
    /// From its bytes in memory.
    pub const fn from_bytes(bytes: &[u8; BYTES]) -> Self {
        let (high, low) = (be32(bytes, 48).get(), be32(bytes, 52).get());
        Self {
            reserved: reserved(bytes),
            user_index: be32(bytes, 32),
            immediate: be32(bytes, 36),
            application: be32(bytes, 40),
            bytes: be32(bytes, 44),
            timestamp: Be64::new((high as u64) << 32 | low as u64),
            opcode_queue_pair: be32(bytes, 56),
            index: Be16::from_bytes([bytes[60], bytes[61]]),
            signature: bytes[62],
            opcode_owner: bytes[63],
        }
    }
}

impl ErrorCompletion {
    /// From its bytes in memory.
    pub const fn from_bytes(bytes: &[u8; BYTES]) -> Self {
        let (mut reserved2, mut i) = ([Be16::new(0); 9], 0);
        while i < 9 {
            reserved2[i] = Be16::from_bytes([bytes[36 + 2 * i], bytes[37 + 2 * i]]);
            i += 1;
        }
        Self {
            reserved: reserved(bytes),
            receive_queue: be32(bytes, 32),
            reserved2,
            vendor: bytes[54],
            syndrome: bytes[55],
            opcode_queue_pair: be32(bytes, 56),
            index: Be16::from_bytes([bytes[60], bytes[61]]),
            signature: bytes[62],
            opcode_owner: bytes[63],
        }
    }
}

/// Where the word of [`detail`] lies in an error completion.
pub const DETAIL_OFFSET: usize = 52;

/// Syndrome and vendor syndrome, from what a native load of 4 bytes at [`DETAIL_OFFSET`] gives.
///
/// ```
/// use shmem_mlx5::completion::{Syndrome, detail};
/// let word = u32::from_ne_bytes([0, 0, 0x96, 0x15]);
/// assert_eq!(detail(word), (Syndrome::RetriesExceeded, 0x96));
/// ```
pub const fn detail(raw: u32) -> (Syndrome, u8) {
    let [_, _, vendor, syndrome] = raw.to_ne_bytes();
    (Syndrome::from_u8(syndrome), vendor)
}

const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<Completion>() == BYTES && size_of::<ErrorCompletion>() == BYTES);
    assert!(offset_of!(Completion, user_index) == 32 && offset_of!(Completion, bytes) == 44);
    assert!(offset_of!(Completion, timestamp) == 48 && offset_of!(Completion, opcode_queue_pair) == 56);
    assert!(offset_of!(Completion, index) == TAIL_OFFSET && offset_of!(Completion, opcode_owner) == 63);
    assert!(offset_of!(ErrorCompletion, vendor) == 54 && offset_of!(ErrorCompletion, syndrome) == 55);
    assert!(offset_of!(ErrorCompletion, index) == TAIL_OFFSET && offset_of!(ErrorCompletion, opcode_owner) == 63);
};

/// What kind of completion it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Kind {
    /// An entry of the send queue is done.
    Request = 0,
    /// A write with immediate data arrived.
    ReceivedWriteImmediate = 1,
    /// A message arrived.
    ReceivedSend = 2,
    /// A message with immediate data arrived.
    ReceivedSendImmediate = 3,
    /// An entry of the send queue failed.
    RequestError = 13,
    /// A receive failed.
    ReceiveError = 14,
    /// Nothing was written here yet.
    Invalid = 15,
}

/// What a slot holds before anything is written to it: [`Kind::Invalid`].
pub const INVALID: u8 = (Kind::Invalid as u8) << 4;

/// The last four bytes of a completion, which are valid together: one load tells all that a poll needs.
///
/// ```
/// use shmem_mlx5::{Index, completion::{Kind, Tail}};
/// let tail = Tail::from_bytes([0x12, 0x34, 0, 0xd1]);
/// assert_eq!(tail.index(), Index::new(0x1234));
/// assert_eq!(tail.kind(), Some(Kind::RequestError));
/// assert_eq!(tail.owner(), 1);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tail(Be32);

impl Tail {
    /// From what a native load of 4 bytes gives.
    #[inline(always)]
    pub const fn from_raw(raw: u32) -> Self {
        Self(Be32::from_raw(raw))
    }

    /// From its bytes in memory.
    pub const fn from_bytes(bytes: [u8; 4]) -> Self {
        Self(Be32::from_bytes(bytes))
    }

    /// Index of the entry's first block.
    #[inline(always)]
    pub const fn index(self) -> Index {
        Index::new((self.0.get() >> 16) as u16)
    }

    /// What kind of completion it is, if it is a known one.
    #[inline(always)]
    pub const fn kind(self) -> Option<Kind> {
        match (self.0.get() >> 4) & 0xf {
            0 => Some(Kind::Request),
            1 => Some(Kind::ReceivedWriteImmediate),
            2 => Some(Kind::ReceivedSend),
            3 => Some(Kind::ReceivedSendImmediate),
            13 => Some(Kind::RequestError),
            14 => Some(Kind::ReceiveError),
            15 => Some(Kind::Invalid),
            _ => None,
        }
    }

    /// Whether an entry failed.
    #[inline(always)]
    pub const fn is_error(self) -> bool {
        matches!((self.0.get() >> 4) & 0xf, 13 | 14)
    }

    /// The owner bit.
    #[inline(always)]
    pub const fn owner(self) -> u8 {
        self.0.get() as u8 & 1
    }
}

macro_rules! syndromes { ($($name:ident = $code:literal, $text:literal, $advice:literal;)*) => {
    /// What went wrong with an entry.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
    pub enum Syndrome {
        $(#[doc = concat!($text, ": ", $advice, ".")] $name,)*
        /// None that is known here.
        Unknown(u8),
    }

    impl Syndrome {
        /// All known ones.
        pub const ALL: &'static [Self] = &[$(Self::$name),*];

        /// Of an error completion's byte.
        pub const fn from_u8(code: u8) -> Self {
            match code {
                $($code => Self::$name,)*
                other => Self::Unknown(other),
            }
        }

        /// The byte.
        pub const fn code(self) -> u8 {
            match self {
                $(Self::$name => $code,)*
                Self::Unknown(code) => code,
            }
        }

        /// What went wrong, and what to do.
        pub const fn advice(self) -> (&'static str, &'static str) {
            match self {
                $(Self::$name => ($text, $advice),)*
                Self::Unknown(_) => ("unknown syndrome", "look it up in the adapter's manual, with the vendor syndrome"),
            }
        }
    }
} }
syndromes! {
    LocalLength = 0x01, "a message is longer than allowed", "split the put or get, or raise the path's largest message";
    LocalQueuePairOperation = 0x02, "the queue pair can't do what an entry asks for",
        "this is an entry that was written wrong: report it, with the entry's bytes";
    LocalProtection = 0x04, "a local key does not cover the memory of an entry", "allocate or register the source of the put or the destination of the get";
    Flushed = 0x05, "an entry was given up after an earlier one failed", "look at the first error of this queue pair: where all completions have one slot, quiet after each call shows it";
    MemoryWindowBind = 0x06, "a memory window could not be bound", "check its range and permissions";
    BadResponse = 0x10, "the target answered with something unexpected", "check cables, firmware and that both ends use the same connection settings";
    LocalAccess = 0x11, "a local key does not allow the access", "register the memory for local writes";
    RemoteInvalidRequest = 0x12, "the target does not take such a request",
        "check that atomics are aligned and enabled at the target, and the depth of reads in flight";
    RemoteAccess = 0x13, "the target's key does not allow the access", "check that the target's memory is still allocated, and the range of the put or get";
    RemoteOperation = 0x14, "the target could not carry out the request", "look at the target's own errors";
    RetriesExceeded = 0x15, "the target did not acknowledge", "check that the target runs and is reachable: link, GID index, firewall, MTU";
    ReceiverNotReady = 0x16, "the target has no receive posted", "post receives at the target before sending";
    RemoteAborted = 0x22, "the target aborted the operation", "look at the target's own errors";
}

impl core::fmt::Display for Syndrome {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (what, advice) = self.advice();
        write!(f, "{what} (syndrome {:#04x}): {advice}", self.code())
    }
}
