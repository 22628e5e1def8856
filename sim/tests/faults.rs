//! What breaks because a test asks for it.

use shmem::fault::FaultKind;
use shmem::prelude::*;
use shmem::{Thread, g, my_pe, p, put, put_signal, quiet, signal_op, wait_until};
use shmem_sim::{Delay, Failure, Fault, Link, Path, Sim, When, counters, signals, symmetric, symmetric_with};
use std::sync::Mutex;

/// Both tell each other, in turn.
fn ping_pong() {
    let ready = signals(1).at(0);
    for round in 1..=5 {
        signal_op(ready.set(round), 1 - my_pe());
        wait_until(Thread, ready, ge(round));
    }
}

#[test]
fn a_killed_pe_is_told_with_its_operation() {
    for seed in 0..20 {
        let killed = Sim::new(2)
            .check(false)
            .seed(seed)
            .fault(Fault::Kill { pe: 1, at: 3 })
            .run(ping_pong);
        let Err(Failure::PeerFailed { pe: 1, cause }) = killed else {
            panic!("{killed:?}")
        };
        assert!(
            cause.starts_with("killed at its operation 3, at sim/tests/faults.rs:13:9"),
            "{cause}"
        );
    }
    Sim::new(2)
        .check(false)
        .fault(Fault::Kill { pe: 1, at: 6 })
        .run(ping_pong)
        .unwrap();
}

#[test]
fn a_frozen_link_is_named_in_the_deadlock() {
    for seed in 0..20 {
        let fault = Fault::Freeze {
            link: Link::new(0, 1),
            at: 2,
        };
        let frozen = Sim::new(2).check(false).seed(seed).fault(fault).run(ping_pong);
        let Err(Failure::Deadlock { report }) = frozen else {
            panic!("{frozen:?}")
        };
        assert!(
            report.contains("network, PE 0 to PE 1: the link is frozen: ")
                && report.contains("the signal at sim/tests/faults.rs"),
            "{report}"
        );
    }
}

/// Among many PEs a report stays short: the frozen link is told first, and of most others only how many they are.
#[test]
fn a_frozen_link_among_many_busy_ones_is_named() {
    let fault = |from, to, at| Fault::Freeze {
        link: Link { from, to },
        at,
    };
    let kernel = || {
        for to in 0..shmem::n_pes() {
            p(symmetric::<u32>(1).at(0), 1, to);
        }
        quiet(Thread);
    };
    let report = |fault| match Sim::new(9).check(false).fault(fault).run(kernel) {
        Err(Failure::Deadlock { report }) => report,
        other => panic!("{other:?}"),
    };
    let all = report(fault(None, None, 1));
    assert_eq!(all.matches("the link is frozen").count(), 32, "{all}");
    assert!(
        all.contains("network: operations on 49 links more have not taken effect"),
        "{all}"
    );
    let one = report(fault(Some(7), Some(8), 1));
    assert_eq!(one.matches("the link is frozen").count(), 1, "{one}");
    assert!(!one.contains("links more"), "{one}");
}

#[test]
fn what_waits_for_a_frozen_link_does_not_go_on() {
    let kernels: [fn(); 2] = [
        || {
            p(symmetric::<u32>(1).at(0), 1, 1 - my_pe());
            quiet(Thread);
        },
        || {
            g(symmetric::<u32>(1).at(0), 1 - my_pe());
        },
    ];
    for kernel in kernels {
        let fault = Fault::Freeze { link: Link::ALL, at: 1 };
        let frozen = Sim::new(2).check(false).fault(fault).run(kernel);
        assert!(matches!(frozen, Err(Failure::Deadlock { .. })), "{frozen:?}");
    }
}

#[test]
fn a_slow_link_takes_the_time_it_is_given() {
    for (by, least) in [
        (Delay::Fixed(5000), 5000),
        (Delay::Uniform(2000, 3000), 2000),
        (Delay::Exponential(1e6), 1),
    ] {
        let waited = Mutex::new(0);
        let slow = Sim::new(2).check(false).fault(Fault::Slow {
            link: Link::new(0, 1),
            by,
        });
        slow.run(|| {
            let ready = signals(1).at(0);
            if my_pe() == 0 {
                signal_op(ready.set(1), 1);
            } else {
                wait_until(Thread, ready, eq(1));
                *waited.lock().unwrap() = shmem::time::clock();
            }
        })
        .unwrap();
        let waited = waited.into_inner().unwrap();
        assert!(waited >= least, "{by:?}: {waited} ns");
    }
}

#[test]
fn an_error_completion_is_a_fault_of_whoever_asks_next() {
    let kernels: [fn(); 2] = [
        || {
            put(Thread, symmetric::<u32>(4), symmetric::<u32>(4), 1 - my_pe());
            quiet(Thread);
        },
        ping_pong,
    ];
    for kernel in kernels {
        let failed = Sim::new(2)
            .check(false)
            .path(Path::QueuePairs)
            .fault(Fault::Error { pe: 0, at: 1 })
            .run(kernel);
        let Err(Failure::Fault {
            pe: 0, record, message, ..
        }) = failed
        else {
            panic!("{failed:?}")
        };
        assert_eq!((record.kind, record.a), (FaultKind::Network as u32, 1));
        assert!(message.unwrap().starts_with("the network could not complete the "));
    }
}

#[test]
fn a_flipped_bit_is_one_bit_of_one_transfer() {
    let flipped = |fault: Fault, seed: u64| {
        let bits = Mutex::new(Vec::new());
        let sim = Sim::new(2).check(false).seed(seed).fault(fault);
        sim.run(|| {
            let (data, ready) = (symmetric::<u8>(100), counters(1).at(0));
            let source = symmetric_with(100, |_, i| i as u8);
            if my_pe() == 0 {
                for chunk in 0..10 {
                    put_signal(Thread, data.chunk(chunk, 10), source.chunk(chunk, 10), ready.add(1), 1);
                }
            } else {
                wait_until(Thread, ready, ge(10));
                let wrong = (0..100).map(|i| (i, data.load(i) ^ i as u8)).filter(|(_, x)| *x != 0);
                bits.lock().unwrap().extend(wrong);
            }
        })
        .unwrap();
        bits.into_inner().unwrap()
    };
    let link = Link::new(0, 1);
    let once = Fault::FlipBit {
        link,
        // Puts and signals in turn.
        when: When::At(5),
    };
    let always = Fault::FlipBit {
        link,
        when: When::Rate(1.0),
    };
    for seed in 0..20 {
        let bits = flipped(once.clone(), seed);
        assert!(
            bits.len() == 1 && (20..30).contains(&bits[0].0) && bits[0].1.is_power_of_two(),
            "{bits:?}"
        );
        assert_eq!(bits, flipped(once.clone(), seed));
        assert!(flipped(always.clone(), seed).len() >= 10);
    }
}
