//! How the adapter learns of new entries. In this order, each made visible before the next: the entries; the record, a
//! word in memory that says where the queue ends; the register, a write to the adapter's own page.

use crate::{Be32, Index, Unit};

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
