//! How many lane switches a second the simulator makes, for the ways in which lanes switch.
//!
//! `cargo run --release -p shmem-sim --example switches`

use shmem::prelude::*;
use shmem_sim::{Failure, Sim};
use std::time::Instant;

fn measure(what: &str, sim: Sim, kernel: impl Fn() + Send + Sync) -> Result<(), Failure> {
    let start = Instant::now();
    let switches = sim.run(kernel)?.lane_switches;
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{what:34} {switches:>9} switches, {:6.1} M/s",
        switches as f64 / seconds / 1e6
    );
    Ok(())
}

fn main() -> Result<(), Failure> {
    for lanes in [32, 1024] {
        let rounds = 8_000_000 / lanes;
        measure(
            &format!("block barrier, {lanes} lanes"),
            Sim::new(1).block(lanes),
            move || {
                for _ in 0..rounds {
                    Block.sync();
                }
            },
        )?;
        measure(
            &format!("warp sync, {lanes} lanes"),
            Sim::new(1).block(lanes),
            move || {
                for _ in 0..rounds {
                    warp::sync(warp::FULL);
                }
            },
        )?;
        measure(
            &format!("warp shuffle, {lanes} lanes"),
            Sim::new(1).block(lanes),
            move || {
                for i in 0..rounds {
                    warp::shuffle(i, 3);
                }
            },
        )?;
    }
    measure("signal ping-pong, 2 lanes", Sim::new(2), || {
        let turn = shmem_sim::signals(1).at(0);
        let me = u64::from(shmem::my_pe());
        for i in 0..1_000_000 {
            shmem::wait_until(Thread, turn, ge(2 * i + me));
            shmem::signal_op(turn.set(2 * i + me + 1), 1 - shmem::my_pe());
        }
    })?;
    measure(
        "lanes that never wait, 8 x 131072",
        Sim::new(8).grid(128).block(1024),
        || {
            let x = shmem_sim::global::<u32>(1024);
            x.store(thread::index(), 1);
        },
    )
}
