//! Kernels whose calls go through emulated network adapters: the code that drives them on GPUs, and what adapters make of it.

use shmem::collective::{Algorithm, Sum};
use shmem::fault::FaultKind;
use shmem::prelude::*;
use shmem::{Thread, fence, flush, g, get, my_pe, n_pes, p, put, put_nbi, put_signal, quiet, signal_op, wait_until};
use shmem_sim::{Failure, Fault, Link, Path, Sim, counters, signals, symmetric, symmetric_with};
use std::collections::BTreeSet;
use std::sync::Mutex;

fn sim(pes: u32) -> Sim {
    Sim::new(pes).path(Path::Ibgda)
}

/// So many in tests that are optimised, and fewer in others.
fn many(optimised: u32) -> u32 {
    if cfg!(debug_assertions) {
        optimised / 50
    } else {
        optimised
    }
}

/// Numbers that look random.
fn noise(x: &mut u64) -> u64 {
    *x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut y = *x;
    y = (y ^ (y >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    y = (y ^ (y >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    y ^ (y >> 31)
}

#[test]
fn p_and_signals_reach_every_pe_and_oneself() {
    for seed in 0..50 {
        let ran = sim(3).seed(seed).run(|| {
            let (data, ready, me) = (symmetric::<u32>(3), signals(3), my_pe());
            for pe in 0..n_pes() {
                p(data.at(me), 10 + me, pe);
                fence(Thread);
                signal_op(ready.at(me).set(1), pe);
            }
            for pe in 0..n_pes() {
                wait_until(Thread, ready.at(pe), eq(1));
                assert_eq!(data.load(pe), 10 + pe);
            }
        });
        ran.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

#[test]
fn a_block_puts_and_gets_whole_objects() {
    for seed in 0..20 {
        let ran = sim(2).block(64).seed(seed).run(|| {
            let (data, arrived) = (symmetric::<u32>(1000), counters(1).at(0));
            let source = symmetric_with(1000, |pe, i| pe * 1000 + i as u32);
            let peer = 1 - my_pe();
            let check = || assert!(Block.strided(1000).all(|i| data.load(i) == peer * 1000 + i));
            put_signal(Block, data, source, arrived.add(1), peer);
            wait_until(Block, arrived, ge(1));
            check();
            Block.sync();
            get(Block, data, source, peer);
            check();
        });
        ran.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

/// Every collective by one thread, whose result is in its memory at return, whatever brought it there.
#[test]
fn results_of_collectives_are_here_at_return() {
    for seed in 0..100 {
        for (pes, by) in [
            (2, Algorithm::OneShot),
            (2, Algorithm::TwoShot),
            (3, Algorithm::TwoShot),
        ] {
            let ran = sim(pes).seed(seed).run(|| {
                let (all, world, n) = (shmem_sim::collective().by(by), shmem::world(), u64::from(n_pes()));
                let (dst, wide) = (symmetric::<u32>(33), symmetric::<u32>(99).slice(0..33 * n));
                let (from, source) = (
                    move |pe: u32, i: u32| 1000 * pe + i,
                    symmetric_with(99, |pe, i| 1000 * pe + i as u32),
                );
                let (own, whole) = (source.slice(0..33), source.slice(0..33 * n));
                let sum = |i: u32| (0..n_pes()).map(|pe| from(pe, i)).sum::<u32>();
                let me = my_pe();
                all.reduce(Thread, world, Sum, dst, own);
                assert!((0..33).all(|i| dst.load(i) == sum(i)), "reduce");
                all.reduce_scatter(Thread, world, Sum, dst, whole);
                assert!((0..33).all(|i| dst.load(i) == sum(33 * me + i)), "reduce_scatter");
                all.broadcast(Thread, world, dst, own, 1);
                assert!((0..33).all(|i| dst.load(i) == from(1, i)), "broadcast");
                all.fcollect(Thread, world, wide, own);
                assert!(
                    (0..33 * n_pes()).all(|i| wide.load(i) == from(i / 33, i % 33)),
                    "fcollect"
                );
                all.alltoall(Thread, world, wide, whole);
                assert!(
                    (0..33 * n_pes()).all(|i| wide.load(i) == from(i / 33, 33 * me + i % 33)),
                    "alltoall"
                );
                all.reduce(Thread, world, Sum, own, own);
                assert!((0..33).all(|i| own.load(i) == sum(i)), "reduce in place");
            });
            ran.unwrap_or_else(|failure| panic!("seed {seed}, {pes} PEs, {by:?}: {failure}"));
        }
    }
}

#[test]
fn node_mates_load_and_store_and_others_do_not() {
    for seed in 0..20 {
        let ran = sim(4).node_pes(2).seed(seed).run(|| {
            let (data, me) = (symmetric::<u32>(4), my_pe());
            for pe in 0..4 {
                assert_eq!(shmem::ptr(data.at(0), pe).is_some(), pe / 2 == me / 2);
                p(data.at(me), 1 + me, pe);
            }
            shmem_sim::collective().barrier(Thread, shmem::world());
            assert_eq!([0, 1, 2, 3].map(|pe| data.load(pe)), [1, 2, 3, 4]);
        });
        ran.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

#[test]
fn a_long_source_rewritten_before_flush_may_send_new_data() {
    for flushed in [false, true] {
        let seen = Mutex::new(BTreeSet::new());
        for seed in 0..500 {
            let ran = sim(2).queues(1, 16).seed(seed).run(|| {
                let (data, ready) = (symmetric::<u32>(4), signals(1).at(0));
                let source = symmetric_with(4, |_, _| 1u32);
                if my_pe() == 0 {
                    put_nbi(Thread, data, source, 1);
                    if flushed {
                        flush(Thread);
                    }
                    source.store(0, 2);
                    quiet(Thread);
                    signal_op(ready.set(1), 1);
                } else {
                    wait_until(Thread, ready, eq(1));
                    seen.lock().unwrap().insert(data.load(0));
                }
            });
            ran.unwrap();
        }
        let allowed = if flushed { vec![1] } else { vec![1, 2] };
        assert!(seen.into_inner().unwrap().into_iter().eq(allowed));
    }
}

#[test]
fn a_queue_of_16_blocks_serves_1024_threads() {
    for seed in 0..if cfg!(debug_assertions) { 2 } else { 8 } {
        let ran = sim(2).queues(1, 16).block(1024).seed(seed).time_limit(None).run(|| {
            let (data, sums) = (symmetric::<u64>(2048), symmetric::<u64>(2));
            let row = symmetric::<u32>(4 * 1024);
            let (me, t) = (my_pe(), thread::index());
            for pe in 0..2 {
                p(data.at(me * 1024 + t), u64::from(t) + 1, pe);
                let old = shmem::fetch_add(sums.at(0), 1u64, pe);
                assert!(old < 2048);
                shmem::add(sums.at(1), u64::from(t), pe);
            }
            // Inside entries of 4 blocks each.
            put(Thread, row.chunk(t, 4), &[t, me, 7, t ^ 1], me);
            let mine = [g(row.at(4 * t), me), g(row.at(4 * t + 3), me)];
            assert_eq!(mine, [t, t ^ 1]);
            shmem_sim::collective().barrier(Block, shmem::world());
            for pe in 0..2 {
                assert_eq!(data.load(pe * 1024 + t), u64::from(t) + 1);
            }
            assert_eq!([sums.load(0), sums.load(1)], [2048, 1024 * 1023]);
        });
        ran.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

#[test]
fn indices_wrap_and_nothing_is_lost() {
    // Entries of one block each, past 2^16; and of four, past 2^17.
    for (blocks, rounds, words) in [(16, 66_000, 1), (1 << 10, 33_000, 50)] {
        let ran = sim(2).queues(1, blocks).seed(3).time_limit(None).run(|| {
            let (data, source) = (symmetric::<u32>(50), symmetric::<u32>(50));
            if my_pe() == 0 {
                for round in 0..rounds {
                    if words == 1 {
                        p(data.at(0), round, 1);
                    } else {
                        source.store(49, round);
                        put(Thread, data, source, 1);
                    }
                    if round % 5000 == 4999 {
                        assert_eq!(g(data.at(words - 1), 1), round);
                    }
                }
                quiet(Thread);
                assert_eq!(g(data.at(words - 1), 1), rounds - 1);
            }
        });
        ran.unwrap_or_else(|failure| panic!("{blocks} blocks: {failure}"));
    }
}

#[test]
fn a_batch_of_any_length_is_told_to_the_adapter() {
    // Among them ones whose last entry completes by itself, as it crosses a quarter of the queue.
    for count in 1..=20u32 {
        let ran = sim(2).queues(1, 16).seed(count.into()).run(|| {
            let data = symmetric::<u32>(20);
            if my_pe() == 0 {
                let row = [7];
                let batch = shmem::batch(Thread);
                for i in 0..count {
                    batch.put(data.chunk(i, 1), &row, 1);
                }
                batch.quiet();
                assert_eq!(g(data.at(count - 1), 1), 7);
            }
        });
        ran.unwrap_or_else(|failure| panic!("{count}: {failure}"));
    }
}

/// Elements that one lane has for itself at each PE.
const OWN: u32 = 24;

/// A lane does random operations on elements of its own at all PEs, and knows what they hold: one queue pair keeps order.
fn random_operations(seed: u64, rounds: u32) {
    let (words, own) = (symmetric::<u64>((2 * OWN * lanes()) as usize), OWN);
    let (mine, n, me) = (
        thread::block_idx_x() * thread::block_size() + thread::index(),
        n_pes(),
        my_pe(),
    );
    let stage = symmetric::<u64>((OWN * lanes()) as usize).chunk(mine, own);
    // The elements that this PE's lane has at each PE.
    let at = words.chunk(me * lanes() + mine, own);
    let mut model = vec![[0u64; OWN as usize]; n as usize];
    let mut x = seed << 32 | u64::from(me << 16 | mine);
    for _ in 0..rounds {
        let (pe, i, value) = (
            (noise(&mut x) % u64::from(n)) as u32,
            (noise(&mut x) % u64::from(OWN)) as u32,
            noise(&mut x),
        );
        let word = at.at(i);
        let cell = &mut model[pe as usize][i as usize];
        match noise(&mut x) % 14 {
            0 | 1 => {
                p(word, value, pe);
                *cell = value;
            }
            2 => assert_eq!(g(word, pe), *cell),
            3 => {
                assert_eq!(shmem::fetch_add(word, value, pe), *cell);
                *cell = cell.wrapping_add(value);
            }
            4 => {
                shmem::add(word, value, pe);
                *cell = cell.wrapping_add(value);
            }
            5 => assert_eq!(std::mem::replace(cell, value), shmem::swap(word, value, pe)),
            6 => {
                let expected = if value & 1 == 0 { *cell } else { value };
                assert_eq!(shmem::compare_swap(word, expected, value, pe), *cell);
                *cell = if expected == *cell { value } else { *cell };
            }
            7 => {
                assert_eq!(shmem::fetch_and(word, value, pe), *cell);
                *cell &= value;
            }
            8 => {
                shmem::or(word, value, pe);
                *cell |= value;
            }
            9 => {
                assert_eq!(shmem::fetch_xor(word, value, pe), *cell);
                *cell ^= value;
            }
            kind => {
                // A row of some elements, from or to symmetric memory or the lane's own.
                let length = 1 + (value % u64::from(OWN - i)) as u32;
                let (there, here) = (at.slice(i..i + length), stage.slice(0..length));
                let known = &mut model[pe as usize][i as usize..(i + length) as usize];
                match kind {
                    10 => {
                        for (j, cell) in (0..).zip(known) {
                            *cell = noise(&mut x);
                            here.store(j, *cell);
                        }
                        put(Thread, there, here, pe);
                    }
                    11 => {
                        let mut row = [0; OWN as usize];
                        for (from, cell) in row.iter_mut().zip(known) {
                            *cell = noise(&mut x);
                            *from = *cell;
                        }
                        put(Thread, there, &row[..length as usize], pe);
                    }
                    12 => {
                        get(Thread, here, there, pe);
                        assert!((0..length).all(|j| here.load(j) == known[j as usize]));
                    }
                    _ => {
                        quiet(Thread);
                    }
                }
            }
        }
    }
    for pe in 0..n {
        for i in 0..own {
            assert_eq!(
                g(at.at(i), pe),
                model[pe as usize][i as usize],
                "element {i} of PE {pe}"
            );
        }
    }
}

fn lanes() -> u32 {
    thread::block_size() * thread::grid_size()
}

#[test]
fn a_million_random_operations_do_what_a_model_says() {
    // By 128 lanes, in queues long and short, on several seeds: with and without lost packets.
    let seeds = 8;
    for seed in 0..seeds {
        let rounds = many(1_000_000) / (128 * seeds as u32) + 1;
        let blocks = if seed % 2 == 0 { 16 } else { 256 };
        let world = sim(2).grid(2).block(32).queues(2, blocks).seed(seed).time_limit(None);
        let ran = world.run(|| random_operations(seed, rounds));
        ran.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

/// Two PEs signal in turn; with a quiet behind each signal, where errors show.
fn ping_pong(quieted: bool) {
    let (ready, other) = (signals(1).at(0), 1 - my_pe());
    let signal = |round| {
        signal_op(ready.set(round), other);
        if quieted {
            quiet(Thread);
        }
    };
    for round in 1..=4 {
        if my_pe() == 0 {
            signal(round);
        }
        wait_until(Thread, ready, eq(round));
        if my_pe() == 1 {
            signal(round);
        }
    }
}

#[test]
fn an_adapter_that_is_cut_off_is_a_fault_with_the_peer_in_it() {
    // No acknowledgement after all retries; or, where that was an entry that nobody looks at, the flushed one behind it.
    const SYNDROMES: [u64; 2] = [0x15, 0x05];
    for (at, seed) in [(0, 1), (1, 2), (3, 3)] {
        let failed = sim(2)
            .seed(seed)
            .fault(Fault::CutOff { pe: 0, at })
            .run(|| ping_pong(true));
        let Err(Failure::Fault { record, pe, .. }) = failed else {
            panic!("{failed:?}")
        };
        let peer = u64::from(1 - pe);
        assert_eq!((record.kind, record.a), (FaultKind::Network as u32, peer), "{at}");
        assert!(SYNDROMES.contains(&(record.b & 0xff)), "{record:?}");
        // Whoever only waits for an answer is not told, but the report says why there is none.
        let failed = sim(2)
            .seed(seed)
            .fault(Fault::CutOff { pe: 0, at })
            .run(|| ping_pong(false));
        let Err(Failure::Deadlock { report }) = failed else {
            panic!("{failed:?}")
        };
        assert!(
            report.contains("context 0: no acknowledgement after 7 retries"),
            "{report}"
        );
    }
}

#[test]
fn what_an_adapter_gives_up_is_a_fault() {
    let failed = sim(2).fault(Fault::Error { pe: 1, at: 2 }).run(|| ping_pong(true));
    let Err(Failure::Fault { pe: 1, record, .. }) = failed else {
        panic!("{failed:?}")
    };
    assert_eq!((record.kind, record.a), (FaultKind::Network as u32, 0));
}

#[test]
fn a_killed_pe_and_a_frozen_link_are_told() {
    let killed = sim(2).fault(Fault::Kill { pe: 1, at: 2 }).run(|| ping_pong(true));
    assert!(matches!(killed, Err(Failure::PeerFailed { pe: 1, .. })), "{killed:?}");
    let link = Link::new(1, 0);
    let frozen = sim(2).fault(Fault::Freeze { link, at: 2 }).run(|| ping_pong(false));
    let Err(Failure::Deadlock { report }) = frozen else {
        panic!("{frozen:?}")
    };
    assert!(
        report.contains("PE 1 to PE 0, context 0: the link is frozen"),
        "{report}"
    );
}

#[test]
fn every_lost_store_of_the_device_path_is_found() {
    // Of each kind of entry: units and records. Whatever is not written is never taken for something that was.
    let kernel = || {
        let (data, source, sum) = (symmetric::<u32>(64), symmetric::<u32>(64), symmetric::<u64>(2));
        if my_pe() == 0 {
            p(data.at(0), 5, 1);
            put(Thread, data, source, 1);
            put(Thread, data.slice(0..7), &[1, 2, 3, 4, 5, 6, 7], 1);
            shmem::fetch_add(sum.at(0), 3u64, 1);
            shmem::swap(sum.at(1), 4u64, 1);
            get(Thread, data, source, 1);
            p(data.at(1), 6, 1);
            quiet(Thread);
        }
    };
    sim(2).queues(1, 16).run(kernel).unwrap();
    let (mut found, mut at) = (0, 1);
    loop {
        let ran = sim(2).queues(1, 16).fault(Fault::LoseStore { pe: 0, at }).run(kernel);
        match ran {
            Err(Failure::Adapter { report }) => {
                assert!(
                    report.starts_with("the network adapter of PE 0, context 0 to PE 1, queue pair 0x"),
                    "{report}"
                );
                assert!(report.contains("sim/tests/ibgda.rs"), "{report}");
                found += 1;
            }
            Ok(_) => break,
            Err(other) => panic!("store {at}: {other}"),
        }
        at += 1;
    }
    // Nothing more is written: all was found.
    assert!(found > 30, "only {found} stores");
}

#[test]
fn what_comes_after_the_kernel_is_found_as_well() {
    // The last entry is wrong, and nobody waits for it.
    let kernel = || {
        if my_pe() == 0 {
            p(symmetric::<u32>(1).at(0), 5, 1);
        } else {
            symmetric::<u32>(1);
        }
    };
    let failed = sim(2).fault(Fault::LoseStore { pe: 0, at: 4 }).run(kernel);
    assert!(matches!(failed, Err(Failure::Adapter { .. })), "{failed:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..10 {
        let run = || {
            let order = Mutex::new(Vec::new());
            let ran = sim(3).block(32).queues(1, 16).seed(seed).run(|| {
                let sum = symmetric::<u32>(1).at(0);
                let old = shmem::fetch_add(sum, 1, 0);
                order.lock().unwrap().push((my_pe(), thread::index(), old));
            });
            (ran.unwrap().lane_switches, order.into_inner().unwrap())
        };
        assert_eq!(run(), run());
    }
}
