//! Positions in queues. Adapters count blocks in 16 bits whatever a queue's size is; software counts in 64 and tells
//! what a 16-bit number means from what it has posted.

use crate::unit::{BLOCK, blocks};

/// Number of a block since the queue was made, modulo 2^16.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub struct Index(u16);

impl Index {
    /// Of the low 16 bits.
    #[inline(always)]
    pub const fn new(low: u16) -> Self {
        Self(low)
    }

    /// Of a position that never wraps.
    #[inline(always)]
    pub const fn of(position: u64) -> Self {
        Self(position as u16)
    }

    /// The low 16 bits.
    #[inline(always)]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// Where the next entry starts after one of `units` here.
    #[must_use]
    #[inline(always)]
    pub const fn after(self, units: usize) -> Self {
        Self(self.0.wrapping_add(blocks(units)))
    }

    /// Whether this is at or behind `other`: exact as long as they are less than 2^15 apart, which a queue's size ensures.
    ///
    /// ```
    /// use shmem_mlx5::Index;
    /// assert!(Index::new(2).has_reached(Index::new(0xfffe)));
    /// assert!(!Index::new(0xfffe).has_reached(Index::new(2)));
    /// ```
    #[inline(always)]
    pub const fn has_reached(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i16) >= 0
    }

    /// The position whose low 16 bits these are: the last one before `posted`, which at most 2^16 lie between.
    ///
    /// ```
    /// use shmem_mlx5::Index;
    /// assert_eq!(Index::new(0xffff).position_before(0x2_0003), 0x1_ffff);
    /// assert_eq!(Index::new(2).position_before(0x2_0003), 0x2_0002);
    /// assert_eq!(Index::new(3).position_before(0x2_0003), 0x1_0003);
    /// ```
    #[inline(always)]
    pub const fn position_before(self, posted: u64) -> u64 {
        let last = posted.wrapping_sub(1);
        last.wrapping_sub((last as u16).wrapping_sub(self.0) as u64)
    }
}

/// Blocks of a send queue, or entries of a completion queue: a power of two.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueSize(u8);

impl QueueSize {
    /// The largest: half of what indices tell apart.
    pub const MAX_LOG2: u8 = 15;

    /// 2^`log2`; None above [`QueueSize::MAX_LOG2`].
    #[inline(always)]
    pub const fn from_log2(log2: u8) -> Option<Self> {
        if log2 <= Self::MAX_LOG2 { Some(Self(log2)) } else { None }
    }

    /// Log2 of the count.
    #[inline(always)]
    pub const fn log2(self) -> u8 {
        self.0
    }

    /// How many.
    #[inline(always)]
    pub const fn count(self) -> u32 {
        1 << self.0
    }

    /// Bytes of the whole queue.
    #[inline(always)]
    pub const fn bytes(self) -> usize {
        BLOCK << self.0
    }

    /// The slot of an index.
    #[inline(always)]
    pub const fn slot(self, index: Index) -> u32 {
        index.0 as u32 & (self.count() - 1)
    }

    /// Where an index lies, in bytes from the queue's start.
    #[inline(always)]
    pub const fn offset(self, index: Index) -> usize {
        self.slot(index) as usize * BLOCK
    }

    /// Where unit `unit` of the entry at `index` lies, in bytes from the queue's start: entries go on at the start where
    /// the queue ends.
    #[inline(always)]
    pub const fn offset_of_unit(self, index: Index, unit: usize) -> usize {
        (self.offset(index) + unit * crate::unit::UNIT) & (self.bytes() - 1)
    }

    /// The owner bit of a completion that is the `position`th of its queue: it changes with every pass.
    #[inline(always)]
    pub const fn owner(self, position: u64) -> u8 {
        (position >> self.0) as u8 & 1
    }
}
