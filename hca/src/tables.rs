//! What entries, completions and doorbells look like, as this crate reads the public headers: every field by the bit
//! where it starts, counted from the first byte's highest bit. Nothing here comes from the crate that builds entries;
//! `tests/probe.rs` compares both with what a C compiler makes of `mlx5dv.h`.

/// Bits of a structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// What it is called here.
    pub name: &'static str,
    /// First bit.
    pub start: u32,
    /// How many, 1 to 64.
    pub bits: u32,
}

impl Field {
    /// Its value in `bytes`; bits that lie outside are 0.
    #[inline]
    pub fn get(&self, bytes: &[u8]) -> u64 {
        let (first, last) = (self.start / 8, (self.start + self.bits - 1) / 8);
        let all = (first..=last).fold(0u128, |sum, i| {
            sum << 8 | u128::from(bytes.get(i as usize).copied().unwrap_or(0))
        });
        (all >> self.behind()) as u64 & self.mask()
    }

    /// Writes it into `bytes`; bits that lie outside are dropped.
    pub fn set(&self, bytes: &mut [u8], value: u64) {
        let (first, last) = (self.start / 8, (self.start + self.bits - 1) / 8);
        let (mut mask, mut value) = (
            u128::from(self.mask()) << self.behind(),
            u128::from(value & self.mask()) << self.behind(),
        );
        for i in (first..=last).rev() {
            if let Some(byte) = bytes.get_mut(i as usize) {
                *byte = *byte & !(mask as u8) | value as u8;
            }
            (mask, value) = (mask >> 8, value >> 8);
        }
    }

    /// Bits between its end and the end of its last byte.
    #[inline]
    fn behind(&self) -> u32 {
        7 - (self.start + self.bits - 1) % 8
    }

    #[inline]
    fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }
}

/// A structure in memory.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// What it is called here.
    pub name: &'static str,
    /// Bytes.
    pub bytes: usize,
    /// Its fields; together they are all of it.
    pub fields: &'static [Field],
}

macro_rules! layouts { ($($(#[doc = $doc:literal])* $module:ident $name:literal $bytes:literal { $($field:ident = $start:literal, $bits:literal;)* })*) => {
    $(
        $(#[doc = $doc])*
        pub mod $module {
            use super::{Field, Layout};
            $(
                #[doc = concat!("Bits ", stringify!($start), " and on, ", stringify!($bits), " of them.")]
                pub const $field: Field = Field { name: stringify!($field), start: $start, bits: $bits };
            )*
            /// All of it.
            pub const LAYOUT: Layout = Layout { name: $name, bytes: $bytes, fields: &[$($field),*] };
            const _: () = {
                // Fields follow each other and fill the structure.
                let (mut i, mut at) = (0, 0);
                while i < LAYOUT.fields.len() {
                    assert!(LAYOUT.fields[i].start == at);
                    at += LAYOUT.fields[i].bits;
                    i += 1;
                }
                assert!(at == $bytes * 8);
            };
        }
    )*
    /// Every structure that entries are made of, and completions.
    pub const LAYOUTS: &[Layout] = &[$($module::LAYOUT),*];
} }
layouts! {
    /// First segment of an entry.
    control "control" 16 {
        MODIFIER = 0, 8; INDEX = 8, 16; OPCODE = 24, 8;
        QUEUE_PAIR = 32, 24; RESERVED_56 = 56, 2; UNITS = 58, 6;
        SIGNATURE = 64, 8; STREAM = 72, 16; FENCE = 88, 3; RESERVED_91 = 91, 1; COMPLETION = 92, 2; SOLICITED = 94, 1; RESERVED_95 = 95, 1;
        IMMEDIATE = 96, 32;
    }
    /// Place at the target.
    remote "remote address" 16 {
        ADDRESS = 0, 64; KEY = 64, 32; RESERVED_96 = 96, 32;
    }
    /// Local memory.
    pointer "data pointer" 16 {
        INLINE = 0, 1; BYTES = 1, 31; KEY = 32, 32; ADDRESS = 64, 64;
    }
    /// What stands before inline data.
    inline "inline header" 4 {
        INLINE = 0, 1; BYTES = 1, 31;
    }
    /// Operands of fetch-add and compare-swap.
    atomic "atomic" 16 {
        SWAP_ADD = 0, 64; COMPARE = 64, 64;
    }
    /// Operands of a masked compare-swap on 4 bytes.
    masked_swap32 "masked compare-swap, 4 bytes" 16 {
        SWAP = 0, 32; COMPARE = 32, 32; SWAP_MASK = 64, 32; COMPARE_MASK = 96, 32;
    }
    /// Operands of a masked compare-swap on 8 bytes.
    masked_swap64 "masked compare-swap, 8 bytes" 32 {
        SWAP = 0, 64; COMPARE = 64, 64; SWAP_MASK = 128, 64; COMPARE_MASK = 192, 64;
    }
    /// Operands of a masked fetch-add on 4 bytes.
    masked_add32 "masked fetch-add, 4 bytes" 16 {
        ADD = 0, 32; BOUNDARY = 32, 32; RESERVED_64 = 64, 64;
    }
    /// Operands of a masked fetch-add on 8 bytes.
    masked_add64 "masked fetch-add, 8 bytes" 16 {
        ADD = 0, 64; BOUNDARY = 64, 64;
    }
    /// A completion.
    completion "completion" 64 {
        RESERVED_0 = 0, 64; RESERVED_64 = 64, 64; RESERVED_128 = 128, 64; RESERVED_192 = 192, 64;
        USER_INDEX = 256, 32; IMMEDIATE = 288, 32; APPLICATION = 320, 32; BYTES = 352, 32; TIMESTAMP = 384, 64;
        ENTRY_OPCODE = 448, 8; QUEUE_PAIR = 456, 24; INDEX = 480, 16; SIGNATURE = 496, 8;
        KIND = 504, 4; FORMAT = 508, 2; SOLICITED = 510, 1; OWNER = 511, 1;
    }
    /// A completion in error.
    error_completion "error completion" 64 {
        RESERVED_0 = 0, 64; RESERVED_64 = 64, 64; RESERVED_128 = 128, 64; RESERVED_192 = 192, 64;
        RECEIVE_QUEUE = 256, 32; RESERVED_288 = 288, 64; RESERVED_352 = 352, 64; RESERVED_416 = 416, 16;
        VENDOR = 432, 8; SYNDROME = 440, 8;
        ENTRY_OPCODE = 448, 8; QUEUE_PAIR = 456, 24; INDEX = 480, 16; SIGNATURE = 496, 8;
        KIND = 504, 4; FORMAT = 508, 2; SOLICITED = 510, 1; OWNER = 511, 1;
    }
}

/// Bytes of a unit, which entries are counted in.
pub const UNIT: usize = 16;
/// Bytes of a block, which queues are counted in.
pub const BLOCK: usize = 64;
/// The longest message of a reliable queue pair.
pub const MAX_MESSAGE: u64 = 1 << 30;
/// Where the send queue's word lies in a queue pair's record.
pub const SEND_RECORD: u64 = 4;
/// Where a page has its two registers for sends.
pub const REGISTERS: [u64; 2] = [0x800, 0x900];
/// Bytes of a page of registers.
pub const PAGE: u64 = 4096;

/// Operations, by number.
pub mod opcode {
    /// Nothing.
    pub const NOP: u8 = 0;
    /// RDMA write.
    pub const WRITE: u8 = 8;
    /// RDMA write with immediate data.
    pub const WRITE_IMMEDIATE: u8 = 9;
    /// Send.
    pub const SEND: u8 = 10;
    /// Send with immediate data.
    pub const SEND_IMMEDIATE: u8 = 11;
    /// RDMA read.
    pub const READ: u8 = 16;
    /// Compare-swap on 8 bytes.
    pub const COMPARE_SWAP: u8 = 17;
    /// Fetch-add on 8 bytes.
    pub const FETCH_ADD: u8 = 18;
    /// Masked compare-swap.
    pub const MASKED_COMPARE_SWAP: u8 = 20;
    /// Masked fetch-add.
    pub const MASKED_FETCH_ADD: u8 = 21;
}

/// Modifier of masked atomics on 4 bytes.
pub const EXTENDED_4: u8 = 8;
/// Modifier of masked atomics on 8 bytes.
pub const EXTENDED_8: u8 = 9;

/// Kinds of completions, by number.
pub mod kind {
    /// An entry is done.
    pub const REQUEST: u8 = 0;
    /// An entry failed.
    pub const REQUEST_ERROR: u8 = 13;
    /// Nothing was written yet.
    pub const INVALID: u8 = 15;
}

/// What went wrong, by number.
pub mod syndrome {
    /// A message is too long.
    pub const LOCAL_LENGTH: u8 = 1;
    /// An entry is malformed.
    pub const LOCAL_OPERATION: u8 = 2;
    /// A local key does not cover it.
    pub const LOCAL_PROTECTION: u8 = 4;
    /// Given up after an earlier failure.
    pub const FLUSHED: u8 = 5;
    /// The target does not take such a request.
    pub const REMOTE_INVALID: u8 = 0x12;
    /// The target's key does not allow it.
    pub const REMOTE_ACCESS: u8 = 0x13;
    /// The target could not do it.
    pub const REMOTE_OPERATION: u8 = 0x14;
    /// No acknowledgement.
    pub const RETRIES: u8 = 0x15;
    /// No receive posted.
    pub const NOT_READY: u8 = 0x16;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_back_and_leave_their_neighbours() {
        for layout in LAYOUTS {
            for field in layout.fields {
                let mut bytes = vec![0xa5; layout.bytes];
                let before = bytes.clone();
                field.set(&mut bytes, 0x0123_4567_89ab_cdef);
                assert_eq!(
                    field.get(&bytes),
                    0x0123_4567_89ab_cdef & (u64::MAX >> (64 - field.bits)),
                    "{layout:?}"
                );
                for other in layout.fields.iter().filter(|o| *o != field) {
                    assert_eq!(other.get(&bytes), other.get(&before), "{field:?} {other:?}");
                }
            }
        }
    }
}
