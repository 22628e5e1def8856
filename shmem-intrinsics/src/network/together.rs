//! p of the lanes of a warp that come to it at the same time: they post together, one of them publishes and rings. Elements in
//! a row go as one entry.
//!
//! Which lanes come together the GPU decides; in the simulator each lane comes alone.

use super::place::key;
use super::queue::{Queue, Written};
use super::rma::{inline, inline_16};
use crate::arch::{self, Space, Strength};
use crate::warp::lane_id;
use shmem_mlx5::entry::inline_units;
use shmem_mlx5::unit::{UNIT, blocks};
use shmem_mlx5::{Remote, Unit, doorbell};

/// Queues with fewer blocks have no room for a warp's entries at once.
const LEAST: u32 = 64;
/// Bytes of an entry ahead of its data.
const HEAD: u32 = 36;

/// Whether it was posted. Lanes that come alone post by themselves.
#[inline(always)]
#[track_caller]
pub(super) fn store(queue: Queue, to: Remote, words: [u32; 4], bytes: u32) -> bool {
    if !queue.is_shared() || queue.size().count() < LEAST {
        return false;
    }
    let (here, lane) = (arch::lanes_here(), lane_id());
    if here == 1 << lane {
        return false;
    }
    // Queues are aligned to more than an element has bytes.
    let lanes = arch::match_any_64(here, queue.id() | u64::from(bytes));
    let leader = lanes.trailing_zeros();
    let group = Group {
        queue,
        lanes,
        leader,
        leads: lane == leader,
        rank: (lanes & ((1 << lane) - 1)).count_ones(),
        count: lanes.count_ones(),
    };
    let first = group.of_leader(to.address);
    let in_row = to.address == first + u64::from(group.rank * bytes);
    // What the leader knows of the key holds for all.
    let room = group.of_leader(key(queue.pe(), to.address).1);
    let all = group.count * bytes;
    if arch::vote_all(lanes, in_row) && matches!(bytes, 4 | 8) && u64::from(all) <= room {
        group.row(to, words, bytes, all);
    } else {
        group.each(to, words, bytes);
    }
    true
}

#[derive(Clone, Copy)]
struct Group {
    queue: Queue,
    lanes: u32,
    leader: u32,
    leads: bool,
    rank: u32,
    count: u32,
}

impl Group {
    #[inline(always)]
    fn of_leader(self, value: u64) -> u64 {
        let low = arch::shuffle_idx(self.lanes, value as u32, self.leader);
        let high = arch::shuffle_idx(self.lanes, (value >> 32) as u32, self.leader);
        u64::from(low) | u64::from(high) << 32
    }

    /// Slots for all of them.
    #[inline(always)]
    #[track_caller]
    fn reserve(self, blocks: u64) -> u64 {
        let first = if self.leads { self.queue.reserve(blocks) } else { 0 };
        self.of_leader(first)
    }

    /// One entry, each lane's element in its place.
    #[inline(always)]
    #[track_caller]
    fn row(self, to: Remote, words: [u32; 4], bytes: u32, all: u32) {
        let units = inline_units(all).unwrap_or_default();
        let blocks = u64::from(blocks(units));
        let first = self.reserve(blocks);
        let post = self.queue.post_at(first, blocks, false);
        let head = inline(post, to, [0; 3], all);
        let word = |at: u32, word: u32| {
            let unit = self.queue.place(first, at as usize / UNIT);
            // SAFETY: inside the entry, whose slots were given to this group.
            unsafe {
                arch::store(
                    unit + u64::from(at) % UNIT as u64,
                    word,
                    Space::Global,
                    Strength::Relaxed,
                );
            }
        };
        if self.leads {
            self.queue.write(first, 0, head[0]);
            self.queue.write(first, 1, head[1]);
            word(HEAD - 4, head[2].0[0]);
            // The rest of the last unit.
            let mut at = HEAD + all;
            while at < (units * UNIT) as u32 {
                word(at, 0);
                at += 4;
            }
        }
        let mine = HEAD + self.rank * bytes;
        word(mine, words[0]);
        if bytes == 8 {
            word(mine + 4, words[1]);
        }
        let kind = doorbell::register(head[0]).kind();
        self.publish(first, Written::new(first + blocks, post.completes(), kind));
    }

    /// An entry for each lane.
    #[inline(always)]
    #[track_caller]
    fn each(self, to: Remote, words: [u32; 4], bytes: u32) {
        // Of one block each, as all elements are.
        let first = self.reserve(self.count.into());
        let mine = first + u64::from(self.rank);
        let post = self.queue.post_at(mine, 1, false);
        let [control, place, data, more] = if bytes <= 12 {
            let [control, place, data] = inline(post, to, [words[0], words[1], words[2]], bytes);
            [control, place, data, Unit::default()]
        } else {
            inline_16(post, to, words)
        };
        self.queue.write(mine, 0, control);
        self.queue.write(mine, 1, place);
        self.queue.write(mine, 2, data);
        if bytes > 12 {
            self.queue.write(mine, 3, more);
        }
        let end = first + u64::from(self.count);
        let last = self.queue.post_at(end - 1, 1, false);
        let kind = doorbell::register(control).kind();
        self.publish(first, Written::new(end, last.completes(), kind));
    }

    #[inline(always)]
    #[track_caller]
    fn publish(self, first: u64, last: Written) {
        arch::sync_warp(self.lanes);
        if self.leads {
            self.queue.publish_all(first, last);
        }
        // They stay together: else those that don't wait come to the next call ahead of their leader, and soon each alone.
        arch::sync_warp(self.lanes);
    }
}
