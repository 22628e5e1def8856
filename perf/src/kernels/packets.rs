//! Half round trips of packets.

use shmem::packet::{self, Packet, Payload};
use shmem::prelude::*;

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
