//! Worlds over each path of the simulator.

mod common;

use common::sim;
use shmem::prelude::*;
use shmem_host::{ConfigError, Error, Path, Pe, collective_launch};

/// Everybody puts to everybody, counts at everybody, and gets back what it has put.
#[kernel(collective)]
fn exchange(all: Collective, data: SymSlice<u32>, counts: SymSlice<CounterWord>, back: SymSlice<u32>) {
    let (me, n) = (shmem::my_pe(), shmem::n_pes());
    for pe in 0..n {
        if Block.leader() {
            shmem::p(data.at(me), 100 * me + pe, pe);
            shmem::quiet(Thread);
            shmem::signal_op(counts.at(0).add(1), pe);
        }
        Block.sync();
        shmem::get(Block, back.chunk(pe, 1), data.chunk(me, 1), pe);
    }
    shmem::wait_until(Block, counts.at(0), ge(u64::from(n)));
    all.barrier(Block, shmem::world());
}

fn exchanged(pe: &Pe) -> Result<(), Error> {
    let (data, back) = (pe.alloc::<u32>(pe.n() as usize)?, pe.alloc::<u32>(pe.n() as usize)?);
    let counts = pe.counters(1)?;
    collective_launch!(pe, exchange<<<1, 32>>>(&data, &counts, &back))?;
    let expected = |value: fn(u32, u32) -> u32| (0..pe.n()).map(|other| value(pe.id(), other)).collect::<Vec<_>>();
    assert_eq!(data.to_vec()?, expected(|me, other| 100 * other + me));
    assert_eq!(back.to_vec()?, expected(|me, other| 100 * me + other));
    assert_eq!(counts.read(0)?.value(), u64::from(pe.n()));
    Ok(())
}

#[test]
fn kernels_reach_every_pe_over_every_path() {
    for (path, node) in [
        (Path::Auto, 5),
        (Path::LoadStore, 5),
        (Path::Ibgda, 1),
        (Path::Mixed, 3),
    ] {
        let world = sim(5).path(path).queue_blocks(16).queue_contexts(2).build().unwrap();
        let ran = world.run(|pe| {
            // The last node may be smaller.
            assert_eq!(
                pe.node().n_pes(),
                if pe.id() < node { node } else { node.min(5 - node) }
            );
            exchanged(&pe)
        });
        ran.unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}

#[test]
fn what_a_kernel_leaves_to_the_network_is_there_behind_the_hosts_barrier() {
    for seed in 0..20 {
        let world = sim(2).path(Path::Ibgda).seed(seed).build().unwrap();
        let ran = world.run(|pe| {
            let data = pe.alloc::<u32>(64)?;
            shmem_host::launch!(pe, put_and_end<<<1, 32>>>(&data))?;
            pe.barrier_all()?;
            assert_eq!(data.to_vec()?[..32], [2 - pe.id(); 32]);
            Ok::<(), Error>(())
        });
        ran.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

#[kernel]
fn put_and_end(data: SymSlice<u32>) {
    shmem::p(data.at(thread::index()), 1 + shmem::my_pe(), 1 - shmem::my_pe());
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let refused = |builder: shmem_host::Builder| match builder.build() {
        Err(Error::Config(error)) => error,
        other => panic!("{other:?}"),
    };
    let queues = refused(sim(2).queue_blocks(24));
    assert!(matches!(queues, ConfigError::Queues { blocks: 24, .. }), "{queues}");
    assert!(matches!(refused(sim(2).node_pes(0)), ConfigError::NoNodePes));
    let large = sim(64).path(Path::Ibgda).queue_blocks(1 << 15).queue_contexts(64);
    let text = refused(large).to_string();
    assert!(
        text.contains("SHMEM_IBGDA_DEPTH") && text.contains("are the most"),
        "{text}"
    );
}
