//! How the adapter learns of new entries. In this order, each made visible before the next: the entries; the record, a
//! word in memory that says where the queue ends; the register, a write to the adapter's own page.

use crate::{Be32, Index, QueuePair, Unit};

/// Bytes of a queue pair's record: a word for each queue.
pub const RECORD_BYTES: usize = 8;
/// Where the receive queue's word lies in it (`MLX5_RCV_DBR`).
pub const RECEIVE_OFFSET: usize = 0;
/// Where the send queue's word lies in it (`MLX5_SND_DBR`).
pub const SEND_OFFSET: usize = 4;

/// Bytes of a page of registers (UAR).
pub const PAGE_BYTES: usize = 4096;
/// Where the first register for sends lies in a page.
pub const REGISTER_OFFSET: usize = 0x800;
/// Bytes that one register takes there.
pub const REGISTER_BYTES: usize = 0x100;

/// The record of a send queue whose next entry will be at `next`: what goes to [`SEND_OFFSET`].
#[inline(always)]
pub const fn record(next: Index) -> Be32 {
    Be32::new(next.get() as u32)
}

/// The record of a completion queue from which `taken` completions were taken: 24 bits of them.
#[inline(always)]
pub const fn completion_record(taken: u64) -> Be32 {
    Be32::new(taken as u32 & 0xff_ffff)
}

/// What is written to the register: the first 8 bytes of the last new entry's control segment, as one native store of 8
/// bytes writes them.
#[inline(always)]
pub const fn register(control: Unit) -> Register {
    Register(control.as_long()[0])
}

/// A value for the register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Register(u64);

impl Register {
    /// What one native store of 8 bytes must write.
    #[inline(always)]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Its bytes, in the order that the adapter gets them.
    #[inline(always)]
    pub const fn to_be_bytes(self) -> [u8; 8] {
        self.0.to_ne_bytes()
    }
}

/// What an entry's register holds besides its index and its queue pair: kept where that is shorter, and made a register again.
///
/// ```
/// use shmem_mlx5::{Index, Post, QueuePair, doorbell, entry};
/// let (index, qp) = (Index::new(0x1234), QueuePair::new(0x56_789a).unwrap());
/// let register = doorbell::register(entry::nop(Post::new(index, qp))[0]);
/// let kind = register.kind();
/// assert_eq!(kind.units(), 1);
/// assert_eq!(doorbell::Kind::from_bits(kind.bits()).register(index, qp), register);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Kind(u32);

impl Register {
    /// What remains without index and queue pair.
    #[inline(always)]
    pub const fn kind(self) -> Kind {
        let all = u64::from_be(self.0);
        // Modifier (8 bits), index (16), opcode (8); queue pair (24), units (8).
        Kind(((all >> 56) as u32) << 16 | ((all >> 32) as u32 & 0xff) << 8 | (all as u32 & 0x3f))
    }
}

impl Kind {
    /// Bits of [`Kind::bits`] that are in use.
    pub const BITS: u32 = 24;

    /// As a number below 2^24.
    #[inline(always)]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// From its number.
    #[inline(always)]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits & 0xff_ff3f)
    }

    /// Units of the entry.
    #[inline(always)]
    pub const fn units(self) -> usize {
        (self.0 & 0x3f) as usize
    }

    /// The entry's opcode.
    #[inline(always)]
    pub const fn opcode(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// The register of such an entry at `index` of `qp`.
    #[inline(always)]
    pub const fn register(self, index: Index, qp: QueuePair) -> Register {
        let high = (self.0 & 0xff_0000) << 8 | (index.get() as u32) << 8 | (self.0 >> 8) & 0xff;
        let low = qp.get() << 8 | self.0 & 0x3f;
        Register(((high as u64) << 32 | low as u64).to_be())
    }
}
