//! put of computed elements, as over a network: they are placed in the stage, and go from there.

use super::{put, put_signal};
use crate::computed::fill;
use crate::signal::Action;
use crate::team::Peer;
use crate::tile::Tile;
use crate::{Pod, SymSlice};

#[track_caller]
pub(crate) fn put_computed<T: Pod, G: Tile>(
    tile: G,
    dst: u64,
    stage: SymSlice<T>,
    element: impl Fn(u32) -> T,
    to: Peer,
    blocking: bool,
) {
    let (span, extent) = fill(tile, stage, element);
    put(tile, dst, span, extent, to, blocking);
}

#[track_caller]
pub(crate) fn put_computed_signal<T: Pod, G: Tile>(
    tile: G,
    dst: u64,
    stage: SymSlice<T>,
    element: impl Fn(u32) -> T,
    action: impl Action,
    to: Peer,
) {
    let (span, extent) = fill(tile, stage, element);
    put_signal(tile, dst, span, extent, action, to, true);
}
