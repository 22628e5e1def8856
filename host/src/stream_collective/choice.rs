//! Which algorithm a collective on a stream takes, and how many blocks: by call, size and team, in one table.

use crate::backend::StreamGrid;
use shmem::collective::by_blocks::{Call, OpName, Plan};
use shmem::collective::{Algorithm, room};
use shmem::state::TeamBlock;

/// Up to how many bytes a call takes which algorithm; two-shot beyond.
struct Row {
    /// Bytes for each other member. As far as there is room.
    packets: u64,
    /// Bytes that one member takes in, among 3 PEs and more. Among 2 the two passes of a two-shot bring as many bytes over the link
    /// as the one of a one-shot.
    one_shot: u64,
}

/// | call | packets, to each other member | one-shot, taken in by one member |
/// |---|---|---|
/// | broadcast | 8 KiB | 256 KiB |
/// | fcollect, alltoall, `reduce_scatter` | 8 KiB | all |
/// | alltoallv | | all |
/// | reduce | 8 KiB, also in place | 64 KiB, not in place |
/// | reduce to a root | 8 KiB | 64 KiB |
///
/// Estimates, as those of the device's table (`shmem-intrinsics/src/collective/choice.rs`).
const fn row(call: Call) -> Row {
    let packets = if matches!(call, Call::Alltoallv) { 0 } else { 8 << 10 };
    let one_shot = match call {
        Call::Broadcast => 256 << 10,
        Call::Reduce | Call::ReduceTo => 64 << 10,
        Call::Fcollect | Call::Alltoall | Call::Alltoallv | Call::ReduceScatter => u64::MAX,
    };
    Row { packets, one_shot }
}

/// Bytes by which shares of blocks differ, so that they begin at whole lines where the data does.
const SHARE: u64 = 128;
/// Bytes of a packet's data.
const PIECE: u64 = 8;

/// A call as its members make it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) call: Call,
    /// Members of the team.
    pub(super) n: u32,
    /// Bytes of one part: all of broadcast, alltoallv, reduce and `reduce_to`; of the others what one member gives another, or gets.
    pub(super) bytes: u64,
    /// Source and destination are the same.
    pub(super) in_place: bool,
    pub(super) root: u32,
    /// Of a reduction; any of another call.
    pub(super) op: OpName,
}

/// What is launched for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) plan: Plan,
    pub(super) blocks: u32,
    pub(super) threads: u32,
}

pub(super) fn choose(asked: Asked, grid: StreamGrid) -> Choice {
    let Asked { call, n, bytes, .. } = asked;
    let algorithm = algorithm(asked);
    let each = u64::from(n);
    let part = match algorithm {
        Algorithm::TwoShot => bytes.div_ceil(each).next_multiple_of(16),
        _ => bytes,
    };
    let (mut blocks, mut threads) = (1, grid.threads);
    if algorithm == Algorithm::Packets {
        threads = (bytes.div_ceil(PIECE).next_multiple_of(32)).min(threads.into()) as u32;
    } else {
        // What a member puts to all others is all its own work.
        let work = match call {
            Call::Fcollect | Call::Alltoall => part.saturating_mul(each - 1).max(part),
            _ => part,
        };
        let most = grid.blocks.min(TeamBlock::meeting_blocks(n));
        blocks = work.div_ceil(grid.block_bytes).clamp(1, most.into());
    }
    let share = part.div_ceil(blocks).next_multiple_of(SHARE);
    // None without a share.
    blocks = part.div_ceil(share).max(1);
    let plan = Plan {
        part,
        share,
        call,
        algorithm: algorithm as u32,
        root: asked.root,
        op: asked.op,
    };
    let blocks = blocks as u32;
    Choice { plan, blocks, threads }
}

fn algorithm(asked: Asked) -> Algorithm {
    let Asked { call, n, bytes, .. } = asked;
    let (row, others) = (row(call), u64::from(n - 1));
    if n > 1 && bytes <= row.packets.min(room(n)) {
        return Algorithm::Packets;
    }
    // Others read what a member would write.
    if call == Call::Reduce && asked.in_place && n > 1 {
        return Algorithm::TwoShot;
    }
    let taken = match call {
        Call::Broadcast => bytes,
        _ => bytes.saturating_mul(others),
    };
    if n <= 2 || taken <= row.one_shot {
        Algorithm::OneShot
    } else {
        Algorithm::TwoShot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRID: StreamGrid = StreamGrid {
        blocks: 132,
        threads: 512,
        block_bytes: 8 << 10,
    };

    fn chosen(call: Call, n: u32, bytes: u64, in_place: bool) -> Choice {
        let asked = Asked {
            call,
            n,
            bytes,
            in_place,
            root: 0,
            op: OpName::Sum,
        };
        choose(asked, GRID)
    }

    #[test]
    fn the_size_decides() {
        let reduce = |n, bytes, in_place| {
            let Choice { plan, blocks, threads } = chosen(Call::Reduce, n, bytes, in_place);
            (plan.algorithm, blocks, threads)
        };
        let [packets, one_shot, two_shot] =
            [Algorithm::Packets, Algorithm::OneShot, Algorithm::TwoShot].map(|a| a as u32);
        assert_eq!(reduce(2, 8, true), (packets, 1, 32));
        assert_eq!(reduce(2, 4096, false), (packets, 1, 512));
        assert_eq!(reduce(2, 64 << 10, false), (one_shot, 8, 512));
        assert_eq!(reduce(2, 256 << 20, false), (one_shot, 64, 512));
        assert_eq!(reduce(2, 256 << 20, true), (two_shot, 64, 512));
        assert_eq!(reduce(8, 8 << 10, false), (one_shot, 1, 512));
        assert_eq!(reduce(8, 256 << 20, false), (two_shot, 64, 512));
        assert_eq!(reduce(72, 256 << 20, false), (two_shot, 7, 512));
        assert_eq!(reduce(1, 8, true), (one_shot, 1, 512));
    }

    #[test]
    fn shares_cover_the_parts_and_none_is_empty() {
        let calls = [
            Call::Broadcast,
            Call::Fcollect,
            Call::Alltoall,
            Call::Reduce,
            Call::ReduceScatter,
            Call::ReduceTo,
        ];
        for call in calls {
            for n in [1, 2, 3, 8, 72] {
                for bytes in [1, 7, 8, 127, 8193, 65_537, (1 << 20) + 3, 1 << 30] {
                    let Choice { plan, blocks, threads } = chosen(call, n, bytes, bytes % 2 == 1);
                    let (blocks, before) = (u64::from(blocks), u64::from(blocks) - 1);
                    assert!(plan.share * blocks >= plan.part && plan.share * before < plan.part.max(1));
                    assert!(blocks * u64::from(n) <= 512 && threads.is_multiple_of(32) && threads > 0);
                    if plan.algorithm == Algorithm::TwoShot as u32 {
                        assert!(plan.part % 16 == 0 && plan.part * u64::from(n) >= bytes);
                    } else {
                        assert_eq!(plan.part, bytes);
                    }
                }
            }
        }
    }
}
