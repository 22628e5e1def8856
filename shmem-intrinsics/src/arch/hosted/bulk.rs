//! Bulk engines: the machine moves the bytes. An nbi put has the engine's own context, which only the engine completes.
//!
//! Nothing is staged, but the staging is taken: its mbarriers are there, so that a second engine over it is found, and calls
//! mark the stages, so that other accesses to them race with those or are found to have overwritten the marks.

use super::{load, mbarrier_init, mbarrier_invalidate, store};
use crate::arch::{Extent, Space, Span, Strength};
use crate::bulk::Ring;
use crate::context;
use crate::signal::Action;
use crate::team::Peer;
use crate::tile::Tile;

const MARK: u32 = 0xb17c_0b1e;

fn stages(ring: &Ring) -> impl Iterator<Item = u64> {
    (0..ring.count).map(|i| ring.stages + u64::from(i * ring.bytes))
}

fn barriers(ring: &Ring) -> impl Iterator<Item = u64> {
    (0..ring.count).map(|i| ring.barriers + u64::from(8 * i))
}

/// The leader uses the stages.
#[track_caller]
fn mark<G: Tile>(tile: G, ring: &Ring) {
    if tile.leader() {
        for stage in stages(ring) {
            // SAFETY: inside the staging.
            unsafe { store(stage, MARK, Space::Shared, Strength::Weak) };
        }
    }
}

/// Nobody else has.
#[track_caller]
fn check_marks<G: Tile>(tile: G, ring: &Ring) {
    if tile.leader() {
        for stage in stages(ring) {
            // SAFETY: inside the staging.
            let found: u32 = unsafe { load(stage, Space::Shared, Strength::Weak) };
            assert!(
                found == MARK,
                "the staging of a bulk engine was written while the engine had it: it is free when the engine is dropped"
            );
        }
    }
}

#[track_caller]
pub(crate) fn bulk_begin<G: Tile>(tile: G, ring: &Ring) {
    if tile.leader() {
        for barrier in barriers(ring) {
            // SAFETY: a word of the staging, which is the engine's.
            unsafe { mbarrier_init(barrier, 1) };
        }
    }
    mark(tile, ring);
}

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
    mark(tile, ring);
    super::put(tile, dst, src, extent, to, blocking);
}

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
    mark(tile, ring);
    super::put_signal(tile, dst, src, extent, action, to, true);
}

#[track_caller]
pub(crate) fn bulk_get<G: Tile>(tile: G, ring: &mut Ring, dst: Span, src: u64, extent: Extent, from: Peer) {
    mark(tile, ring);
    super::get(tile, dst, src, extent, from, true);
}

#[track_caller]
pub(crate) fn bulk_flush<G: Tile>(tile: G, ring: &Ring) {
    check_marks(tile, ring);
    super::flush(tile, context::BULK);
}

#[track_caller]
pub(crate) fn bulk_quiet<G: Tile>(tile: G, ring: &Ring) {
    check_marks(tile, ring);
    super::quiet(tile, context::BULK);
}

#[track_caller]
pub(crate) fn bulk_end<G: Tile>(tile: G, ring: &Ring) {
    // A lane that ends early drops what it has on its way out.
    if std::thread::panicking() {
        return;
    }
    bulk_quiet(tile, ring);
    if tile.leader() {
        for barrier in barriers(ring) {
            // SAFETY: made an mbarrier by `bulk_begin`.
            unsafe { mbarrier_invalidate(barrier) };
        }
    }
    tile.sync();
}
