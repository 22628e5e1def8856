//! put of computed elements: each goes from registers to the peer.

use super::nvlink::{signal, store_remote};
use crate::computed::fill;
use crate::network;
use crate::signal::Action;
use crate::team::Peer;
use crate::tile::Tile;
use crate::{Pod, SymSlice};

/// Elements that a member computes before it stores the first of them: their loads are in flight together.
const FLIGHT: u32 = 4;

#[inline(always)]
#[track_caller]
pub(crate) fn put_computed<T: Pod, G: Tile>(
    tile: G,
    dst: u64,
    stage: SymSlice<T>,
    element: impl Fn(u32) -> T,
    to: Peer,
    blocking: bool,
) {
    span!(tile, Put, to.pe, stage.len() * size_of::<T>() as u64);
    if network::carries(to.pe) {
        let (span, extent) = fill(tile, stage, element);
        return network::put(tile, dst, span, extent, to, blocking);
    }
    send(tile, dst, stage, element, to);
    if blocking {
        tile.sync();
    }
}

/// The leader's release covers the other members' stores, as in put_signal.
#[inline(always)]
#[track_caller]
pub(crate) fn put_computed_signal<T: Pod, G: Tile>(
    tile: G,
    dst: u64,
    stage: SymSlice<T>,
    element: impl Fn(u32) -> T,
    action: impl Action,
    to: Peer,
) {
    span!(tile, PutSignal, to.pe, stage.len() * size_of::<T>() as u64);
    if network::carries(to.pe) {
        let (span, extent) = fill(tile, stage, element);
        return network::put_signal(tile, dst, span, extent, action, to, true);
    }
    send(tile, dst, stage, element, to);
    tile.sync();
    if tile.leader() {
        signal(action, to);
    }
}

/// Of the stage only the length counts.
#[inline(always)]
#[track_caller]
fn send<T: Pod, G: Tile>(tile: G, dst: u64, stage: SymSlice<T>, element: impl Fn(u32) -> T, to: Peer) {
    let (n, step) = (stage.len() as u32, tile.size());
    let mut i = tile.rank();
    // Below this, the member's next FLIGHT elements are all inside.
    let whole = n.saturating_sub((FLIGHT - 1) * step);
    while i < whole {
        let mut flight = [T::zeroed(); FLIGHT as usize];
        let mut k = 0;
        while k < FLIGHT {
            flight[k as usize] = element(i + k * step);
            k += 1;
        }
        k = 0;
        while k < FLIGHT {
            // SAFETY: inside the destination, which is as long as the stage.
            unsafe { store_remote(place::<T>(dst, i + k * step), flight[k as usize], to) };
            k += 1;
        }
        i += FLIGHT * step;
    }
    while i < n {
        // SAFETY: as above.
        unsafe { store_remote(place::<T>(dst, i), element(i), to) };
        i += step;
    }
}

#[inline(always)]
fn place<T>(dst: u64, i: u32) -> u64 {
    dst + u64::from(i) * size_of::<T>() as u64
}
