//! Bulk copies (`cp.async.bulk`): the tile's leader issues them, and they are its own, so that all of it is `asm!`. They came
//! with sm_90: the comments are the builder's, as in `cluster.rs`, and an image for an older architecture takes the plain engine.
//!
//! Loads into a stage end a phase of the stage's mbarrier; each store from a stage is a bulk group. Two things hold between
//! calls: no load is under way, and at most the newest group may still be reading its stage.
//!
//! Bulk copies are accesses of the async proxy. Ahead of them stands the leader's fence between the proxies, which covers what
//! is ordered before the call; in shared memory also one of every member, and a sync. Behind them the observed completion
//! makes them visible to the leader's accesses (PTX ISA: it is followed by an implicit fence between the proxies), and its
//! release or a sync to others.

use super::copy::{copy, edges};
use super::nvlink::{self, signal, spin, watch};
use super::registers::peer_base;
use super::{mbarrier_init, mbarrier_invalidate, mbarrier_test_parity};
use crate::arch::{Extent, Space, Span};
use crate::bulk::Ring;
use crate::context;
use crate::network;
use crate::signal::Action;
use crate::team::Peer;
use crate::tile::Tile;
use core::arch::asm;

/// Whether the image has bulk copies: ptxas drops what an older one doesn't use.
#[inline(always)]
fn has_bulk() -> bool {
    let has: u32;
    // SAFETY: sets a register.
    unsafe {
        asm!("mov.u32 {h}, 1; // shmem-before-90 mov.u32 {h}, 0;", h = out(reg32) has, options(pure, nomem, nostack));
    }
    has != 0
}

/// Between ordinary accesses and bulk copies, both ways: the thread's, and what is ordered before it. A barrier at device
/// scope is in it.
#[inline(always)]
fn fence_proxies() {
    // SAFETY: a fence.
    unsafe { asm!("fence.proxy.async; // shmem-before-90", options(nostack)) };
}

/// The same in shared memory alone, which costs next to nothing. All members call it, and then sync.
#[inline(always)]
#[track_caller]
pub(super) fn fence_shared<G: Tile>(tile: G) {
    // SAFETY: a fence.
    unsafe { asm!("fence.proxy.async.shared::cta; // shmem-before-90", options(nostack)) };
    tile.sync();
}

/// Begins to load, and has the mbarrier's phase end when all bytes are there.
///
/// # Safety
/// Both sides are live for `bytes`, and these and the addresses are multiples of 16; no other load has this mbarrier.
#[inline(always)]
unsafe fn load_bulk(shared: u64, global: u64, bytes: u32, barrier: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "mbarrier.arrive.expect_tx.shared.b64 _, [{b}], {n}; // shmem-before-90",
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{s}], [{g}], {n}, [{b}]; // shmem-before-90",
            b = in(reg32) barrier as u32, n = in(reg32) bytes, s = in(reg32) shared as u32, g = in(reg64) global,
            options(nostack),
        );
    }
}

/// Begins to store, as a group of its own.
///
/// # Safety
/// As [`load_bulk`].
#[inline(always)]
unsafe fn store_bulk(global: u64, shared: u64, bytes: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "cp.async.bulk.global.shared::cta.bulk_group [{g}], [{s}], {n}; // shmem-before-90",
            g = in(reg64) global, s = in(reg32) shared as u32, n = in(reg32) bytes,
            options(nostack),
        );
    }
    commit();
}

#[inline(always)]
fn commit() {
    // SAFETY: ends a group, which may be empty.
    unsafe { asm!("cp.async.bulk.commit_group; // shmem-before-90", options(nostack)) };
}

/// All of the thread's groups are complete.
#[inline(always)]
fn wait_done() {
    // SAFETY: waits.
    unsafe { asm!("cp.async.bulk.wait_group 0; // shmem-before-90", options(nostack)) };
}

/// All but the newest N of the thread's groups have read what they store.
#[inline(always)]
fn wait_read<const N: u32>() {
    // SAFETY: waits.
    unsafe { asm!("cp.async.bulk.wait_group.read {n}; // shmem-before-90", n = const N, options(nostack)) };
}

impl Ring {
    #[inline(always)]
    fn stage(&self, i: u32) -> u64 {
        self.stages + u64::from(i * self.bytes)
    }

    #[inline(always)]
    fn barrier(&self, i: u32) -> u64 {
        self.barriers + u64::from(8 * i)
    }

    #[inline(always)]
    fn after(&self, i: u32) -> u32 {
        if i + 1 == self.count { 0 } else { i + 1 }
    }

    /// Waits until the next stage is loaded, and steps on.
    #[inline(always)]
    #[track_caller]
    fn loaded(&mut self) {
        let (barrier, parity) = (self.barrier(self.next), self.parity);
        // SAFETY: a word of the staging that `bulk_begin` made an mbarrier.
        spin(&watch(barrier, 8, "", 0), || unsafe {
            mbarrier_test_parity(barrier, parity)
        });
        self.next = self.after(self.next);
        if self.next == 0 {
            self.parity ^= 1;
        }
    }

    /// From device memory to device memory.
    ///
    /// # Safety
    /// Both are live for `bytes`, and these and the addresses are multiples of 16.
    #[inline(always)]
    #[track_caller]
    unsafe fn through(&mut self, mut from: u64, mut to: u64, bytes: u64) {
        let (mut to_load, mut to_store) = (bytes, bytes);
        let (mut free, mut ahead) = (self.next, 0);
        let each = u64::from(self.bytes);
        // One stage fewer than there are: the newest group may be reading the last one.
        let most = self.count - 1;
        wait_read::<1>();
        while to_store > 0 {
            while to_load > 0 && ahead < most {
                let n = to_load.min(each) as u32;
                // SAFETY: inside the source and a stage that nobody reads.
                unsafe { load_bulk(self.stage(free), from, n, self.barrier(free)) };
                (from, to_load) = (from + u64::from(n), to_load - u64::from(n));
                (free, ahead) = (self.after(free), ahead + 1);
            }
            let (stage, n) = (self.stage(self.next), to_store.min(each) as u32);
            self.loaded();
            // SAFETY: inside the destination and a stage that is loaded.
            unsafe { store_bulk(to, stage, n) };
            (to, to_store) = (to + u64::from(n), to_store - u64::from(n));
            ahead -= 1;
            wait_read::<1>();
        }
    }

    /// From device memory into an array in shared memory.
    ///
    /// # Safety
    /// As [`through`](Self::through).
    #[inline(always)]
    #[track_caller]
    unsafe fn land(&mut self, from: u64, to: u64, bytes: u32) {
        // SAFETY: the caller's promise; a block's shared memory is shorter than what an mbarrier counts.
        unsafe { load_bulk(to, from, bytes, self.barrier(self.next)) };
        self.loaded();
        // A stage that was passed over counts as stored.
        commit();
        wait_read::<1>();
    }
}

/// Moves `extent` between the mapped address `peer` and `here`. Whether it went by bulk copies alone.
#[inline(always)]
#[track_caller]
fn transfer<G: Tile, const PUT: bool>(
    tile: G,
    ring: &mut Ring,
    peer: u64,
    here: Span,
    extent: Extent,
    more: bool,
) -> bool {
    let body = if has_bulk() {
        edges::<G, PUT>(tile, peer, here, extent)
    } else {
        None
    };
    let Some((skipped, bytes)) = body else {
        copy::<G, PUT>(tile, peer, here, extent, more);
        return false;
    };
    if bytes == 0 {
        return false;
    }
    if here.space == Space::Shared {
        fence_shared(tile);
    }
    if tile.leader() {
        fence_proxies();
        let (peer, at) = (peer + skipped, here.address + skipped);
        // SAFETY: both sides were found live, and are cut to whole 16 bytes.
        unsafe {
            match (PUT, here.space) {
                (true, Space::Shared) => {
                    store_bulk(peer, at, bytes as u32);
                    wait_read::<1>();
                }
                (false, Space::Shared) => ring.land(peer, at, bytes as u32),
                (true, _) => ring.through(at, peer, bytes),
                (false, _) => ring.through(peer, at, bytes),
            }
        }
    }
    bytes == extent.bytes
}

/// The leader has completed all that the engine has begun.
#[inline(always)]
fn complete<G: Tile>(tile: G) {
    if has_bulk() && tile.leader() {
        wait_done();
    }
}

#[inline(always)]
#[track_caller]
pub(crate) fn bulk_begin<G: Tile>(tile: G, ring: &Ring) {
    if has_bulk() {
        if tile.leader() {
            let mut i = 0;
            while i < ring.count {
                // SAFETY: a word of the staging, which is the engine's.
                unsafe { mbarrier_init(ring.barrier(i), 1) };
                i += 1;
            }
        }
        // What the staging was before.
        fence_shared(tile);
    }
}

#[inline(always)]
#[track_caller]
pub(crate) fn bulk_put<G: Tile>(
    tile: G,
    ring: &mut Ring,
    dst: u64,
    src: Span,
    extent: Extent,
    to: Peer,
    blocking: bool,
) {
    span!(tile, Put, to.pe, extent.bytes);
    if network::carries(to.pe) {
        return network::put(tile, dst, src, extent, to, blocking);
    }
    transfer::<G, true>(tile, ring, peer_base(to.pe) + dst, src, extent, !blocking);
    if blocking {
        complete(tile);
        tile.sync();
    }
}

#[inline(always)]
#[track_caller]
pub(crate) fn bulk_put_signal<G: Tile, A: Action>(
    tile: G,
    ring: &mut Ring,
    dst: u64,
    src: Span,
    extent: Extent,
    action: A,
    to: Peer,
) {
    span!(tile, PutSignal, to.pe, extent.bytes);
    if network::carries(to.pe) {
        return network::put_signal(tile, dst, src, extent, action, to, true);
    }
    let alone = transfer::<G, true>(tile, ring, peer_base(to.pe) + dst, src, extent, false);
    complete(tile);
    // The other members' stores, if there are any, come before the leader's release.
    if !alone {
        tile.sync();
    }
    if tile.leader() {
        signal(action, to);
    }
    if alone {
        tile.sync();
    }
}

#[inline(always)]
#[track_caller]
pub(crate) fn bulk_get<G: Tile>(tile: G, ring: &mut Ring, dst: Span, src: u64, extent: Extent, from: Peer) {
    span!(tile, Get, from.pe, extent.bytes);
    if network::carries(from.pe) {
        return network::get(tile, dst, src, extent, from, true);
    }
    transfer::<G, false>(tile, ring, peer_base(from.pe) + src, dst, extent, false);
    complete(tile);
    // The other members may have older lines of it in the L1 cache.
    if has_bulk() && dst.space != Space::Shared && tile.leader() {
        fence_proxies();
    }
    tile.sync();
}

#[inline(always)]
#[track_caller]
pub(crate) fn bulk_flush<G: Tile>(tile: G, _: &Ring) {
    if has_bulk() && tile.leader() {
        wait_read::<0>();
    }
    nvlink::flush(tile, context::BULK);
}

#[inline(always)]
#[track_caller]
pub(crate) fn bulk_quiet<G: Tile>(tile: G, _: &Ring) {
    complete(tile);
    nvlink::quiet(tile, context::BULK);
}

#[inline(always)]
#[track_caller]
pub(crate) fn bulk_end<G: Tile>(tile: G, ring: &Ring) {
    complete(tile);
    if has_bulk() && tile.leader() {
        let mut i = 0;
        while i < ring.count {
            // SAFETY: an mbarrier that no load is under way for.
            unsafe { mbarrier_invalidate(ring.barrier(i)) };
            i += 1;
        }
    }
    nvlink::quiet(tile, context::BULK);
}
