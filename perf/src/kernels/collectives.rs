//! Collectives that move elements as they are.

use shmem::collective::Algorithm;
use shmem::prelude::*;

/// A collective.
pub mod kind {
    /// alltoall
    pub const ALLTOALL: u32 = 0;
    /// broadcast from PE 0
    pub const BCAST: u32 = 1;
    /// fcollect
    pub const FCOLLECT: u32 = 2;
}

/// Who makes a collective's calls.
pub trait Scope: 'static {
    /// Its tile.
    type Tile: Tile;
    /// The tile of a kernel.
    fn tile(all: Collective) -> Self::Tile;
}

impl Scope for Thread {
    type Tile = Self;
    #[inline(always)]
    fn tile(_: Collective) -> Self {
        Self
    }
}
impl Scope for Warp {
    type Tile = Self;
    #[inline(always)]
    fn tile(_: Collective) -> Self {
        Warp
    }
}
impl Scope for Block {
    type Tile = Self;
    #[inline(always)]
    fn tile(_: Collective) -> Self {
        Self
    }
}
impl Scope for Grid {
    type Tile = Self;
    #[inline(always)]
    fn tile(all: Collective) -> Self {
        all.grid()
    }
}

/// By an algorithm: 1 packets, 2 one-shot, 3 two-shot.
#[inline(always)]
pub(super) fn by(all: Collective, algorithm: u32) -> Collective {
    all.by(match algorithm {
        1 => Algorithm::Packets,
        2 => Algorithm::OneShot,
        _ => Algorithm::TwoShot,
    })
}

/// The same collective of the world, again and again.
#[kernel(
    collective, max_block = 1024,
    for<0, Thread>, for<0, Warp>, for<0, Block>, for<0, Grid>,
    for<1, Thread>, for<1, Warp>, for<1, Block>, for<1, Grid>,
    for<2, Thread>, for<2, Warp>, for<2, Block>, for<2, Grid>
)]
pub fn moves<const KIND: u32, S: Scope>(all: Collective, dst: SymSlice<u32>, src: SymSlice<u32>, iters: u32) {
    repeat::<KIND, _>(all, S::tile(all), dst, src, iters);
}

/// The same by a block, by the algorithm. A kernel of its own: the other one has no registers for what it does not choose.
#[kernel(collective, max_block = 1024, for<0>, for<1>, for<2>)]
pub fn moves_by<const KIND: u32>(all: Collective, dst: SymSlice<u32>, src: SymSlice<u32>, algorithm: u32, iters: u32) {
    repeat::<KIND, _>(by(all, algorithm), Block, dst, src, iters);
}

#[inline(always)]
fn repeat<const KIND: u32, G: Tile>(all: Collective, tile: G, dst: SymSlice<u32>, src: SymSlice<u32>, iters: u32) {
    let world = shmem::world();
    for _ in 0..iters {
        match KIND {
            kind::ALLTOALL => all.alltoall(tile, world, dst, src),
            kind::BCAST => all.broadcast(tile, world, dst, src, 0),
            _ => all.fcollect(tile, world, dst, src),
        }
    }
}
