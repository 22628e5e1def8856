//! Collectives: over other paths, where epochs wrap, and what members do wrong.

use shmem::collective::by_blocks::{self, Call, OpName, Plan};
use shmem::collective::{Algorithm, Max, Part, Sum};
use shmem::fault::FaultKind;
use shmem::prelude::*;
use shmem::state::{SystemArea, TeamBlock};
use shmem_sim::{Failure, Path, Sim, collective, symmetric};

const SEEDS: u64 = 25;

#[track_caller]
fn clean(sim: impl Fn() -> Sim, kernel: impl Fn() + Send + Sync) {
    for seed in 0..SEEDS {
        if let Err(failure) = sim().seed(seed).run(&kernel) {
            panic!("seed {seed}: {failure}");
        }
    }
}

/// Every collective, on the same slot, without a barrier between.
fn rounds(rounds: u32, len: u64, by: impl Fn(Collective, u32) -> Collective) {
    let (me, n, team) = (shmem::my_pe(), shmem::n_pes(), shmem::world());
    let whole = len * u64::from(n);
    let (a, b) = (symmetric::<u32>(whole as usize), symmetric::<u32>(whole as usize));
    let (part, t) = (a.chunk(me, len), u64::from(Warp.rank()));
    for round in 0..rounds {
        let all = by(collective(), round);
        let element = |pe: u32, i: u64| 1000 * round + 100 * pe + i as u32;
        for i in (t..whole).step_by(32) {
            b.store(i, element(me, i));
        }
        all.alltoall(Warp, team, a, b);
        for i in (0..whole).rev().skip(t as usize).step_by(32) {
            assert_eq!(a.load(i), element((i / len) as u32, u64::from(me) * len + i % len));
        }
        all.reduce_scatter(Warp, team, Sum, part, b);
        all.fcollect(Warp, team, a, part);
        let root = round % n;
        all.broadcast(Warp, team, b, a, root);
        all.reduce(Warp, team, Max, b, b);
        all.reduce_to(Warp, team, Sum, a, b, root);
        let sum = |i: u64| (0..n).map(|pe| element(pe, i)).sum::<u32>();
        for i in (0..whole).rev().skip(t as usize).step_by(32) {
            assert_eq!(b.load(i), sum(i));
            if me == root {
                assert_eq!(a.load(i), n * sum(i));
            }
        }
        Warp.sync();
    }
}

#[test]
fn mixed_collectives_on_one_slot_are_clean() {
    for pes in [1, 2, 3, 4] {
        clean(|| Sim::new(pes).block(32), || rounds(3, 3, |all, _| all));
        clean(
            || Sim::new(pes).block(32),
            || {
                rounds(4, 9, |all, round| match round % 4 {
                    0 => all,
                    1 => all.by(Algorithm::OneShot),
                    2 => all.by(Algorithm::Packets),
                    _ => all.by(Algorithm::TwoShot),
                });
            },
        );
    }
}

#[test]
fn mixed_collectives_are_clean_over_other_paths() {
    for path in [Path::QueuePairs, Path::Proxy] {
        clean(
            || Sim::new(3).block(32).path(path).node_pes(1),
            || {
                rounds(
                    3,
                    5,
                    |all, round| if round == 1 { all.by(Algorithm::TwoShot) } else { all },
                );
            },
        );
    }
}

/// Fills the packets of the world's slot 0 with old ones, and sets the epoch. The word that counts it, and the packets.
fn old_packets(epoch: u64) -> (SymSlice<u64>, SymSlice<u64>) {
    let block = SystemArea::new(shmem::n_pes()).world_sync;
    let word = SymSlice::__new(block + TeamBlock::EPOCHS, 1);
    let boxes = SymSlice::__new(block + TeamBlock::BOXES, 2 * TeamBlock::HALF / 8);
    for i in Warp.strided(500) {
        boxes.store(i, (1 + u64::from(i % 3)) << 32 | 0xbad);
    }
    if thread::index() == 0 {
        word.store(0, epoch);
    }
    (word, boxes)
}

#[test]
fn old_packets_are_cleared_away_in_time() {
    clean(
        || Sim::new(3).block(32),
        || {
            let (epoch, boxes) = old_packets((1 << 30) - 4);
            collective().barrier(Warp, shmem::world().slot(1));
            rounds(3, 3, |all, _| all);
            assert!(epoch.load(0) > 1 << 30);
            // Beyond what the rounds use.
            assert_eq!(boxes.load(400 + thread::index()), 0);
        },
    );
}

#[track_caller]
fn refused(kernel: impl Fn() + Send + Sync, says: &[&str]) {
    for seed in 0..5 {
        let failure = Sim::new(2).block(32).seed(seed).run(&kernel).unwrap_err();
        let text = failure.to_string();
        assert!(matches!(failure, Failure::Fault { .. }), "{text}");
        for part in says {
            assert!(text.contains(part), "{text}");
        }
    }
}

#[test]
fn members_that_make_different_calls_are_told() {
    let x = || (symmetric::<u32>(8), symmetric::<u32>(8));
    let odd = || shmem::my_pe() == 1;
    refused(
        || {
            let (dst, src) = x();
            let n = if odd() { 4u32 } else { 8 };
            collective().reduce(Warp, shmem::world(), Sum, dst.slice(0..n), src.slice(0..n));
        },
        &[
            "reduce(4 x 4 bytes, Sum",
            "reduce(8 x 4 bytes, Sum",
            "collectives.rs",
            "slot 0",
        ],
    );
    refused(
        || {
            let (dst, src) = x();
            collective().broadcast(Warp, shmem::world(), dst, src, shmem::my_pe());
        },
        &["root 0", "root 1"],
    );
    refused(
        || {
            let (dst, src) = x();
            if odd() {
                collective().reduce(Warp, shmem::world(), Sum, dst, src);
            } else {
                collective().reduce(Warp, shmem::world(), Max, dst, src);
            }
        },
        &["Sum", "Max"],
    );
    refused(
        || {
            let (dst, src) = x();
            if odd() {
                collective().alltoall(Warp, shmem::world(), dst, src);
            } else {
                collective().broadcast(Warp, shmem::world(), dst, src, 0);
            }
        },
        &["alltoall", "broadcast"],
    );
}

#[track_caller]
fn faults(kind: FaultKind, values: (u64, u64), kernel: impl Fn() + Send + Sync) {
    let run = Sim::new(2).block(32).run(kernel);
    match run {
        Err(Failure::Fault { record, .. }) => assert_eq!(
            (FaultKind::from_number(record.kind), record.a, record.b),
            (Some(kind), values.0, values.1)
        ),
        other => panic!("{other:?}"),
    }
}

#[test]
fn arguments_that_do_not_fit_are_faults() {
    let x = || symmetric::<u32>(16);
    let world = shmem::world;
    faults(FaultKind::Length, (4, 5), || {
        collective().reduce(Warp, world(), Sum, x().slice(0..4), x().slice(8..13));
    });
    faults(FaultKind::Length, (4, 6), || {
        collective().fcollect(Warp, world(), x().slice(0..4), x().slice(8..11));
    });
    faults(FaultKind::Length, (4, 5), || {
        collective().alltoall(Warp, world(), x().slice(0..5), x().slice(8..13));
    });
    faults(FaultKind::Length, (6, 7), || {
        collective().reduce_scatter(Warp, world(), Sum, x().slice(0..3), x().slice(8..15));
    });
    faults(FaultKind::Pe, (2, 2), || {
        collective().broadcast(Warp, world(), x().slice(0..4), x().slice(8..12), 2);
    });
    faults(FaultKind::Pe, (7, 2), || {
        collective().reduce_to(Warp, world(), Sum, x().slice(0..4), x().slice(8..12), 7);
    });
    faults(FaultKind::Slot, (8, 8), || {
        collective().reduce(Warp, world().slot(8), Sum, x().slice(0..4), x().slice(8..12));
    });
    let overlap = |kernel: &(dyn Fn() + Send + Sync)| match Sim::new(2).block(32).run(kernel) {
        Err(Failure::Fault { record, .. }) => assert_eq!(record.kind, FaultKind::Overlap as u32),
        other => panic!("{other:?}"),
    };
    overlap(&|| collective().reduce(Warp, world(), Sum, x().slice(0..4), x().slice(1..5)));
    overlap(&|| collective().broadcast(Warp, world(), x().slice(2..6), x().slice(0..4), 0));
    overlap(&|| collective().alltoall(Warp, world(), x().slice(0..4), x().slice(0..4)));
    overlap(&|| {
        // Another member's part.
        let dst = x().slice(0..8);
        collective().fcollect(Warp, world(), dst, dst.chunk(1 - shmem::my_pe(), 4));
    });
    overlap(&|| collective().reduce_scatter(Warp, world(), Sum, x().slice(1..5), x().slice(0..8)));
}

#[test]
fn parts_of_alltoallv_that_differ_are_a_fault() {
    faults(FaultKind::Length, (2, 3), || {
        let (sends, receives) = (symmetric::<Part>(2), symmetric::<Part>(2));
        for pe in 0..2u32 {
            if thread::index() == 0 {
                sends.store(pe, Part { start: 0, len: 3 });
                receives.store(pe, Part { start: 0, len: 2 });
            }
        }
        Warp.sync();
        collective().alltoallv(
            Warp,
            shmem::world(),
            symmetric::<u32>(4),
            symmetric::<u32>(4),
            sends,
            receives,
        );
    });
}

#[test]
fn calls_of_no_elements_return() {
    clean(
        || Sim::new(3).block(32),
        || {
            let none = symmetric::<u32>(4).slice(0..0);
            let (all, world) = (collective(), shmem::world());
            all.reduce(Warp, world, Sum, none, none);
            all.broadcast(Warp, world, none, none, 1);
            all.fcollect(Warp, world, none, none);
            all.alltoall(Warp, world, none, none);
            all.reduce_scatter(Warp, world, Sum, none, none);
        },
    );
}

/// NaNs, infinities and overflow come out as one addition after the other makes them.
#[test]
fn floats_are_added_in_the_order_of_the_members() {
    clean(
        || Sim::new(3).block(32),
        || {
            let (all, world, me) = (collective(), shmem::world(), shmem::my_pe() as usize);
            let x = symmetric::<f32>(6);
            if Warp.leader() {
                let rows = [
                    [f32::MAX, f32::INFINITY, f32::NAN, 1e8, 0.0, 1.0],
                    [f32::MAX, f32::NEG_INFINITY, 1.0, -1e8, -0.0, 1.0],
                    [-f32::MAX, 1.0, 1.0, 1.0, -0.0, 1.0],
                ];
                for (i, value) in rows[me].into_iter().enumerate() {
                    x.store(i, value);
                }
            }
            all.reduce(Warp, world, Sum, x, x);
            assert!(x.load(1).is_nan() && x.load(2).is_nan());
            let bits = [f32::INFINITY, 1.0, 0.0, 3.0].map(f32::to_bits);
            assert_eq!([0, 3, 4, 5].map(|i| x.load(i).to_bits()), bits);

            let y = symmetric::<bf16>(2);
            if Warp.leader() {
                // 256 + 1 + 1 is 258 in f32; rounded after each addition it would be 256.
                y.store(0, bf16::from_f32(if me == 0 { 256.0 } else { 1.0 }));
                y.store(1, if me == 0 { bf16::NAN } else { bf16::from_f32(me as f32) });
            }
            Warp.sync();
            all.reduce(Warp, world, Max, y.slice(1..2), y.slice(1..2));
            all.reduce(Warp, world, Sum, y.slice(0..1), y.slice(0..1));
            assert_eq!([y.load(0), y.load(1)], [258.0, 2.0].map(bf16::from_f32));
        },
    );
}

#[test]
fn calls_on_streams_clear_old_packets_away_too() {
    clean(
        || Sim::new(3).block(32),
        || {
            let (epoch, boxes) = old_packets((1 << 30) - 3);
            let (me, x, y) = (shmem::my_pe(), symmetric::<u32>(9), symmetric::<u32>(27));
            for i in Warp.strided(9) {
                x.store(i, me + i);
            }
            collective().barrier(Warp, shmem::world().slot(1));
            let plan = |call| Plan {
                part: 36,
                share: 128,
                call,
                algorithm: Algorithm::Packets as u32,
                root: 0,
                op: OpName::Sum,
            };
            // Each of them comes to be the one that clears.
            for round in 0..3u32 {
                by_blocks::reduces(shmem::world(), x, x, plan(Call::Reduce));
                by_blocks::moves(shmem::world(), y.cast::<u8>(), x.cast::<u8>(), plan(Call::Fcollect));
                Warp.sync();
                let i = thread::index() % 27;
                assert_eq!(y.load(26 - i), 3u32.pow(round) * (3 + 3 * ((26 - i) % 9)));
                Warp.sync();
            }
            assert!(epoch.load(0) > 1 << 30);
            assert_eq!(boxes.load(400 + thread::index()), 0);
        },
    );
}

#[test]
fn every_algorithm_of_calls_on_streams_is_clean() {
    for pes in [2, 3, 4] {
        clean(
            || Sim::new(pes).grid(3).block(32),
            || {
                for algorithm in [Algorithm::OneShot, Algorithm::TwoShot] {
                    for (call, in_place) in [
                        (Call::Broadcast, false),
                        (Call::Broadcast, true),
                        (Call::Reduce, false),
                        (Call::ReduceTo, false),
                        (Call::ReduceTo, true),
                    ] {
                        by_blocks_once(call, algorithm, in_place);
                    }
                }
            },
        );
    }
}

/// One call of some elements. The blocks share out what is put in and looked at as well, and meet before they do so.
fn by_blocks_once(call: Call, algorithm: Algorithm, in_place: bool) {
    let (me, n, len) = (shmem::my_pe(), shmem::n_pes(), 301u32);
    let (x, y) = (symmetric::<u32>(len as usize), symmetric::<u32>(len as usize));
    let (dst, root, grid) = (if in_place { x } else { y }, n - 1, collective().grid());
    for i in grid.strided(len) {
        x.store(i, 1000 * me + i);
        y.store(i, 7);
    }
    // A kernel of its own begins behind what is on the stream.
    grid.sync();
    let bytes = 4 * u64::from(len);
    let part = match algorithm {
        Algorithm::TwoShot => bytes.div_ceil(n.into()).next_multiple_of(16),
        _ => bytes,
    };
    let plan = Plan {
        part,
        share: part.div_ceil(3).next_multiple_of(128),
        call,
        algorithm: algorithm as u32,
        root,
        op: OpName::Sum,
    };
    if call == Call::Broadcast {
        by_blocks::moves(shmem::world(), dst.cast::<u8>(), x.cast::<u8>(), plan);
    } else {
        by_blocks::reduces(shmem::world(), dst, x, plan);
    }
    grid.sync();
    let all = 1000 * (n * (n - 1) / 2);
    for i in grid.strided(len).map(|i| len - 1 - i) {
        let expected = match call {
            Call::Broadcast => 1000 * root + i,
            Call::Reduce => all + n * i,
            _ if me == root => all + n * i,
            _ if in_place => 1000 * me + i,
            _ => 7,
        };
        assert_eq!(dst.load(i), expected, "{call:?} by {algorithm:?}, in place: {in_place}");
    }
    // Nobody puts in the next data while others still look.
    collective().barrier(grid, shmem::world().slot(2));
}
