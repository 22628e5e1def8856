//! put of computed elements: each goes from registers to the peer.

use super::nvlink::{signal, store_remote};
use crate::signal::Action;
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
    pe: u32,
    blocking: bool,
) {
    send(tile, dst, stage, element, pe);
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
    pe: u32,
) {
    send(tile, dst, stage, element, pe);
    tile.sync();
    if tile.leader() {
        signal(action, pe);
    }
}

/// Of the stage only the length counts.
#[inline(always)]
#[track_caller]
fn send<T: Pod, G: Tile>(tile: G, dst: u64, stage: SymSlice<T>, element: impl Fn(u32) -> T, pe: u32) {
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
            unsafe { store_remote(place::<T>(dst, i + k * step), flight[k as usize], pe) };
            k += 1;
        }
        i += FLIGHT * step;
    }
    while i < n {
        // SAFETY: as above.
        unsafe { store_remote(place::<T>(dst, i), element(i), pe) };
        i += step;
    }
}

#[inline(always)]
fn place<T>(dst: u64, i: u32) -> u64 {
    dst + u64::from(i) * size_of::<T>() as u64
}
