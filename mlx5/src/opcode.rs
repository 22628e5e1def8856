//! What an entry asks for.

/// Operation of a work queue entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// Nothing; completes like others. Fills up a queue's end.
    Nop = 0x00,
    /// Writes to the target's memory.
    Write = 0x08,
    /// Writes, and completes a receive at the target with four bytes of immediate data.
    WriteImmediate = 0x09,
    /// Sends into memory that the target posted.
    Send = 0x0a,
    /// Sends, with four bytes of immediate data.
    SendImmediate = 0x0b,
    /// Reads the target's memory.
    Read = 0x10,
    /// Compares and swaps a word of the target's memory; the old value comes back.
    CompareSwap = 0x11,
    /// Adds to a word of the target's memory; the old value comes back.
    FetchAdd = 0x12,
    /// Compares and swaps the bits of masks.
    MaskedCompareSwap = 0x14,
    /// Adds to fields of a word, with no carry between them.
    MaskedFetchAdd = 0x15,
}

impl Opcode {
    /// All that this crate builds.
    pub const ALL: [Self; 10] = [
        Self::Nop,
        Self::Write,
        Self::WriteImmediate,
        Self::Send,
        Self::SendImmediate,
        Self::Read,
        Self::CompareSwap,
        Self::FetchAdd,
        Self::MaskedCompareSwap,
        Self::MaskedFetchAdd,
    ];

    /// The opcode of a number, if this crate knows it.
    ///
    /// ```
    /// use shmem_mlx5::Opcode;
    /// assert_eq!(Opcode::from_u8(0x10), Some(Opcode::Read));
    /// assert_eq!(Opcode::from_u8(0x7f), None);
    /// ```
    pub const fn from_u8(x: u8) -> Option<Self> {
        let mut i = 0;
        while i < Self::ALL.len() {
            if Self::ALL[i] as u8 == x {
                return Some(Self::ALL[i]);
            }
            i += 1;
        }
        None
    }
}

/// The opcode modifier of masked atomics: an extended atomic of 2^`log2_bytes` bytes (2 or 3).
pub const fn extended_atomic(log2_bytes: u8) -> u8 {
    8 | (log2_bytes - 2)
}
