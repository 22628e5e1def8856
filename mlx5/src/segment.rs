//! The parts of entries, as they lie in memory. Sizes and offsets are checked when this crate is compiled.
//!
//! [`entry`](crate::entry) puts them together; the `unit` functions here give each as what a GPU stores.

use crate::{Be32, Be64, Index, Length, Local, Opcode, QueuePair, Remote, Unit};

/// First part of every entry (`mlx5_wqe_ctrl_seg`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Control {
    /// Opcode modifier (8 bits), index of the entry's first block (16), opcode (8).
    pub modifier_index_opcode: Be32,
    /// Queue pair (24 bits), two reserved bits, units of the entry (6).
    pub queue_pair_units: Be32,
    /// Signature (8 bits), stream (16), fence, completion and solicited bits (8): [`flags`].
    pub signature_stream_flags: Be32,
    /// Immediate data.
    pub immediate: Be32,
}

/// Bits of the control segment's last byte of flags (`fm_ce_se`).
pub mod flags {
    /// Completes always; without it, only in error (`MLX5_WQE_CTRL_CQ_UPDATE`).
    pub const COMPLETION: u8 = 2 << 2;
    /// The target's completion raises an event (`MLX5_WQE_CTRL_SOLICITED`).
    pub const SOLICITED: u8 = 1 << 1;
    /// Waits for local invalidations before it (`MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE`).
    pub const SMALL_FENCE: u8 = 1 << 5;
    /// Waits for reads and atomics before it (`MLX5_FENCE_MODE_FENCE`).
    pub const READ_FENCE: u8 = 2 << 5;
    /// Waits for everything before it (`MLX5_FENCE_MODE_STRONG_ORDERING`).
    pub const STRONG: u8 = 3 << 5;
    /// Both of the fences (`MLX5_WQE_CTRL_FENCE`).
    pub const FENCE: u8 = 4 << 5;
}

impl Control {
    /// The segment of an entry of `units`.
    #[inline(always)]
    pub const fn new(index: Index, opcode: Opcode, modifier: u8, qp: QueuePair, units: u8, flags: u8) -> Self {
        Self {
            modifier_index_opcode: Be32::new((modifier as u32) << 24 | (index.get() as u32) << 8 | opcode as u32),
            queue_pair_units: Be32::new(qp.get() << 8 | units as u32),
            signature_stream_flags: Be32::new(flags as u32),
            immediate: Be32::new(0),
        }
    }

    /// With immediate data.
    #[must_use]
    #[inline(always)]
    pub const fn with_immediate(self, immediate: Be32) -> Self {
        Self { immediate, ..self }
    }

    /// As a GPU stores it.
    #[inline(always)]
    pub const fn unit(self) -> Unit {
        Unit::new(
            self.modifier_index_opcode,
            self.queue_pair_units,
            self.signature_stream_flags,
            self.immediate,
        )
    }

    /// Index of the entry's first block.
    pub const fn index(self) -> Index {
        Index::new((self.modifier_index_opcode.get() >> 8) as u16)
    }

    /// Opcode, if it is a known one.
    pub const fn opcode(self) -> Option<Opcode> {
        Opcode::from_u8(self.modifier_index_opcode.get() as u8)
    }

    /// Units of the entry.
    pub const fn units(self) -> u8 {
        self.queue_pair_units.get() as u8 & 0x3f
    }
}

/// Place in the target's memory (`mlx5_wqe_raddr_seg`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct RemoteAddress {
    /// Address.
    pub address: Be64,
    /// The target's key.
    pub key: Be32,
    /// Zero.
    pub reserved: Be32,
}

impl RemoteAddress {
    /// Of a place.
    #[inline(always)]
    pub const fn new(place: Remote) -> Self {
        Self {
            address: Be64::new(place.address),
            key: Be32::new(place.key.0),
            reserved: Be32::new(0),
        }
    }

    /// As a GPU stores it.
    #[inline(always)]
    pub const fn unit(self) -> Unit {
        let [high, low] = split(self.address);
        Unit::new(high, low, self.key, self.reserved)
    }
}

/// Memory that data is taken from or put to (`mlx5_wqe_data_seg`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct DataPointer {
    /// Bytes.
    pub bytes: Be32,
    /// Local key.
    pub key: Be32,
    /// Address.
    pub address: Be64,
}

impl DataPointer {
    /// Of `length` at `place`.
    #[inline(always)]
    pub const fn new(place: Local, length: Length) -> Self {
        Self {
            bytes: Be32::new(length.get()),
            key: Be32::new(place.key.0),
            address: Be64::new(place.address),
        }
    }

    /// As a GPU stores it.
    #[inline(always)]
    pub const fn unit(self) -> Unit {
        let [high, low] = split(self.address);
        Unit::new(self.bytes, self.key, high, low)
    }
}

/// What stands before data that lies in the entry itself (`mlx5_wqe_inl_data_seg`). The data follows at once, and is
/// padded to a whole unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct InlineHeader {
    /// [`InlineHeader::INLINE`], and the bytes that follow.
    pub bytes: Be32,
}

impl InlineHeader {
    /// Tells inline data from a data pointer (`MLX5_INLINE_SEG`).
    pub const INLINE: u32 = 0x8000_0000;
    /// Bytes of data in the header's own unit.
    pub const FIRST: usize = 12;

    /// Before `bytes` of data.
    #[inline(always)]
    pub const fn new(bytes: u32) -> Self {
        Self {
            bytes: Be32::new(Self::INLINE | bytes),
        }
    }

    /// With the first 12 bytes of data, as a GPU stores it. Words are as they lie in memory: data is not swapped.
    #[inline(always)]
    pub const fn unit(self, data: [u32; 3]) -> Unit {
        Unit([self.bytes.raw(), data[0], data[1], data[2]])
    }
}

/// Operands of an atomic on 8 bytes (`mlx5_wqe_atomic_seg`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Atomic {
    /// What is added, or takes the place of the old value.
    pub swap_add: Be64,
    /// What the old value must be.
    pub compare: Be64,
}

impl Atomic {
    /// As a GPU stores it.
    #[inline(always)]
    pub const fn unit(self) -> Unit {
        Unit::of_long(self.swap_add, self.compare)
    }
}

/// Operands of a masked compare-and-swap on 4 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct MaskedCompareSwap32 {
    /// Takes the place of the old value's bits under [`Self::swap_mask`].
    pub swap: Be32,
    /// What the old value's bits under [`Self::compare_mask`] must be.
    pub compare: Be32,
    /// Bits that are replaced.
    pub swap_mask: Be32,
    /// Bits that are compared.
    pub compare_mask: Be32,
}

impl MaskedCompareSwap32 {
    /// As a GPU stores it.
    #[inline(always)]
    pub const fn unit(self) -> Unit {
        Unit::new(self.swap, self.compare, self.swap_mask, self.compare_mask)
    }
}

/// Operands of a masked compare-and-swap on 8 bytes (`mlx5_wqe_masked_atomic_seg`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct MaskedCompareSwap64 {
    /// Takes the place of the old value's bits under [`Self::swap_mask`].
    pub swap: Be64,
    /// What the old value's bits under [`Self::compare_mask`] must be.
    pub compare: Be64,
    /// Bits that are replaced.
    pub swap_mask: Be64,
    /// Bits that are compared.
    pub compare_mask: Be64,
}

impl MaskedCompareSwap64 {
    /// As a GPU stores it.
    #[inline(always)]
    pub const fn units(self) -> [Unit; 2] {
        [
            Unit::of_long(self.swap, self.compare),
            Unit::of_long(self.swap_mask, self.compare_mask),
        ]
    }
}

/// Operands of a masked fetch-and-add on 4 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct MaskedFetchAdd32 {
    /// What is added.
    pub add: Be32,
    /// The highest bit of each field: no carry leaves it. 0: one field; all ones: exclusive or.
    pub boundary: Be32,
    /// Zero.
    pub reserved: [Be32; 2],
}

impl MaskedFetchAdd32 {
    /// As a GPU stores it.
    #[inline(always)]
    pub const fn unit(self) -> Unit {
        Unit::new(self.add, self.boundary, self.reserved[0], self.reserved[1])
    }
}

/// Operands of a masked fetch-and-add on 8 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct MaskedFetchAdd64 {
    /// What is added.
    pub add: Be64,
    /// The highest bit of each field: no carry leaves it. 0: one field; all ones: exclusive or.
    pub boundary: Be64,
}

impl MaskedFetchAdd64 {
    /// As a GPU stores it.
    #[inline(always)]
    pub const fn unit(self) -> Unit {
        Unit::of_long(self.add, self.boundary)
    }
}

#[inline(always)]
const fn split(x: Be64) -> [Be32; 2] {
    [Be32::new((x.get() >> 32) as u32), Be32::new(x.get() as u32)]
}

const _: () = {
    assert!(size_of::<Control>() == 16 && size_of::<RemoteAddress>() == 16 && size_of::<DataPointer>() == 16);
    assert!(size_of::<InlineHeader>() == 4 && size_of::<Atomic>() == 16);
    assert!(size_of::<MaskedCompareSwap32>() == 16 && size_of::<MaskedCompareSwap64>() == 32);
    assert!(size_of::<MaskedFetchAdd32>() == 16 && size_of::<MaskedFetchAdd64>() == 16);
    assert!(core::mem::offset_of!(RemoteAddress, key) == 8 && core::mem::offset_of!(DataPointer, address) == 8);
};
