//! Kernels of the collectives' and packets' benchmarks.
use shmem::collective::{Algorithm, Sum};
use shmem::packet::{self, Packet, Payload};
use shmem::prelude::*;

/// A collective of the benchmarks.
pub mod kind {
    /// alltoall
    pub const ALLTOALL: u32 = 0;
    /// broadcast
    pub const BCAST: u32 = 1;
    /// fcollect
    pub const FCOLLECT: u32 = 2;
    /// reduce, float sum
    pub const REDUCTION: u32 = 3;
    /// `reduce_scatter`, float sum
    pub const REDUCESCATTER: u32 = 4;
}

/// The same collective of the world, again and again, by a block (TILE 0) or by the grid (1) as the size
/// chooses, or by a block with an algorithm of its own, 1 to 3 (2).
#[kernel(collective, max_block = 1024, for<0, 0>, for<1, 0>, for<2, 0>, for<3, 0>, for<4, 0>, for<0, 1>, for<1, 1>, for<2, 1>, for<3, 1>, for<4, 1>, for<0, 2>, for<1, 2>, for<2, 2>, for<3, 2>, for<4, 2>)]
pub fn collectives<const KIND: u32, const TILE: u32>(
    all: Collective,
    dst: SymSlice<f32>,
    src: SymSlice<f32>,
    algorithm: u32,
    iters: u32,
) {
    match TILE {
        0 => repeat::<KIND, Block>(all, Block, dst, src, iters),
        1 => repeat::<KIND, Grid>(all, all.grid(), dst, src, iters),
        _ => {
            let by = [Algorithm::Packets, Algorithm::OneShot, Algorithm::TwoShot][(algorithm as usize).clamp(1, 3) - 1];
            repeat::<KIND, Block>(all.by(by), Block, dst, src, iters);
        }
    }
}

#[inline(always)]
fn repeat<const KIND: u32, G: Tile>(all: Collective, tile: G, dst: SymSlice<f32>, src: SymSlice<f32>, iters: u32) {
    let world = shmem::world();
    for _ in 0..iters {
        match KIND {
            kind::ALLTOALL => all.alltoall(tile, world, dst, src),
            kind::BCAST => all.broadcast(tile, world, dst, src, 0),
            kind::FCOLLECT => all.fcollect(tile, world, dst, src),
            kind::REDUCTION => all.reduce(tile, world, Sum, dst, src),
            _ => all.reduce_scatter(tile, world, Sum, dst, src),
        }
    }
}

/// A payload made of a number.
pub trait Ball: Payload + PartialEq {
    /// Every word of it follows from the number.
    fn new(x: u32) -> Self;
}
impl Ball for u32 {
    #[inline(always)]
    fn new(x: u32) -> Self {
        x
    }
}
impl Ball for u64 {
    #[inline(always)]
    fn new(x: u32) -> Self {
        u64::from(x) << 32 | u64::from(!x)
    }
}
impl Ball for [u32; 3] {
    #[inline(always)]
    fn new(x: u32) -> Self {
        [x, !x, x + 1]
    }
}

/// PE 0 sends a packet, PE 1 sends the next one. `wrong` counts what did not arrive as it was sent.
#[kernel(for<u32>, for<u64>, for<[u32; 3]>)]
pub fn packet_pingpong<T: Ball>(slots: SymSlice<Packet<T>>, first: u32, iters: u32, wrong: Global<u32>) {
    let me = shmem::my_pe();
    let mut lost = 0;
    for epoch in first..first + iters {
        let slot = packet::half(slots, epoch).at(0);
        if me == 0 {
            packet::send(slot, T::new(epoch), epoch, 1);
        }
        lost += u32::from(packet::receive(slot, epoch) != T::new(epoch));
        if me == 1 {
            packet::send(slot, T::new(epoch), epoch, 0);
        }
    }
    wrong.store(0, wrong.load(0) + lost);
}
