//! What kernels and their host agree on.
use shmem::packet::Packet;
use shmem::prelude::*;
use shmem::vector::{Bf16x8, F32x4, U32x4};

/// In place of a row: none.
pub const NONE: u32 = u32::MAX;
/// Most experts of all PEs together.
pub const EXPERTS: usize = 1024;
/// Most experts of one token.
pub const TOP: usize = 32;
/// Most PEs.
pub const PES: usize = 32;

/// Kernels send, if this is among their `halves`.
pub const SEND: u32 = 1;
/// Kernels receive, if this is among their `halves`.
pub const RECEIVE: u32 = 2;

/// What a packet carries.
pub type Words = [u32; 3];

/// The slots of message `at`, of so many lines: four packets for three lines.
#[inline(always)]
pub fn slots<T: Pod>(inbox: SymSlice<T>, at: u32, lines: u32) -> SymSlice<Packet<Words>> {
    inbox.cast::<Packet<Words>>().chunk(at, lines / 3 * 4)
}

/// The epoch in packets: never 0, and odd where the epoch is.
#[inline(always)]
pub fn flag(epoch: u64) -> u32 {
    (epoch % u64::from(u32::MAX - 1)) as u32 + 2
}

/// Bits of a count in a signal, below the epoch: a PE has at most 2^16 tokens of [`TOP`] jobs.
pub const COUNT_BITS: u32 = 24;

/// This block's place in a row of all blocks that begins behind the first so many: those that have other work are last.
#[inline(always)]
pub fn place_behind(busy: u32) -> u32 {
    let blocks = thread::grid_size();
    (Block.id() + blocks - busy % blocks) % blocks
}

/// How many of everything.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelArg)]
pub struct Shape {
    /// Of each PE.
    pub tokens: u32,
    /// Experts of a token, all different. A *job* is a token's row for one of them.
    pub top: u32,
    /// Of all PEs together. PE p has the experts `p * local..(p + 1) * local`.
    pub experts: u32,
    /// Numbers of a row: a multiple of 8, for fp8 of 128.
    pub hidden: u32,
}

impl Shape {
    /// Experts of one PE. The last ones may have fewer.
    #[inline(always)]
    pub fn local(self, n: u32) -> u32 {
        self.experts.div_ceil(n)
    }

    /// Lines of 16 bytes of a row's numbers, and of its scales: one f32 for 128 numbers.
    #[inline(always)]
    pub fn lines<const FP8: bool>(self) -> (u32, u32) {
        if FP8 {
            (self.hidden / 16, (self.hidden / 128).div_ceil(4))
        } else {
            (self.hidden / 8, 0)
        }
    }

    /// Lines of a message: numbers, scales, and for each job where it goes (its expert, and in the lower 16 bits how many jobs of
    /// this PE the expert has before it) and its weight. A multiple of three, for packets.
    #[inline(always)]
    pub fn message<const FP8: bool>(self) -> u32 {
        let (numbers, scales) = self.lines::<FP8>();
        (numbers + scales + self.top.div_ceil(2)).next_multiple_of(3)
    }

    /// Lines of a row's sums in f32. A multiple of three, for packets.
    #[inline(always)]
    pub fn sums(self) -> u32 {
        (self.hidden / 4).next_multiple_of(3)
    }

    /// A part of each row, of so many: a message of its own, from a block of its own.
    #[inline(always)]
    #[must_use]
    pub fn part(self, parts: u32) -> Self {
        let hidden = self.hidden / parts;
        Self { hidden, ..self }
    }
}

/// A PE's tokens.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Tokens {
    /// A row for each.
    pub x: Global<Bf16x8>,
    /// `[token][top]` experts, -1 for none.
    pub chosen: Global<i32>,
    /// The same of weights.
    pub weight: Global<f32>,
}

/// What comes from PE to PE. Everything has two halves that are used in turns: who dispatches for the second time after an epoch
/// has heard from all PEs that they had dispatched once more, and so had read all of that epoch. Packets are sent to every PE in every
/// epoch, a row's too that has no job there.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Inbox {
    /// Parts of a row.
    pub parts: u32,
    /// `[2][source PE][token][part]` messages, or packets of them.
    pub rows: SymSlice<U32x4>,
    /// The same of signals, where puts bring them: twice the epoch, and one more where there is a row.
    pub ready: SymSlice<SignalWord>,
    /// `[2][source PE][local expert]`: the epoch, and below it in [`COUNT_BITS`] how many jobs come.
    pub count: SymSlice<SignalWord>,
    /// `[2][token][part][expert PE]` weighted sums of results, or packets of them. This PE's own stay empty.
    pub back: SymSlice<F32x4>,
    /// The same of signals, where puts bring them: the epoch.
    pub answered: SymSlice<SignalWord>,
    /// The last epoch that has been received.
    pub epoch: Global<u64>,
    /// Blocks that have read it.
    pub ticket: Global<u32>,
}

/// What a PE's experts work on, and where it came from.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Packed {
    /// `[local expert][PEs * tokens]` rows of numbers, by source PE and token.
    pub rows: Global<U32x4>,
    /// The same of scales.
    pub scales: Global<U32x4>,
    /// Rows of each local expert.
    pub len: Global<u32>,
    /// `[source PE][token][top]`: the row of each job, or [`NONE`].
    pub place: Global<u32>,
    /// The same of weights.
    pub weight: Global<f32>,
    /// The epoch that it is of.
    pub epoch: Global<u64>,
}
