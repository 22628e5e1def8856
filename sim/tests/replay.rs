//! The same seed gives the same run.

mod common;

use common::{MAIN, collective, engine, hosts, job};
use shmem::prelude::*;
use shmem_sim::{Config, Engine, Sim};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Order = Vec<(u32, u32, u32)>;

fn order_of(seed: u64) -> (u64, Order) {
    let order = Mutex::new(Vec::new());
    let report = Sim::new(3)
        .grid(2)
        .block(64)
        .seed(seed)
        .run(|| {
            let arrived = shmem_sim::counters(1).at(0);
            for round in 1..=3 {
                order
                    .lock()
                    .unwrap()
                    .push((shmem::my_pe(), thread::block_index(), thread::index()));
                shmem::signal_op(arrived.add(1), (shmem::my_pe() + 1) % 3);
                shmem::wait_until(Warp, arrived, ge(128 * round));
            }
        })
        .unwrap();
    (report.lane_switches, order.into_inner().unwrap())
}

#[test]
fn a_seed_decides_the_order_of_lanes() {
    let (switches, order) = order_of(11);
    assert_eq!((switches, order.clone()), order_of(11));
    assert_ne!(order, order_of(12).1);
    assert_eq!(order.len(), 3 * 2 * 64 * 3);
}

/// Two launches, one after the other, from hosts that take their time where `slow` says so.
fn two_gangs(seed: u64, slow: u32) -> (u64, Order) {
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut config = Config::new(3);
    config.seed = seed;
    let engine = Engine::new(config).unwrap();
    let results = hosts(&engine, 3, |pe| {
        for name in ["first", "second"] {
            if pe == slow {
                std::thread::sleep(Duration::from_millis(150));
            }
            let order = Arc::clone(&order);
            let kernel = job(name, 2, 32, move || {
                for _ in 0..3 {
                    Block.sync();
                    order
                        .lock()
                        .unwrap()
                        .push((shmem::my_pe(), thread::block_index(), thread::index()));
                }
            });
            engine.submit(pe, MAIN, collective(kernel))?;
        }
        engine.wait(pe, MAIN)
    });
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let switches = engine.lane_switches();
    drop(engine);
    (switches, Arc::into_inner(order).unwrap().into_inner().unwrap())
}

#[test]
fn slow_hosts_do_not_change_a_run() {
    let first = two_gangs(5, 0);
    assert_eq!(first, two_gangs(5, 2));
    assert_eq!(first, two_gangs(5, 9));
    assert_ne!(first, two_gangs(6, 9));
}

#[test]
fn plain_kernels_replay_too() {
    let run = || {
        let order = Arc::new(Mutex::new(Vec::new()));
        let engine = engine(2);
        let results = hosts(&engine, 2, |pe| {
            for stream in [MAIN, engine.stream(pe)] {
                let order = Arc::clone(&order);
                engine.submit(
                    pe,
                    stream,
                    job("plain", 3, 40, move || {
                        Block.sync();
                        order
                            .lock()
                            .unwrap()
                            .push((shmem::my_pe(), thread::block_index(), thread::index()));
                    }),
                )?;
            }
            engine.wait(pe, MAIN)?;
            engine.wait(pe, shmem_sim::StreamId(1))
        });
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        drop(engine);
        Arc::into_inner(order).unwrap().into_inner().unwrap()
    };
    assert_eq!(run(), run());
}
