//! put of computed elements, as over a network: they are placed in the stage, and go from there.

use super::{Extent, put, put_signal};
use crate::rma::Source;
use crate::signal::Action;
use crate::team::Peer;
use crate::tile::Tile;
use crate::{Pod, SymSlice};

#[track_caller]
fn fill<T: Pod, G: Tile>(tile: G, stage: SymSlice<T>, element: impl Fn(u32) -> T) -> Extent {
    let n = stage.len() as u32;
    for i in tile.strided(n) {
        stage.store(i, element(i));
    }
    tile.sync();
    Extent::of::<T>(stage.len())
}

#[track_caller]
pub(crate) fn put_computed<T: Pod, G: Tile>(
    tile: G,
    dst: u64,
    stage: SymSlice<T>,
    element: impl Fn(u32) -> T,
    to: Peer,
    blocking: bool,
) {
    let extent = fill(tile, stage, element);
    put(tile, dst, Source::<T, G>::__span(stage), extent, to, blocking);
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
    let extent = fill(tile, stage, element);
    put_signal(tile, dst, Source::<T, G>::__span(stage), extent, action, to);
}
