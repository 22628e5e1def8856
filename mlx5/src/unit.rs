//! The unit that entries are made of and counted in.

use crate::{Be32, Be64};

/// 16 bytes of a work queue entry, as four words that a native store writes (one `st.v4.b32` of a GPU).
///
/// ```
/// use shmem_mlx5::{Be32, Unit};
/// let unit = Unit::new(Be32::new(1), Be32::new(2), Be32::new(3), Be32::new(4));
/// assert_eq!(unit.to_bytes(), [0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(16))]
pub struct Unit(pub [u32; 4]);

/// Bytes of a unit.
pub const UNIT: usize = 16;
/// Bytes of a block, in which queues are sized and indexed: an entry starts at one and takes whole ones.
pub const BLOCK: usize = 64;
/// Units of a block.
pub const UNITS_OF_BLOCK: usize = BLOCK / UNIT;
/// Units that an entry has at most: its control segment counts them in six bits.
pub const MAX_UNITS: usize = 63;

const _: () = assert!(size_of::<Unit>() == UNIT && align_of::<Unit>() == UNIT);

impl Unit {
    /// Of four words.
    #[inline(always)]
    pub const fn new(a: Be32, b: Be32, c: Be32, d: Be32) -> Self {
        Self([a.raw(), b.raw(), c.raw(), d.raw()])
    }

    /// Of two long words.
    #[inline(always)]
    pub const fn of_long(a: Be64, b: Be64) -> Self {
        Self::from_bytes2(a.to_bytes(), b.to_bytes())
    }

    #[inline(always)]
    const fn from_bytes2(a: [u8; 8], b: [u8; 8]) -> Self {
        let (a, b) = (u64::from_ne_bytes(a), u64::from_ne_bytes(b));
        if cfg!(target_endian = "little") {
            Self([a as u32, (a >> 32) as u32, b as u32, (b >> 32) as u32])
        } else {
            Self([(a >> 32) as u32, a as u32, (b >> 32) as u32, b as u32])
        }
    }

    /// Its bytes in memory.
    pub const fn to_bytes(self) -> [u8; UNIT] {
        let (mut bytes, mut i) = ([0; UNIT], 0);
        while i < UNIT {
            bytes[i] = self.0[i / 4].to_ne_bytes()[i % 4];
            i += 1;
        }
        bytes
    }

    /// From its bytes in memory.
    pub const fn from_bytes(bytes: [u8; UNIT]) -> Self {
        let (mut words, mut i) = ([0; 4], 0);
        while i < 4 {
            words[i] = u32::from_ne_bytes([bytes[4 * i], bytes[4 * i + 1], bytes[4 * i + 2], bytes[4 * i + 3]]);
            i += 1;
        }
        Self(words)
    }

    /// The two long words that native stores write (one `st.v2.b64` of a GPU).
    #[inline(always)]
    pub const fn as_long(self) -> [u64; 2] {
        if cfg!(target_endian = "little") {
            [
                self.0[0] as u64 | (self.0[1] as u64) << 32,
                self.0[2] as u64 | (self.0[3] as u64) << 32,
            ]
        } else {
            [
                (self.0[0] as u64) << 32 | self.0[1] as u64,
                (self.0[2] as u64) << 32 | self.0[3] as u64,
            ]
        }
    }
}

/// Blocks that an entry of `units` takes in its queue.
#[inline(always)]
pub const fn blocks(units: usize) -> u16 {
    units.div_ceil(UNITS_OF_BLOCK) as u16
}
