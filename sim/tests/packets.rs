//! Packets: the epoch rule holds over seeds and paths, and who breaks it is told.

use shmem::fault::FaultKind;
use shmem::packet::{self, Packet, Payload};
use shmem::prelude::*;
use shmem_sim::{BugKind, Failure, Path, Sim, symmetric};

const SEEDS: u64 = 60;

fn on(pes: u32) -> Sim {
    Sim::new(pes).block(32)
}

#[track_caller]
fn clean(sim: impl Fn() -> Sim, kernel: impl Fn() + Send + Sync) {
    for seed in 0..SEEDS {
        if let Err(failure) = sim().seed(seed).run(&kernel) {
            panic!("seed {seed}: {failure}");
        }
    }
}

/// Every seed finds that a slot is sent to again too early: the checker, unless the receiver has met a later packet before.
#[track_caller]
fn overrun(kernel: impl Fn() + Send + Sync) {
    let mut reported = 0;
    for seed in 0..SEEDS {
        match on(2).seed(seed).run(&kernel) {
            Err(Failure::Bug(bug)) if bug.kind == BugKind::BufferReused => {
                let text = bug.to_string();
                assert!(text.contains("packet::half") && text.contains("packets.rs"), "{text}");
                reported += 1;
            }
            Err(Failure::Fault { record, .. }) if record.kind == FaultKind::Epoch as u32 => {}
            other => panic!("seed {seed}: {other:?}"),
        }
    }
    assert!(reported > SEEDS / 2, "{reported}");
}

/// All members send to all others in every epoch, and a lane may receive what another one does not send after.
fn exchange<T: Payload + PartialEq>(epochs: u32, halves: bool, value: impl Fn(u32, u32, u32) -> T) {
    let (me, n, t) = (shmem::my_pe(), shmem::n_pes(), thread::index());
    let slots = symmetric::<Packet<T>>(2 * 32 * n as usize);
    for epoch in 1..=epochs {
        let half = if halves {
            packet::half(slots, epoch)
        } else {
            slots.chunk(0, 32 * n)
        };
        for pe in (0..n).filter(|pe| *pe != me) {
            packet::send(half.at(me * 32 + t), value(epoch, me, t), epoch, pe);
        }
        // Another lane's slot, so that the syncs count.
        let t = 31 - t;
        for pe in (0..n).filter(|pe| *pe != me) {
            assert!(packet::receive(half.at(pe * 32 + t), epoch) == value(epoch, pe, t));
        }
        Warp.sync();
    }
}

#[test]
fn exchanges_need_no_barrier() {
    for pes in [2, 3, 5] {
        clean(|| on(pes), || exchange(6, true, |e, pe, t| 1000 * e + 100 * pe + t));
        clean(
            || on(pes),
            || exchange(6, true, |e, pe, t| u64::from(1000 * e + 100 * pe + t) << 20),
        );
        clean(|| on(pes), || exchange(6, true, |e, pe, t| [e, pe, t]));
    }
}

#[test]
fn exchanges_need_no_barrier_over_other_paths() {
    for path in [Path::QueuePairs, Path::Proxy] {
        clean(
            || on(3).path(path).node_pes(1),
            || exchange(6, true, |e, pe, t| [e, pe, t]),
        );
    }
}

#[test]
fn one_half_alone_is_reported() {
    overrun(|| exchange(6, false, |e, pe, t| 1000 * e + 100 * pe + t));
}

#[test]
fn a_lane_that_sends_before_its_tile_has_received_is_reported() {
    overrun(|| {
        let slots = symmetric::<Packet<u32>>(4);
        let (peer, t) = (1 - shmem::my_pe(), thread::index());
        for epoch in 1..=6 {
            let half = packet::half(slots, epoch);
            if t < 2 {
                packet::send(half.at(t), epoch, epoch, peer);
                // Thread 1's, and no sync before the next epoch.
                assert_eq!(packet::receive(half.at(1), epoch), epoch);
            }
        }
    });
}

#[test]
fn a_sender_that_hears_nothing_is_reported() {
    overrun(|| {
        let slots = symmetric::<Packet<u32>>(64);
        for epoch in 1..=4 {
            let slot = packet::half(slots, epoch).at(thread::index());
            if shmem::my_pe() == 0 {
                packet::send(slot, 7, epoch, 1);
            } else {
                packet::receive(slot, epoch);
            }
        }
    });
}

/// Without the checker, the receiver finds out: at once where the slot tells, by a deadlock where it does not.
#[test]
fn a_lost_packet_is_a_fault_and_not_a_wrong_value() {
    let mut faults = 0;
    for seed in 0..SEEDS {
        let run = on(2).seed(seed).check(false).run(|| {
            let slot = symmetric::<Packet<u32>>(32).at(thread::index());
            for epoch in 1..=4 {
                if shmem::my_pe() == 0 {
                    packet::send(slot, 10 * epoch, epoch, 1);
                } else {
                    assert_eq!(packet::receive(slot, epoch), 10 * epoch);
                }
            }
        });
        match run {
            Err(Failure::Fault { record, .. }) if record.kind == FaultKind::Epoch as u32 => {
                let (wanted, found) = (record.a, record.b);
                assert!(found > wanted && found <= 4, "{wanted} {found}");
                faults += 1;
            }
            Ok(_) | Err(Failure::Deadlock { .. }) => {}
            other => panic!("seed {seed}: {other:?}"),
        }
    }
    assert!(faults > SEEDS / 4, "{faults}");
}

#[test]
fn epoch_0_is_a_fault() {
    let run = on(1).run(|| packet::send(symmetric::<Packet<u32>>(1).at(0), 1, 0, 0));
    assert!(matches!(run, Err(Failure::Fault { record, .. }) if record.kind == FaultKind::Epoch as u32));
}

/// A packet tells nothing about what its sender has written besides.
#[test]
fn a_packet_is_no_signal() {
    for seed in 0..SEEDS {
        let run = on(2).seed(seed).run(|| {
            let (data, slot) = (symmetric::<u32>(1).at(0), symmetric::<Packet<u32>>(1).at(0));
            if thread::index() == 0 {
                if shmem::my_pe() == 0 {
                    shmem::p(data, 7, 1);
                    packet::send(slot, 1, 1, 1);
                } else {
                    packet::receive(slot, 1);
                    data.load();
                }
            }
        });
        assert!(matches!(run, Err(Failure::Bug(_))), "seed {seed}: {run:?}");
    }
}
