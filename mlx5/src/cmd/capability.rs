//! What the adapter can do.

use super::{Field, MODIFIER, Opcode, command};

/// Where the capabilities start in the answer.
pub const CAPABILITIES: u32 = 0x80;
/// Bytes of the answer.
pub const ANSWER_BYTES: usize = 4112;

/// Groups of capabilities.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Group {
    /// [`general`].
    General = 0,
    /// [`atomic`].
    Atomic = 3,
    /// [`roce`].
    Roce = 4,
}

/// Asks for a group, as it is set now.
pub fn query(group: Group) -> [u8; 16] {
    let mut bytes = command(Opcode::QueryHcaCap);
    // The lowest bit: what is set, not what could be.
    MODIFIER.set(&mut bytes, (group as u64) << 1 | 1);
    bytes
}

/// Fields of the answer for [`Group::General`].
pub mod general {
    use super::{CAPABILITIES, Field};

    const fn at(start: u32, bits: u32) -> Field {
        Field::new(start, bits).within(CAPABILITIES)
    }

    /// Log2 of the most blocks of a send queue.
    pub const LOG_MAX_QP_SIZE: Field = at(0x88, 8);
    /// Log2 of the most queue pairs.
    pub const LOG_MAX_QP: Field = at(0x9b, 5);
    /// Log2 of the most completions of a queue.
    pub const LOG_MAX_CQ_SIZE: Field = at(0xc8, 8);
    /// Whether keys may let writes pass each other.
    pub const RELAXED_ORDERING_WRITE: Field = at(0xe8, 1);
    /// Log2 of the most reads and atomics in flight that a sender may have.
    pub const LOG_MAX_READS_SENDER: Field = at(0x14a, 6);
    /// Log2 of the most reads and atomics that a target may be asked at once.
    pub const LOG_MAX_READS_TARGET: Field = at(0x15a, 6);
    /// 0: InfiniBand, 1: Ethernet.
    pub const PORT_TYPE: Field = at(0x1b6, 2);
    /// Ports.
    pub const PORTS: Field = at(0x1b8, 8);
    /// Log2 of the longest message.
    pub const LOG_MAX_MESSAGE: Field = at(0x1c3, 5);
    /// Whether it has RoCE.
    pub const ROCE: Field = at(0x21d, 1);
    /// Whether it has atomics.
    pub const ATOMIC: Field = at(0x21e, 1);
    /// Pages of 4096 bytes for registers.
    pub const UAR_4K: Field = at(0x240, 1);
    /// Log2 of a register's bytes (both halves).
    pub const LOG_REGISTER_SIZE: Field = at(0x26b, 5);
}

/// Fields of the answer for [`Group::Atomic`].
pub mod atomic {
    use super::{CAPABILITIES, Field};

    const fn at(start: u32, bits: u32) -> Field {
        Field::new(start, bits).within(CAPABILITIES)
    }

    /// 1: atomics of 8 bytes give the old value in the host's byte order; 0: big-endian.
    pub const NATIVE_8_BYTES: Field = at(0x40, 2);
    /// Bits: compare-swap, fetch-add, masked compare-swap, masked fetch-add.
    pub const OPERATIONS: Field = at(0x90, 16);
    /// Sizes of atomics in bytes, or-ed.
    pub const SIZES: Field = at(0xb0, 16);
}

/// Fields of the answer for [`Group::Roce`].
pub mod roce {
    use super::{CAPABILITIES, Field};

    /// How completions of queue pairs can tell time; 0: by a counter that runs freely, and in no other way.
    pub const TIMESTAMP_FORMATS: Field = Field::new(0x1e, 2).within(CAPABILITIES);
}
