//! Barriers that are made of words in memory: of a grid, and of some warps of a block.
//!
//! Each arrival adds to the word so that a whole round adds 2^31: the top bit flips when the last one arrives, and the lower
//! bits are what they were, so that nothing is ever reset. One thread of each block or warp arrives, with a release, and
//! waits for the flip with acquires; barriers of the hardware before and after extend both to its fellows.

use super::converge::{sync_block, sync_warp};
use super::nvlink::{spin, watch};
use super::registers::lane_id;
use crate::thread;
use crate::tile::GROUP_BYTES;
use core::arch::{asm, global_asm};

const FLIP: u32 = 1 << 31;

/// What the arrival of one out of `n` adds.
#[inline(always)]
fn share(first: bool, n: u32) -> u32 {
    if first { FLIP - (n - 1) } else { 1 }
}

/// All threads of the grid whose line in the system area this is.
#[inline(always)]
#[track_caller]
pub(crate) fn sync_grid(line: u64) {
    span!(crate::tile::Block, SyncGrid);
    sync_block();
    if thread::index() == 0 {
        let add = share(thread::block_index() == 0, thread::grid_size());
        let old: u32;
        // SAFETY: the word lies in the system area; the release is cumulative over the block's barrier.
        unsafe {
            asm!("atom.add.release.gpu.global.u32 {o}, [{a}], {v};", o = out(reg32) old, a = in(reg64) line, v = in(reg32) add, options(nostack));
        }
        spin(&watch(line, 4, "", 0), || {
            let now: u32;
            // SAFETY: as above.
            unsafe {
                asm!("ld.acquire.gpu.global.u32 {n}, [{a}];", n = out(reg32) now, a = in(reg64) line, options(nostack));
            }
            (now ^ old) & FLIP != 0
        });
    }
    sync_block();
}

global_asm!(".shared .align 16 .b8 shmem_groups[{bytes}];", bytes = const GROUP_BYTES);

/// Address of the words of all warp groups in shared memory.
#[inline(always)]
pub(crate) fn group_words() -> u64 {
    let at: u32;
    // SAFETY: takes an address.
    unsafe { asm!("mov.u32 {at}, shmem_groups;", at = out(reg32) at, options(pure, nomem, nostack)) };
    u64::from(at)
}

/// The thread's rank in its block, for a group of W warps. The comment stays in the PTX of the kernel, as that of
/// `tile_lane_id` does: the block's size must be a multiple of the group's.
#[inline(always)]
pub(crate) fn group_thread<const W: u32>() -> u32 {
    let marked: u32;
    // SAFETY: copies a register.
    unsafe {
        asm!("mov.u32 {m}, {r}; // shmem-tile {n}", m = out(reg32) marked, r = in(reg32) thread::index(), n = const 32 * W, options(pure, nomem, nostack));
    };
    marked
}

/// The threads of `count` warps of the block from `first` on, which this thread is one of.
#[inline(always)]
#[track_caller]
pub(crate) fn sync_warps(word: u64, first: u32, count: u32) {
    sync_warp(!0);
    if lane_id() == 0 {
        let add = share(thread::index() / 32 == first, count);
        let old: u32;
        // SAFETY: the group's word in shared memory; the release is cumulative over the warp's barrier.
        unsafe {
            asm!("atom.add.release.cta.shared.u32 {o}, [{a}], {v};", o = out(reg32) old, a = in(reg64) word, v = in(reg32) add, options(nostack));
        }
        spin(&watch(word, 4, "", 0), || {
            let now: u32;
            // SAFETY: as above.
            unsafe {
                asm!("ld.acquire.cta.shared.u32 {n}, [{a}];", n = out(reg32) now, a = in(reg64) word, options(nostack));
            }
            (now ^ old) & FLIP != 0
        });
    }
    sync_warp(!0);
}
