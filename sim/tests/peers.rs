//! Several PEs: puts, signals, waits.

use shmem::prelude::*;
use shmem::{
    fence, g, my_pe, n_pes, p, put, put_nbi, put_signal, quiet, signal_fetch, signal_op, spin_until, wait_until,
};
use shmem_sim::{Sim, counters, global, run, signals, symmetric, symmetric_with};

#[test]
fn a_value_goes_around_the_ring() {
    run(5, 1, 1, || {
        let (value, ready) = (symmetric::<u32>(1).at(0), signals(1).at(0));
        let next = (my_pe() + 1) % n_pes();
        if my_pe() > 0 {
            wait_until(Thread, ready, eq(1));
        }
        p(value, value.load() + 1, next);
        fence(Thread);
        signal_op(ready.set(1), next);
        if my_pe() == 0 {
            wait_until(Thread, ready, eq(1));
            assert_eq!(value.load(), 5);
        }
    })
    .unwrap();
}

#[test]
fn every_tile_puts_every_length() {
    for (block, n) in [(32, 1u32), (32, 31), (64, 1000), (96, 97)] {
        run(2, 1, block, || {
            let source = symmetric_with(n as usize, |pe, i| 1000 * (pe + 1) + i as u32);
            let (by_block, by_warp, by_thread) = (
                symmetric::<u32>(n as usize),
                symmetric::<u32>(n as usize),
                symmetric::<u32>(n as usize),
            );
            let done = counters(1).at(0);
            let peer = 1 - my_pe();
            put(Block, by_block, source, peer);
            if warp::warp_id() == 0 {
                put_nbi(Warp, by_warp, source, peer);
            }
            if thread::index() == 0 {
                put(Thread, by_thread, source, peer);
            }
            quiet(Block);
            if thread::index() == 0 {
                signal_op(done.add(1), peer);
            }
            wait_until(Block, done, ge(1));
            for i in Block.strided(n) {
                for copy in [by_block, by_warp, by_thread] {
                    assert_eq!(copy.load(i), 1000 * (peer + 1) + i);
                }
            }
        })
        .unwrap();
    }
}

#[test]
fn a_signal_arrives_behind_its_data() {
    for seed in 0..20 {
        Sim::new(4)
            .grid(2)
            .block(64)
            .seed(seed)
            // Its reads race with the neighbour's next round, on purpose.
            .check(false)
            .run(|| {
                let (me, n) = (my_pe(), n_pes());
                let block = thread::block_index();
                let source = symmetric::<u64>(2 * 100).chunk(block, 100);
                let target = symmetric::<u64>(2 * 100).chunk(block, 100);
                let ready = signals(2).at(block);
                for round in 1..=4u64 {
                    for i in Block.strided(100) {
                        source.store(i, round * 1000 + u64::from(me));
                    }
                    // Keeps this round's data behind the last one's, and syncs.
                    fence(Block);
                    put_signal(Block, target, source, ready.set(round), (me + 1) % n);
                    wait_until(Block, ready, ge(round));
                    let from = u64::from((me + n - 1) % n);
                    for i in Block.strided(100) {
                        // A fast neighbour may be a round ahead.
                        assert!(target.load(i) >= round * 1000 + from);
                        assert_eq!(target.load(i) % 1000, from);
                    }
                }
            })
            .unwrap();
    }
}

#[test]
fn counters_count_every_lane() {
    run(3, 2, 50, || {
        let arrived = counters(1).at(0);
        signal_op(arrived.add(2), 0);
        if my_pe() == 0 {
            assert!(wait_until(Block, arrived, ge(3 * 2 * 50 * 2)) >= 600);
        }
    })
    .unwrap();
}

#[test]
fn a_closure_may_wait_for_several_words() {
    run(3, 1, 2, || {
        let flags = signals(3);
        if thread::index() == 1 {
            for pe in 0..3 {
                signal_op(flags.at(my_pe()).set(1), pe);
            }
        } else {
            spin_until(|| (0..3).all(|pe| signal_fetch(flags.at(pe)) == 1));
        }
    })
    .unwrap();
}

#[test]
fn negative_values_can_be_waited_for() {
    run(2, 1, 1, || {
        let x = symmetric::<i32>(1).at(0);
        p(x, -7, 1 - my_pe());
        assert_eq!(wait_until(Thread, x, lt(0)), -7);
    })
    .unwrap();
}

#[test]
fn g_reads_a_peer() {
    run(3, 1, 1, || {
        let x = symmetric_with(4, |pe, i| f64::from(pe) + i as f64 / 8.0);
        let from = (my_pe() + 2) % 3;
        assert!(g(x.at(2), from).total_cmp(&(f64::from(from) + 0.25)).is_eq());
    })
    .unwrap();
}

#[test]
fn all_pes_pass_a_barrier_together() {
    for seed in 0..10 {
        Sim::new(6)
            .block(48)
            .seed(seed)
            .run(|| {
                // SAFETY: `Sim` launches collectively.
                let all = unsafe { Collective::__new(0) };
                let x = symmetric::<u32>(1).at(0);
                for round in 0..4 {
                    if Block.leader() {
                        assert_eq!(g(x, (my_pe() + 1) % 6), round);
                    }
                    all.barrier(Block, shmem::world());
                    if Block.leader() {
                        x.store(round + 1);
                    }
                    all.barrier(Block, shmem::world());
                }
            })
            .unwrap();
    }
}

#[test]
fn local_memory_is_each_pes_own() {
    run(3, 2, 8, || {
        let x = global::<u32>(16);
        x.store(thread::block_index() * 8 + thread::index(), my_pe());
        Block.sync();
        assert_eq!(x.load(thread::block_index() * 8 + 7 - thread::index()), my_pe());
    })
    .unwrap();
}

#[test]
fn many_lanes_on_many_pes_meet() {
    run(8, 8, 256, || {
        let sums = counters(8);
        let block = thread::block_index();
        for round in 1..=3 {
            Block.sync();
            if thread::index() < 8 {
                signal_op(sums.at(block).add(1), thread::index());
            }
            wait_until(Block, sums.at(block), ge(8 * round));
        }
    })
    .unwrap();
}
