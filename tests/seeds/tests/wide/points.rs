//! Point to point from everyone to everyone, held together by barriers, signals or packets alone.

use shmem::packet;
use shmem::prelude::*;
use shmem_sim::{collective, counters, signals, symmetric};

/// What PE `from` tells PE `to` in a round.
fn word(round: u32, from: u32, to: u32) -> u32 {
    round << 16 | from << 8 | to
}

/// In each round everyone tells everyone a word: ahead of a barrier, by a signal and a counter, and in a packet. A block of each
/// PE calls it.
pub(crate) fn everyone_to_everyone() {
    let (me, n, world) = (shmem::my_pe(), shmem::n_pes(), shmem::world());
    let len = n as usize;
    let (plain, signalled, slots) = (symmetric::<u32>(len), symmetric::<u32>(len), symmetric(2 * len));
    let (signals, counter) = (signals(len), counters(1).at(0));
    for round in 1..=3 {
        // Who is not waited for is seen to come late.
        if me == [0, n - 1, n / 2][round as usize % 3] {
            for _ in 0..200 {
                Block.sync();
            }
        }
        for to in Block.strided(n) {
            shmem::p(plain.at(me), word(round, me, to), to);
        }
        collective().barrier(Block, world);
        for from in Block.strided(n) {
            assert_eq!(
                plain.load(from),
                word(round, from, me),
                "ahead of a barrier, from PE {from}"
            );
        }
        for to in Block.strided(n) {
            shmem::p(signalled.at(me), word(round, me, to), to);
            shmem::fence(Thread);
            shmem::signal_op(signals.at(me).set(round.into()), to);
            shmem::signal_op(counter.add(1), to);
        }
        shmem::wait_until_all(Block, signals, ge(u64::from(round)));
        for from in Block.strided(n) {
            assert_eq!(
                signalled.load(from),
                word(round, from, me),
                "ahead of a signal, from PE {from}"
            );
        }
        shmem::wait_until(Block, counter, ge(u64::from(round * n)));
        let half = packet::half(slots, round);
        for to in Block.strided(n) {
            packet::send(half.at(me), word(round, me, to), round, to);
        }
        for from in Block.strided(n) {
            assert_eq!(
                packet::receive(half.at(from), round),
                word(round, from, me),
                "a packet of PE {from}"
            );
        }
        // What was read may be written again.
        collective().sync(Block, world.slot(1));
    }
}
