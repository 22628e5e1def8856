//! Kernels whose calls go through emulated network adapters.

use shmem::prelude::*;
use shmem_sim::{Path, Sim, signals, symmetric, symmetric_with};

fn sim(pes: u32) -> Sim {
    Sim::new(pes).path(Path::Ibgda)
}

#[test]
fn p_and_signals_reach_every_pe_and_oneself() {
    for seed in 0..50 {
        sim(3)
            .seed(seed)
            .run(|| {
                let (data, ready) = (symmetric::<u32>(3), signals(3));
                let me = shmem::my_pe();
                for pe in 0..shmem::n_pes() {
                    shmem::p(data.at(me), 10 + me, pe);
                    shmem::fence(Thread);
                    shmem::signal_op(ready.at(me).set(1), pe);
                }
                for pe in 0..shmem::n_pes() {
                    shmem::wait_until(Thread, ready.at(pe), eq(1));
                    assert_eq!(data.load(pe), 10 + pe);
                }
            })
            .unwrap();
    }
}

#[test]
fn puts_and_gets_of_many_lengths_come_whole() {
    for seed in 0..20 {
        sim(2)
            .block(64)
            .seed(seed)
            .run(|| {
                let (data, ready) = (symmetric::<u32>(1000), signals(1).at(0));
                let source = symmetric_with(1000, |pe, i| pe * 1000 + i as u32);
                let (me, peer) = (shmem::my_pe(), 1 - shmem::my_pe());
                shmem::put_signal(Block, data, source, ready.set(1), peer);
                shmem::wait_until(Block, ready, eq(1));
                for i in Block.strided(1000) {
                    assert_eq!(data.load(i), peer * 1000 + i);
                }
                Block.sync();
                shmem::get(Block, data, source, peer);
                for i in Block.strided(1000) {
                    assert_eq!(data.load(i), peer * 1000 + i);
                }
                let _ = me;
            })
            .unwrap();
    }
}
