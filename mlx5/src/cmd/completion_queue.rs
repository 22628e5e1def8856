//! Completion queues in memory that was registered as a umem.

use super::{Field, Opcode, command};

/// Bytes of the command.
pub const BYTES: usize = 272;

const fn context(start: u32, bits: u32) -> Field {
    Field::new(start, bits).within(0x80)
}

/// Whether the record lies in a umem.
pub const RECORD_UMEM_VALID: Field = context(0x6, 1);
/// 0: completions of 64 bytes.
pub const SIZE: Field = context(0x8, 3);
/// Every completion goes to the first slot.
pub const COLLAPSED: Field = context(0xb, 1);
/// Completions may overwrite ones that were not taken.
pub const IGNORE_OVERRUN: Field = context(0xe, 1);
/// The umem of the record.
pub const RECORD_UMEM: Field = context(0x20, 32);
/// Log2 of the slots.
pub const LOG_SIZE: Field = context(0x63, 5);
/// Page of its register.
pub const PAGE: Field = context(0x68, 24);
/// Event queue.
pub const EVENT_QUEUE: Field = context(0xb8, 8);
/// Where the record lies in its umem.
pub const RECORD_OFFSET: Field = context(0x1c0, 64);
/// Where the slots lie in their umem.
pub const UMEM_OFFSET: Field = Field::new(0x280, 64);
/// The umem of the slots.
pub const UMEM: Field = Field::new(0x2c0, 32);
/// Whether the slots lie in a umem.
pub const UMEM_VALID: Field = Field::new(0x2e0, 1);

/// A completion queue. Its slots must say [`INVALID`](crate::completion::INVALID) beforehand. The answer has its
/// [`NUMBER`](super::NUMBER).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CreateCompletionQueue {
    /// Log2 of its slots.
    pub log2: u8,
    /// Page of its register.
    pub page: u32,
    /// Event queue (`mlx5dv_devx_query_eqn`).
    pub event_queue: u8,
    /// The umem of its slots.
    pub memory: u32,
    /// Where they lie in it.
    pub offset: u64,
    /// The umem of its record.
    pub record_memory: u32,
    /// Where it lies in it.
    pub record_offset: u64,
    /// Every completion goes to the first slot.
    pub collapsed: bool,
    /// Completions may overwrite ones that were not taken.
    pub ignore_overrun: bool,
}

impl CreateCompletionQueue {
    /// Its bytes.
    pub fn command(&self) -> [u8; BYTES] {
        let mut bytes = command(Opcode::CreateCq);
        for (field, value) in [
            (COLLAPSED, self.collapsed as u64),
            (IGNORE_OVERRUN, self.ignore_overrun as u64),
            (LOG_SIZE, self.log2 as u64),
            (PAGE, self.page as u64),
            (EVENT_QUEUE, self.event_queue as u64),
            (RECORD_UMEM_VALID, 1),
            (RECORD_UMEM, self.record_memory as u64),
            (RECORD_OFFSET, self.record_offset),
            (UMEM_VALID, 1),
            (UMEM, self.memory as u64),
            (UMEM_OFFSET, self.offset),
        ] {
            field.set(&mut bytes, value);
        }
        bytes
    }
}
