//! What kernels on a GPU leave behind for a timeline, where they were built with `SHMEM_TIMELINE_EVENTS=1`: see
//! docs/src/timeline.md. Other builds have none of this, in code or data; the simulator keeps its own.
//!
//! The leader of each call writes a [`Record`] to its PE's ring when the call returns. A module built so has the constant
//! [`RING_SYMBOL`], a [`Ring`], which the host fills in.

use bytemuck::{Pod, Zeroable};

/// Symbol of the [`Ring`] in a module that has records.
pub const RING_SYMBOL: &str = "SHMEM_TIMELINE";

/// Where a PE's records go.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Ring {
    /// Device address: a u64 that counts calls, and at [`RECORDS_AT`] the records. 0 for no records.
    pub address: u64,
    /// Records that there is room for: later ones are only counted.
    pub capacity: u64,
}

/// Bytes from a ring's start to its records.
pub const RECORDS_AT: u64 = 128;

/// A call that has returned.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Record {
    /// `%globaltimer` when it began: nanoseconds, in steps of up to a microsecond.
    pub begin_ns: u64,
    /// `%clock64` of the multiprocessor when it began.
    pub begin_clock: u64,
    /// And when it returned.
    pub end_clock: u64,
    /// Device address of the source file's name, or of the kernel's.
    pub file: u64,
    /// Bytes that it moved, or 0.
    pub bytes: u64,
    /// Bytes of the name.
    pub file_len: u32,
    /// Line of the call.
    pub line: u32,
    /// A [`Kind`] as its number.
    pub kind: u32,
    /// The PE that it reached, or [`NO_PEER`].
    pub peer: u32,
    /// The block, by rank in the grid.
    pub block: u32,
    /// The thread, by rank in the block.
    pub thread: u32,
    /// The multiprocessor.
    pub sm: u32,
    /// Blocks in the grid.
    pub blocks: u32,
}

/// The peer of a call that reaches none.
pub const NO_PEER: u32 = u32::MAX;

macro_rules! kinds { ($($(#[$doc:meta])* $name:ident = $number:literal $text:literal,)*) => {
    /// What a record is of.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(u32)]
    pub enum Kind { $($(#[$doc])* $name = $number,)* }

    impl Kind {
        /// Its name in a timeline.
        pub const fn name(self) -> &'static str {
            match self { $(Self::$name => $text,)* }
        }
        /// The kind of this number.
        pub const fn from_number(number: u32) -> Option<Self> {
            match number { $($number => Some(Self::$name),)* _ => None }
        }
    }
} }
kinds! {
    /// A block, from its first thread's begin to its end; `file` is the kernel's name.
    Block = 1 "block",
    /// put, put_nbi, and puts of computed elements.
    Put = 2 "put",
    /// put_signal.
    PutSignal = 3 "put_signal",
    /// get, get_nbi.
    Get = 4 "get",
    /// p.
    P = 5 "p",
    /// g.
    G = 6 "g",
    /// signal_op.
    Signal = 7 "signal",
    /// An atomic at a PE.
    Atomic = 8 "atomic",
    /// fence.
    Fence = 9 "fence",
    /// quiet.
    Quiet = 10 "quiet",
    /// flush.
    Flush = 11 "flush",
    /// A wait for a word, or `spin_until`.
    Wait = 12 "wait",
    /// A sync of the block.
    SyncBlock = 13 "sync of the block",
    /// A sync of the grid.
    SyncGrid = 14 "sync of the grid",
    /// barrier and sync of a team.
    Barrier = 15 "barrier",
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::*;

    #[test]
    fn kinds_come_back_from_their_numbers() {
        for number in 1..16 {
            assert_eq!(Kind::from_number(number).map(|kind| kind as u32), Some(number));
        }
        assert_eq!(Kind::from_number(16), None);
        assert!(size_of::<Ring>() == 16 && size_of::<Record>() == 72);
    }
}
