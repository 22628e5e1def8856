//! Which algorithm a collective takes: by its size, in one table.

use crate::state::TeamBlock;

/// How a collective moves its data. All give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Each member sends every other what it needs, in packets: one flight, no sync before or after. Up to
    /// [`room`] bytes for each other member.
    Packets,
    /// The members meet, each moves all that it gives or takes in one pass, and they meet again.
    OneShot,
    /// The members meet; each works on one part of the data and hands its result on to all; they meet again. broadcast and
    /// reduce, and reduce to a root; others take one pass.
    TwoShot,
}

/// The collectives that have a choice.
#[derive(Clone, Copy)]
pub(super) enum Call {
    Broadcast,
    Fcollect,
    Alltoall,
    Reduce,
    ReduceScatter,
    ReduceTo,
}

/// Up to how many bytes a call takes which algorithm.
struct Row {
    /// Bytes for each other member. As far as there is room.
    packets: u64,
    /// Bytes that one member takes in.
    one_shot: u64,
}

/// What each call takes, for so many bytes; beyond both it takes two passes, where it has them.
///
/// | call | packets, to each other member | one pass, taken in by one member | measured, us |
/// |---|---|---|---|
/// | broadcast | 8 KiB | 256 KiB; all among 2 | 8 KiB: 1.6 / 4.8 / 5.5; 64 KiB: 5.8 / 7.1; 1 MiB: 26.6 / 38 |
/// | fcollect | 8 KiB | all | 8 KiB: 1.9 / 4.5 |
/// | alltoall | 8 KiB | all | 8 KiB: 1.9 / 5.1 |
/// | reduce | 8 KiB | 64 KiB | 8 KiB: 1.9 / 5.6 / 6.9; 64 KiB: 7.4 / 8.3; 1 MiB: 43 / 32 |
/// | `reduce_scatter` | 8 KiB | all | 8 KiB: 1.8 / 5.2 |
/// | reduce to a root | 8 KiB | 64 KiB | as reduce |
///
/// Measured by one block of 1024 threads of each of two H200s, 2026-11-30: packets / one pass / two passes (docs/perf-log.md).
/// Packets win as far as there is [`room`] for them.
const TABLE: [Row; 6] = [
    Row::new(8, 256),
    Row::new(8, u64::MAX),
    Row::new(8, u64::MAX),
    Row::new(8, 64),
    Row::new(8, u64::MAX),
    Row::new(8, 64),
];

impl Row {
    /// In KiB.
    const fn new(packets: u64, one_shot: u64) -> Self {
        Self {
            packets: packets << 10,
            one_shot: one_shot.saturating_mul(1 << 10),
        }
    }
}

/// Bytes that one member may send to another in packets, in a team of `n_pes`: 8 KiB among 2, 4 KiB among 3, 1 KiB among 8.
///
/// ```
/// assert_eq!([2, 3, 8, 1024].map(shmem::collective::room), [8192, 4096, 1024, 8]);
/// ```
pub const fn room(n_pes: u32) -> u64 {
    if n_pes < 2 {
        return 0;
    }
    // A packet is data and as many bytes of flags.
    TeamBlock::box_bytes(n_pes) / 2
}

/// Whether packets are taken, where `bytes` go to each other member.
#[inline(always)]
pub(super) fn packets(call: Call, n: u32, bytes: u64, asked: Option<Algorithm>) -> bool {
    match asked {
        None => bytes <= TABLE[call as usize].packets && bytes <= room(n),
        Some(asked) => asked == Algorithm::Packets && bytes <= room(n),
    }
}

/// Whether two passes are taken where packets are not, and one member would take in `taken` bytes in one pass.
#[inline(always)]
pub(super) fn two_shot(call: Call, n: u32, taken: u64, asked: Option<Algorithm>) -> bool {
    match asked {
        Some(Algorithm::OneShot) => false,
        Some(Algorithm::TwoShot) => true,
        // All bytes go over the root's one link, in any number of passes.
        _ if n == 2 && matches!(call, Call::Broadcast) => false,
        _ => taken > TABLE[call as usize].one_shot,
    }
}
