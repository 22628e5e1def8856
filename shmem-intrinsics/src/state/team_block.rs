//! What lies in the heap for a team that the host made.

use super::SYNC_SLOTS;

/// Teams that a PE may be in at once, besides the world and the node.
pub const MAX_TEAMS: u32 = 64;

/// The block of one team, in the system area, on each of its members at the same place. What small calls need comes first, at places
/// that are known when a kernel is compiled: epochs, [`BOXES`](Self::BOXES), sync [`WORDS`](Self::WORDS). Then the members' numbers
/// in the world (u32 each), for each PE of the world its index in the team (u32, [`NONE`](Self::NONE) where it is no member),
/// how many members there are (u32), and [`meetings`](Self::meetings). The world and the node have blocks whose tables are
/// not filled in.
///
/// The indices, the number of members and the members of a team with a stride are not read on the way of a call: they are for
/// translation, and for whoever looks what a wait is about.
#[derive(Clone, Copy, Debug)]
pub struct TeamBlock;

impl TeamBlock {
    /// Index of a PE that is no member.
    pub const NONE: u32 = u32::MAX;

    /// Bytes that the packets of one epoch of a slot have: boxes, one for each other member. The largest team has boxes of 16.
    pub const HALF: u64 = 16 << 10;

    /// Where the epochs of packets lie: `[SYNC_SLOTS]` of u64, written by their own PE only.
    pub const EPOCHS: u64 = 0;

    /// Where the epochs of barriers and syncs lie: likewise.
    pub const SYNC_EPOCHS: u64 = (SYNC_SLOTS as u64) * 8;

    /// Where the packets lie: `[SYNC_SLOTS][2]` of [`HALF`](Self::HALF) bytes.
    pub const BOXES: u64 = 128;

    /// Where the words of barriers and syncs lie: `[SYNC_SLOTS][n]` of u64 in a team of `n`, where the member of index p sets word
    /// `[s][p]`.
    pub const WORDS: u64 = Self::BOXES + (SYNC_SLOTS as u64) * 2 * Self::HALF;

    /// Bytes of a block in a world of `n_pes`: room for the largest team, in lines of its own.
    pub const fn bytes(n_pes: u32) -> u64 {
        Self::meetings(n_pes) + (SYNC_SLOTS as u64) * Self::meeting_bytes(n_pes)
    }

    /// Words in which blocks of a grid meet those of the other members, for each slot; as many as PEs, where those are more.
    const MEETING_WORDS: u64 = 512;

    /// The most blocks of a grid that meet so, however few the members.
    pub const MEETING_BLOCKS: u32 = 64;

    /// Where the words lie by which block b of each member meets block b of every other (`collective::by_blocks`): for each slot
    /// [`meeting_bytes`](Self::meeting_bytes).
    pub const fn meetings(n_pes: u32) -> u64 {
        (Self::indices(n_pes) + 4 * n_pes as u64 + 4).next_multiple_of(128)
    }

    /// Bytes of a slot of [`meetings`](Self::meetings), in a world of `n_pes`: `[MEETING_BLOCKS]` epochs, written by their own PE
    /// only, then the words, `[blocks][n]` in a team of `n`; u64 each.
    pub const fn meeting_bytes(n_pes: u32) -> u64 {
        let n = n_pes as u64;
        let words = if n > Self::MEETING_WORDS {
            n
        } else {
            Self::MEETING_WORDS
        };
        (Self::MEETING_BLOCKS as u64 + words).next_multiple_of(16) * 8
    }

    /// How many blocks may meet in a team of `n`: 64 among up to 8, 7 among 72, 1 among 512 and more.
    ///
    /// ```
    /// use shmem::state::TeamBlock;
    /// assert_eq!([1, 2, 8, 72, 1024].map(TeamBlock::meeting_blocks), [64, 64, 64, 7, 1]);
    /// ```
    pub const fn meeting_blocks(n: u32) -> u32 {
        let blocks = Self::MEETING_WORDS as u32 / n;
        if blocks > Self::MEETING_BLOCKS {
            Self::MEETING_BLOCKS
        } else if blocks == 0 {
            1
        } else {
            blocks
        }
    }

    /// Bytes of a member's box in a half, in a team of `n`, 2 or more: a power of 2.
    pub const fn box_bytes(n: u32) -> u64 {
        Self::HALF >> (32 - (n - 2).leading_zeros())
    }

    /// Where the members of a team of `n` begin.
    pub const fn members(n: u32) -> u64 {
        Self::WORDS + (SYNC_SLOTS as u64) * n as u64 * 8
    }

    /// Where the indices begin, in a team of `n`.
    pub const fn indices(n: u32) -> u64 {
        Self::members(n) + 4 * n as u64
    }

    /// Where the number of members lies, in a world of `n_pes`.
    pub const fn size(n_pes: u32) -> u64 {
        Self::meetings(n_pes) - 4
    }

    /// What a block holds when its team begins. The members are PEs of a world of `n_pes`, each once.
    ///
    /// ```
    /// use shmem::state::TeamBlock;
    /// let image = TeamBlock::image(4, &[3, 1]);
    /// let word = |at: u64| u32::from_le_bytes(image[at as usize..][..4].try_into().unwrap());
    /// assert_eq!([word(TeamBlock::members(2)), word(TeamBlock::members(2) + 4)], [3, 1]);
    /// assert_eq!([0, 4, 8, 12].map(|i| word(TeamBlock::indices(2) + i)), [TeamBlock::NONE, 1, TeamBlock::NONE, 0]);
    /// assert_eq!(word(TeamBlock::size(4)), 2);
    /// ```
    #[cfg(not(target_arch = "nvptx64"))]
    pub fn image(n_pes: u32, members: &[u32]) -> Vec<u8> {
        let n = members.len() as u32;
        let mut image = vec![0; Self::bytes(n_pes) as usize];
        let mut put = |at: u64, value: u32| image[at as usize..][..4].copy_from_slice(&value.to_le_bytes());
        for pe in 0..n_pes {
            put(Self::indices(n) + 4 * u64::from(pe), Self::NONE);
        }
        for (index, &pe) in (0..).zip(members) {
            put(Self::members(n) + 4 * u64::from(index), pe);
            put(Self::indices(n) + 4 * u64::from(pe), index);
        }
        put(Self::size(n_pes), n);
        image
    }
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::*;

    #[test]
    fn the_largest_team_fits_its_block() {
        for n in [1, 2, 3, 72, 1024] {
            assert!(TeamBlock::indices(n) + 4 * u64::from(n) <= TeamBlock::size(n));
            assert_eq!(TeamBlock::bytes(n) % 128, 0);
            let words = u64::from(TeamBlock::MEETING_BLOCKS) + u64::from(TeamBlock::meeting_blocks(n) * n);
            assert!(8 * words <= TeamBlock::meeting_bytes(n));
            if n > 1 {
                let room = TeamBlock::box_bytes(n);
                assert!(room >= 16 && room * u64::from(n - 1) <= TeamBlock::HALF);
                assert!(2 * room * u64::from(n - 1) > TeamBlock::HALF);
            }
        }
    }
}
