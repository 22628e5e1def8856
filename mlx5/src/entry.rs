//! Whole entries, as arrays of units that are stored as they are. A block holds four units; what an entry leaves of its
//! last block is never read.
//!
//! | function | segments | units | blocks |
//! |---|---|---|---|
//! | [`nop`] | control | 1 | 1 |
//! | [`write()`], [`write_immediate`], [`read`] | control, remote address, data pointer | 3 | 1 |
//! | [`write_nothing`] | control, remote address | 2 | 1 |
//! | [`write_inline`] | control, remote address, inline header and up to 12 bytes | 3 | 1 |
//! | [`inline_head`], [`inline_units`] | control, remote address, inline header and n bytes | 2 + (4 + n + 15) / 16 | |
//! | [`send`], [`send_immediate`] | control, data pointer | 2 | 1 |
//! | [`fetch_add`], [`compare_swap`] | control, remote address, atomic, data pointer | 4 | 1 |
//! | [`masked_fetch_add32`], [`masked_fetch_add64`], [`masked_compare_swap32`] | control, remote address, masked atomic, data pointer | 4 | 1 |
//! | [`masked_compare_swap64`] | control, remote address, masked atomic (32 bytes), data pointer | 5 | 2 |
//!
//! Operands of atomics are native numbers here and big-endian in the entry; the word in the target's memory is native.
//! What comes back is native for atomics of 8 bytes (as Linux sets adapters up), and big-endian for those of 4.

use crate::segment::{
    Atomic, Control, DataPointer, InlineHeader, MaskedCompareSwap32, MaskedCompareSwap64, MaskedFetchAdd32,
    MaskedFetchAdd64, RemoteAddress, flags,
};
use crate::unit::{MAX_UNITS, UNIT};
use crate::{Be32, Be64, Index, Length, Local, Opcode, QueuePair, Remote, Unit, opcode};

/// When an entry completes, besides in error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// Always.
    Always,
    /// A later entry's completion tells.
    Later,
}

/// What every entry says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Post {
    /// Its first block.
    pub index: Index,
    /// The queue pair that it is posted to.
    pub qp: QueuePair,
    /// Completion and fence bits ([`flags`]).
    pub flags: u8,
}

impl Post {
    /// At `index` of `qp`, without a completion of its own.
    #[inline(always)]
    pub const fn new(index: Index, qp: QueuePair) -> Self {
        Self { index, qp, flags: 0 }
    }

    /// With a completion of its own.
    #[must_use]
    #[inline(always)]
    pub const fn signalled(self) -> Self {
        self.when(When::Always)
    }

    /// With or without a completion of its own.
    #[must_use]
    #[inline(always)]
    pub const fn when(self, when: When) -> Self {
        let flags = match when {
            When::Always => self.flags | flags::COMPLETION,
            When::Later => self.flags & !flags::COMPLETION,
        };
        Self { flags, ..self }
    }

    /// Not before reads and atomics ahead of it in this queue pair have brought their data.
    #[must_use]
    #[inline(always)]
    pub const fn fenced(self) -> Self {
        Self {
            flags: self.flags | flags::FENCE,
            ..self
        }
    }

    /// Whether it has a completion of its own.
    #[inline(always)]
    pub const fn completes(self) -> bool {
        self.flags & flags::COMPLETION != 0
    }

    #[inline(always)]
    const fn control(self, opcode: Opcode, modifier: u8, units: u8) -> Control {
        Control::new(self.index, opcode, modifier, self.qp, units, self.flags)
    }
}

/// Does nothing.
#[inline(always)]
pub const fn nop(post: Post) -> [Unit; 1] {
    [post.control(Opcode::Nop, 0, 1).unit()]
}

/// Writes `length` from `from` to `to`.
#[inline(always)]
pub const fn write(post: Post, to: Remote, from: Local, length: Length) -> [Unit; 3] {
    [
        post.control(Opcode::Write, 0, 3).unit(),
        RemoteAddress::new(to).unit(),
        DataPointer::new(from, length).unit(),
    ]
}

/// Writes no bytes: completes when what is before it has.
#[inline(always)]
pub const fn write_nothing(post: Post, to: Remote) -> [Unit; 2] {
    [post.control(Opcode::Write, 0, 2).unit(), RemoteAddress::new(to).unit()]
}

/// Writes, and completes a receive of the target with `immediate`.
#[inline(always)]
pub const fn write_immediate(post: Post, to: Remote, from: Local, length: Length, immediate: Be32) -> [Unit; 3] {
    [
        post.control(Opcode::WriteImmediate, 0, 3)
            .with_immediate(immediate)
            .unit(),
        RemoteAddress::new(to).unit(),
        DataPointer::new(from, length).unit(),
    ]
}

/// Writes `bytes` (1 to 12) of `data`, whose words are as they lie in memory. None for other lengths.
///
/// ```
/// use shmem_mlx5::{Index, Post, QueuePair, Remote, RemoteKey, entry};
/// let post = Post::new(Index::new(0), QueuePair::new(1).unwrap());
/// let to = Remote { address: 0x2000, key: RemoteKey(7) };
/// let units = entry::write_inline(post, to, [5, 0, 0], 4).unwrap();
/// assert_eq!(units[2].to_bytes()[..8], [0x80, 0, 0, 4, 5, 0, 0, 0]);
/// assert_eq!(entry::write_inline(post, to, [5, 0, 0], 13), None);
/// ```
#[inline(always)]
pub const fn write_inline(post: Post, to: Remote, data: [u32; 3], bytes: u32) -> Option<[Unit; 3]> {
    if bytes == 0 || bytes as usize > InlineHeader::FIRST {
        return None;
    }
    Some([
        post.control(Opcode::Write, 0, 3).unit(),
        RemoteAddress::new(to).unit(),
        InlineHeader::new(bytes).unit(data),
    ])
}

/// Bytes that [`inline_head`] takes at most: what 63 units hold.
pub const MAX_INLINE: u32 = ((MAX_UNITS - 2) * UNIT - 4) as u32;

/// Units of an entry that writes `bytes` of inline data; None for 0 and above [`MAX_INLINE`].
///
/// ```
/// use shmem_mlx5::entry::{MAX_INLINE, inline_units};
/// assert_eq!(inline_units(12), Some(3));
/// assert_eq!(inline_units(13), Some(4));
/// assert_eq!(inline_units(MAX_INLINE), Some(63));
/// assert_eq!(inline_units(MAX_INLINE + 1), None);
/// ```
#[inline(always)]
pub const fn inline_units(bytes: u32) -> Option<usize> {
    if bytes == 0 || bytes > MAX_INLINE {
        return None;
    }
    Some(2 + (4 + bytes as usize).div_ceil(UNIT))
}

/// The first three units of an entry that writes `bytes` of inline data, with the first 12 bytes of it. The rest follows
/// in units of 16 bytes of data, [`inline_units`] in all. None where that is.
#[inline(always)]
pub const fn inline_head(post: Post, to: Remote, bytes: u32, first: [u32; 3]) -> Option<[Unit; 3]> {
    let Some(units) = inline_units(bytes) else {
        return None;
    };
    Some([
        post.control(Opcode::Write, 0, units as u8).unit(),
        RemoteAddress::new(to).unit(),
        InlineHeader::new(bytes).unit(first),
    ])
}

/// Reads `length` from `from` to `to`.
#[inline(always)]
pub const fn read(post: Post, from: Remote, to: Local, length: Length) -> [Unit; 3] {
    [
        post.control(Opcode::Read, 0, 3).unit(),
        RemoteAddress::new(from).unit(),
        DataPointer::new(to, length).unit(),
    ]
}

/// Sends `length` from `from`.
#[inline(always)]
pub const fn send(post: Post, from: Local, length: Length) -> [Unit; 2] {
    [
        post.control(Opcode::Send, 0, 2).unit(),
        DataPointer::new(from, length).unit(),
    ]
}

/// Sends `length` from `from`, with `immediate`.
#[inline(always)]
pub const fn send_immediate(post: Post, from: Local, length: Length, immediate: Be32) -> [Unit; 2] {
    [
        post.control(Opcode::SendImmediate, 0, 2)
            .with_immediate(immediate)
            .unit(),
        DataPointer::new(from, length).unit(),
    ]
}

const FOUR: Length = Length::new(4).unwrap();
const EIGHT: Length = Length::new(8).unwrap();

/// Adds to the 8 bytes at `to`; the old value goes to `old`.
#[inline(always)]
pub const fn fetch_add(post: Post, to: Remote, add: u64, old: Local) -> [Unit; 4] {
    let atomic = Atomic {
        swap_add: Be64::new(add),
        compare: Be64::new(0),
    };
    [
        post.control(Opcode::FetchAdd, 0, 4).unit(),
        RemoteAddress::new(to).unit(),
        atomic.unit(),
        DataPointer::new(old, EIGHT).unit(),
    ]
}

/// Puts `swap` in the 8 bytes at `to` where they are `compare`; the old value goes to `old`.
#[inline(always)]
pub const fn compare_swap(post: Post, to: Remote, compare: u64, swap: u64, old: Local) -> [Unit; 4] {
    let atomic = Atomic {
        swap_add: Be64::new(swap),
        compare: Be64::new(compare),
    };
    [
        post.control(Opcode::CompareSwap, 0, 4).unit(),
        RemoteAddress::new(to).unit(),
        atomic.unit(),
        DataPointer::new(old, EIGHT).unit(),
    ]
}

/// Adds to the fields of the 4 bytes at `to` that `boundary` ends ([`MaskedFetchAdd32::boundary`]); the old value goes to
/// `old`, big-endian.
#[inline(always)]
pub const fn masked_fetch_add32(post: Post, to: Remote, add: u32, boundary: u32, old: Local) -> [Unit; 4] {
    let atomic = MaskedFetchAdd32 {
        add: Be32::new(add),
        boundary: Be32::new(boundary),
        reserved: [Be32::new(0); 2],
    };
    [
        post.control(Opcode::MaskedFetchAdd, opcode::extended_atomic(2), 4)
            .unit(),
        RemoteAddress::new(to).unit(),
        atomic.unit(),
        DataPointer::new(old, FOUR).unit(),
    ]
}

/// Adds to the fields of the 8 bytes at `to` that `boundary` ends ([`MaskedFetchAdd64::boundary`]); the old value goes to
/// `old`.
#[inline(always)]
pub const fn masked_fetch_add64(post: Post, to: Remote, add: u64, boundary: u64, old: Local) -> [Unit; 4] {
    let atomic = MaskedFetchAdd64 {
        add: Be64::new(add),
        boundary: Be64::new(boundary),
    };
    [
        post.control(Opcode::MaskedFetchAdd, opcode::extended_atomic(3), 4)
            .unit(),
        RemoteAddress::new(to).unit(),
        atomic.unit(),
        DataPointer::new(old, EIGHT).unit(),
    ]
}

/// What a masked compare-and-swap does: where the old value's bits under `compare_mask` are those of `compare`, its bits
/// under `swap_mask` become those of `swap`.
///
/// Without a comparison (`compare_mask` 0): swap has all bits in `swap_mask`; or has `swap` and `swap_mask` equal; and has
/// `swap` 0 and `swap_mask` the bits to clear.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Masked<T> {
    /// New bits.
    pub swap: T,
    /// Expected bits.
    pub compare: T,
    /// Bits that are replaced.
    pub swap_mask: T,
    /// Bits that are compared.
    pub compare_mask: T,
}

/// Compares and swaps bits of the 4 bytes at `to`; the old value goes to `old`, big-endian.
#[inline(always)]
pub const fn masked_compare_swap32(post: Post, to: Remote, what: Masked<u32>, old: Local) -> [Unit; 4] {
    let atomic = MaskedCompareSwap32 {
        swap: Be32::new(what.swap),
        compare: Be32::new(what.compare),
        swap_mask: Be32::new(what.swap_mask),
        compare_mask: Be32::new(what.compare_mask),
    };
    [
        post.control(Opcode::MaskedCompareSwap, opcode::extended_atomic(2), 4)
            .unit(),
        RemoteAddress::new(to).unit(),
        atomic.unit(),
        DataPointer::new(old, FOUR).unit(),
    ]
}

/// Compares and swaps bits of the 8 bytes at `to`; the old value goes to `old`. Takes two blocks.
#[inline(always)]
pub const fn masked_compare_swap64(post: Post, to: Remote, what: Masked<u64>, old: Local) -> [Unit; 5] {
    let [first, second] = MaskedCompareSwap64 {
        swap: Be64::new(what.swap),
        compare: Be64::new(what.compare),
        swap_mask: Be64::new(what.swap_mask),
        compare_mask: Be64::new(what.compare_mask),
    }
    .units();
    [
        post.control(Opcode::MaskedCompareSwap, opcode::extended_atomic(3), 5)
            .unit(),
        RemoteAddress::new(to).unit(),
        first,
        second,
        DataPointer::new(old, EIGHT).unit(),
    ]
}
