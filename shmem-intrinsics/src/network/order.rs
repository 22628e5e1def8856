//! quiet. A fence needs no entry: a queue pair's target does everything in order, under keys that are strict.

use super::carries;
use super::place::remote;
use super::queue::Queue;
use crate::arch;
use crate::team::Peer;
use crate::tile::Tile;
use shmem_mlx5::{Length, Opcode, entry};

/// Everything of the context that was published is acknowledged; VISIBLE: and in the memory of its PE, for everybody there. The
/// tile has synced before, and syncs after.
#[inline(always)]
#[track_caller]
pub(crate) fn quiet<G: Tile, const VISIBLE: bool>(tile: G, ctx: u32) {
    let mut pe = tile.rank();
    while pe < arch::n_pes() {
        if carries(pe) {
            drain::<VISIBLE>(Peer { pe, ctx });
        }
        pe += tile.size();
    }
}

/// The same of all contexts, those of earlier kernels among them.
#[inline(always)]
#[track_caller]
pub(crate) fn quiet_all<G: Tile>(tile: G) {
    let mut ctx = 0;
    while ctx < Queue::contexts() {
        quiet::<G, true>(tile, ctx);
        ctx += 1;
    }
}

/// A fault, if an adapter has refused what this PE posted: a wait may be for what follows from it, and never end.
#[cfg(target_arch = "nvptx64")]
#[cold]
#[inline(never)]
#[track_caller]
pub(crate) fn look_for_errors() {
    let (contexts, pes) = (Queue::contexts(), arch::n_pes());
    let mut i = 0;
    while i < contexts * pes {
        let (ctx, pe) = (i / pes, i % pes);
        if carries(pe) {
            Queue::of(Peer { pe, ctx }).look();
        }
        i += 1;
    }
}

#[inline(never)]
#[track_caller]
fn drain<const VISIBLE: bool>(to: Peer) {
    let queue = Queue::of(to);
    let last = queue.last();
    if last.is_nothing() {
        return;
    }
    let (done, start) = queue.known(last);
    let enough = !VISIBLE || last.opcode() == Opcode::Read as u8;
    let start = if last.completes() && enough {
        if done {
            return;
        }
        // A batch has left it to this quiet to tell the adapter.
        queue.ring_if_behind();
        start
    } else if VISIBLE {
        // A read pushes what was written before it into memory.
        queue.post(true, |post| {
            entry::read(post, remote(to.pe, 0), queue.nowhere(), Length::MIN)
        })
    } else {
        queue.post(true, entry::nop)
    };
    queue.wait(start);
}
