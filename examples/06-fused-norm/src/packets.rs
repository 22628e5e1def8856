//! Few tokens: a block for each sends its partial row to every other PE in packets and adds up what comes. It waits for
//! nothing but the data: one flight.
use crate::{Norm, row};
use shmem::bytemuck::cast;
use shmem::packet::{self, Packet};
use shmem::prelude::*;
use shmem::vector::Bf16x8;

/// Three lines of a thread, 48 bytes, travel in four packets of 12.
pub const LINES: usize = 3;
type Packets = [[u32; 3]; 4];

/// The epoch behind this one: of the other half. 0 is none.
#[inline(always)]
pub const fn next(epoch: u32) -> u32 {
    if epoch == u32::MAX { 2 } else { epoch + 1 }
}

/// `boxes`: `[half][token][sender][packet][thread]`. `epochs` counts each token's calls: in memory, so that graphs may be
/// replayed.
///
/// A box is used again two epochs later. It has been read by then: this PE has received the epoch between, and its sender's
/// block sent that after it had received the one in question.
#[kernel(programmatic, max_block = 704)]
pub fn by_packets(a: Norm, boxes: SymSlice<Packet<[u32; 3]>>, epochs: Global<u32>) {
    rows::<false>(a, boxes, epochs);
}

/// The same for rows of up to 9216, where threads have the registers for all that they have loaded.
#[kernel(programmatic, max_block = 384)]
pub fn by_packets_short(a: Norm, boxes: SymSlice<Packet<[u32; 3]>>, epochs: Global<u32>) {
    rows::<true>(a, boxes, epochs);
}

/// Threads of [`by_packets_short`].
pub const SHORT: u32 = 384;

/// KEEP: what is needed later is loaded at once, and kept.
#[inline(always)]
fn rows<const KEEP: bool>(a: Norm, boxes: SymSlice<Packet<[u32; 3]>>, epochs: Global<u32>) {
    let (me, n) = (a.team.my_pe(), a.team.n_pes());
    let mut t = Block.id();
    while t < a.tokens {
        let epoch = next(epochs.load(t));
        let (x, residual) = (a.x.chunk(t, a.lines), a.residual.chunk(t, a.lines));
        let weight = || -> [Bf16x8; LINES] { row::load(a.lines, |i| a.weight.load(i)) };
        let own: [Bf16x8; LINES] = row::load(a.lines, |i| x.load(i));
        let rest: [Bf16x8; LINES] = row::load(a.lines, |i| residual.load(i));
        let early = KEEP.then(weight);
        let (half, packets) = (packet::half(boxes, epoch), cast::<_, Packets>(own));
        let from = |pe: u32| half.chunk(t * n + pe, 4 * Block.size());
        for k in 1..n {
            let pe = if me + k < n { me + k } else { me + k - n };
            packet::send_each(Block, from(me), packets, epoch, a.team.pe(pe));
        }
        let weight = early.unwrap_or_else(weight);
        let mut sum = rest.map(Bf16x8::f32);
        for pe in 0..n {
            let part: [Bf16x8; LINES] = if pe != me {
                cast::<Packets, _>(packet::receive_each(Block, from(pe), epoch))
            } else if KEEP {
                own
            } else {
                row::load(a.lines, |i| x.load(i))
            };
            row::add(&mut sum, &part);
        }
        let sum = sum.map(Bf16x8::from_f32);
        row::each::<LINES>(a.lines, |j, i| residual.store(i, sum[j]));
        // All threads meet here: who sends the next epoch does so after everyone has received this one.
        row::norm(&a, t, &sum, |j, _| weight[j]);
        if Block.leader() {
            epochs.store(t, epoch);
        }
        t += thread::grid_size();
    }
}
