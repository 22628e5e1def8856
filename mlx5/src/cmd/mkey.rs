//! Memory keys over memory that was registered as a umem.

use super::{Field, Opcode, command};

/// Bytes of the command.
pub const BYTES: usize = 272;

/// Whether the translation is that of a umem.
pub const UMEM_VALID: Field = Field::new(0x61, 1);
/// Units of 16 bytes that the translation takes.
pub const TRANSLATION_UNITS: Field = Field::new(0x300, 32);
/// The umem.
pub const UMEM: Field = Field::new(0x320, 32);
/// Where the key's memory starts in it.
pub const UMEM_OFFSET: Field = Field::new(0x340, 64);

const fn context(start: u32, bits: u32) -> Field {
    Field::new(start, bits).within(0x80)
}

/// Whether writes may pass each other.
pub const RELAXED_ORDERING_WRITE: Field = context(0xd, 1);
/// Others may do atomics.
pub const REMOTE_ATOMIC: Field = context(0x11, 1);
/// Others may write.
pub const REMOTE_WRITE: Field = context(0x12, 1);
/// Others may read.
pub const REMOTE_READ: Field = context(0x13, 1);
/// This adapter may write.
pub const LOCAL_WRITE: Field = context(0x14, 1);
/// This adapter may read.
pub const LOCAL_READ: Field = context(0x15, 1);
/// How addresses are translated; 1: by pages.
pub const ACCESS_MODE: Field = context(0x16, 2);
/// The one queue pair that may use it; all ones: every one of the domain.
pub const QUEUE_PAIR: Field = context(0x20, 24);
/// Lowest 8 bits of the key.
pub const VARIANT: Field = context(0x38, 8);
/// Protection domain.
pub const DOMAIN: Field = context(0x68, 24);
/// Where entries' addresses start.
pub const START: Field = context(0x80, 64);
/// Bytes.
pub const LENGTH: Field = context(0xc0, 64);
/// Reads may pass each other.
pub const RELAXED_ORDERING_READ: Field = context(0x1d9, 1);
/// Log2 of a page.
pub const LOG_PAGE_SIZE: Field = context(0x1db, 5);

/// A key over a umem. The answer's [`NUMBER`](super::NUMBER) is the key without its lowest 8 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CreateKey {
    /// Protection domain.
    pub domain: u32,
    /// The umem.
    pub memory: u32,
    /// Where entries' addresses start.
    pub start: u64,
    /// Bytes.
    pub bytes: u64,
    /// Log2 of a page.
    pub log_page_size: u8,
    /// Lowest 8 bits of the key.
    pub variant: u8,
    /// Writes may pass each other: for bulk data, not for what somebody waits on.
    pub relaxed: bool,
}

impl CreateKey {
    /// Its bytes: a key that allows everything.
    pub fn command(&self) -> [u8; BYTES] {
        let mut bytes = command(Opcode::CreateMkey);
        let pages = self.bytes.div_ceil(1 << self.log_page_size.min(63));
        for (field, value) in [
            (UMEM_VALID, 1),
            (UMEM, self.memory as u64),
            // A page takes 8 bytes.
            (TRANSLATION_UNITS, pages.div_ceil(2)),
            (ACCESS_MODE, 1),
            (LOCAL_READ, 1),
            (LOCAL_WRITE, 1),
            (REMOTE_READ, 1),
            (REMOTE_WRITE, 1),
            (REMOTE_ATOMIC, 1),
            (RELAXED_ORDERING_WRITE, self.relaxed as u64),
            (QUEUE_PAIR, 0xff_ffff),
            (VARIANT, self.variant as u64),
            (DOMAIN, self.domain as u64),
            (START, self.start),
            (LENGTH, self.bytes),
            (LOG_PAGE_SIZE, self.log_page_size as u64),
        ] {
            field.set(&mut bytes, value);
        }
        bytes
    }
}
