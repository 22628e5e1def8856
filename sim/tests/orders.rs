//! Programs that the checker has to let pass, and some that it must not: found by running the shipped kernels.

use shmem::prelude::*;
use shmem::relaxed;
use shmem_sim::{BugKind, Failure, Sim, explore, global, signals, symmetric};

#[test]
fn a_put_onto_its_own_source() {
    let sim = Sim::new(1).block(64);
    explore(&sim, 0..20, || {
        let (x, done) = (symmetric::<u32>(100), signals(1).at(0));
        shmem::put_signal(Block, x, x, done.set(1), shmem::my_pe());
        shmem::wait_until(Block, done, eq(1));
    })
    .unwrap();
}

#[test]
fn gets_of_one_thread_to_one_place() {
    explore(&Sim::new(2), 0..20, || {
        let (here, there) = (symmetric::<u32>(8), symmetric::<u32>(8));
        there.store(0, 1);
        shmem::get(Thread, here, there, shmem::my_pe());
        shmem::get(Thread, here, there, shmem::my_pe());
    })
    .unwrap();
}

/// Each value is answered before the next is set, if only by relaxed signals: it has arrived.
#[test]
fn a_relaxed_ping_pong() {
    explore(&Sim::new(2), 0..50, || {
        let (me, word) = (shmem::my_pe(), signals(1).at(0));
        for i in 1..5 {
            if me == 0 {
                relaxed::signal_op(word.set(i), 1);
            }
            relaxed::wait_until(Thread, word, ge(i));
            if me == 1 {
                relaxed::signal_op(word.set(i), 0);
            }
        }
    })
    .unwrap();
}

/// One member may read all of the source: it is not enough that each has written what it happens to move.
#[test]
fn a_source_that_the_members_have_written_apart() {
    let found = explore(&Sim::new(2).block(64), 0..50, || {
        let (src, dst) = (symmetric::<u32>(64), symmetric::<u32>(64));
        src.store(thread::index(), 1);
        shmem::put(Block, dst, src, 1 - shmem::my_pe());
    })
    .unwrap_err();
    assert!(
        matches!(&found.failure, Failure::Bug(bug) if bug.kind == BugKind::MissingSync),
        "{found}"
    );
}

/// A copy may write from its beginning on, and so over what others still read.
#[test]
fn an_asynchronous_copy_over_what_is_read() {
    use shmem::async_copy::{commit, copy_async, wait_group};
    let found = explore(&Sim::new(1).block(64), 0..50, || {
        shared!(stage: [u32; 64]);
        let x = global::<u32>(64);
        x.store(thread::index(), 7);
        stage.store(thread::index(), 1);
        Block.sync();
        let seen = stage.load(63 - thread::index());
        copy_async(Block, stage.slice(0..64), x);
        commit();
        wait_group::<0>();
        assert!(seen > 0);
    })
    .unwrap_err();
    assert!(
        matches!(&found.failure, Failure::Bug(bug) if bug.kind == BugKind::MissingSync),
        "{found}"
    );
}
