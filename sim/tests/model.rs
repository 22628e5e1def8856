//! The model of a network: what it says is what can be worked out by hand, also for worlds of many PEs.

use shmem::prelude::*;
use shmem_sim::{LinkModel, Model, Path, Sim, counters, signals, symmetric};
use std::time::Duration;

const NODE: LinkModel = LinkModel {
    latency_ns: 500,
    bytes_per_ns: 100.0,
    message_ns: 0,
};
const ACROSS: LinkModel = LinkModel {
    latency_ns: 2000,
    bytes_per_ns: 25.0,
    message_ns: 10,
};

/// Whether a time is this many nanoseconds, give or take a part in a hundred.
#[track_caller]
fn about(modelled: Option<Duration>, ns: u64) {
    let modelled = modelled.expect("a model gives a time").as_nanos() as u64;
    assert!(modelled.abs_diff(ns) * 100 <= ns, "{modelled} is not {ns}");
}

/// Each PE sends its part around the ring, and what it gets on.
fn all_gather(bytes: u32) {
    let (me, n) = (shmem::my_pe(), shmem::n_pes());
    let all = symmetric::<u8>(u64::from(bytes * n) as usize);
    let ready = signals(n as usize);
    for step in 0..n - 1 {
        let part = (me + n - step) % n;
        let chunk = all.chunk(part, bytes);
        shmem::put_signal(Block, chunk, chunk, ready.at(part).set(1), (me + 1) % n);
        shmem::wait_until(Block, ready.at((part + n - 1) % n), eq(1));
    }
}

#[test]
fn an_all_gather_of_64_pes_takes_latency_and_bytes_of_each_step() {
    let bytes = 16 << 10;
    let sim = Sim::new(64).block(32).model(Model::all(NODE)).check(false);
    let report = sim.clone().run(move || all_gather(bytes)).unwrap();
    let step = 500 + u64::from(bytes) / 100;
    about(report.modelled, 63 * step);
    // Nothing is random: another seed takes as long.
    let again = sim.seed(9).run(move || all_gather(bytes)).unwrap();
    assert_eq!(report.modelled, again.modelled);
}

#[test]
fn nodes_make_a_difference() {
    let report = Sim::new(64)
        .node_pes(8)
        .model(Model {
            node: NODE,
            across: ACROSS,
        })
        .check(false)
        .run(|| all_gather(1000))
        .unwrap();
    // A part that starts at the slow link is waited for again at each of the eight.
    let step = report.modelled.unwrap().as_nanos() as u64 / 63;
    assert!((500..2100).contains(&step), "{step}");
}

/// In each round a PE tells one that is twice as far away.
fn dissemination() {
    let (me, n) = (shmem::my_pe(), shmem::n_pes());
    let told = signals(10);
    for round in 0..n.ilog2() {
        shmem::signal_op(told.at(round).set(1), (me + (1 << round)) % n);
        shmem::wait_until(Thread, told.at(round), eq(1));
    }
}

#[test]
fn a_barrier_of_1024_pes_takes_ten_rounds() {
    let sim = Sim::new(1024).heap_bytes(64 << 20).model(Model::all(NODE));
    let report = sim.run(dissemination).unwrap();
    about(report.modelled, 10 * 500);
}

#[test]
fn many_that_send_to_one_share_its_port() {
    let report = Sim::new(17).model(Model::all(NODE)).run(|| {
        let (data, arrived) = (symmetric::<u8>(16 * 10_000), counters(1).at(0));
        let me = shmem::my_pe();
        if me > 0 {
            let part = data.chunk(me - 1, 10_000);
            shmem::put_signal(Thread, part, part, arrived.add(1), 0);
        } else {
            shmem::wait_until(Thread, arrived, ge(16));
        }
    });
    about(report.unwrap().modelled, 500 + 16 * 100);
}

#[test]
fn what_is_answered_takes_both_ways() {
    for path in Path::MODELS {
        let one = |kernel: fn(SymSlice<u64>)| {
            let sim = Sim::new(2).path(path).node_pes(1).model(Model::all(NODE));
            let run = sim.run(|| {
                let data = symmetric::<u64>(4);
                if shmem::my_pe() == 0 {
                    kernel(data);
                }
            });
            run.unwrap().modelled
        };
        about(one(|data| assert_eq!(shmem::g(data.at(0), 1), 0)), 1000);
        about(one(|data| assert_eq!(shmem::fetch_add(data.at(0), 5, 1), 0)), 1000);
        let quiet = |data: SymSlice<u64>| {
            shmem::p(data.at(0), 5, 1);
            shmem::quiet(Thread);
            shmem::p(data.at(1), 5, 1);
        };
        about(one(quiet), 1500);
    }
}
