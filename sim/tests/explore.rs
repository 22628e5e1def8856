//! Many seeds, and what a failing one comes down to.

use shmem::prelude::*;
use shmem::{Thread, fence, my_pe, n_pes, p, put_nbi, put_signal, quiet, signal_op, wait_until};
use shmem_sim::{Failure, Found, Path, Seed, Sim, counters, explore, signals, symmetric};

/// A message to the right, with what the sender forgets.
fn ring(fenced: bool) {
    let (data, ready) = (symmetric::<u64>(8), signals(8));
    let (me, n, t) = (my_pe(), n_pes(), thread::index());
    for round in 1..=4 {
        let back = signals(8);
        p(data.at(t), 10 * round, (me + 1) % n);
        if fenced {
            fence(Thread);
        }
        signal_op(ready.at(t).set(round), (me + 1) % n);
        wait_until(Thread, ready.at(t), eq(round));
        assert_eq!(data.load(t), 10 * round);
        signal_op(back.at(t).set(round), (me + n - 1) % n);
        wait_until(Thread, back.at(t), eq(round));
    }
}

fn sim() -> Sim {
    Sim::new(3).check(false).block(8)
}

fn find(sim: &Sim, kernel: impl Fn() + Send + Sync) -> Found {
    *explore(sim, 0..1000, kernel).unwrap_err()
}

#[test]
fn a_missing_fence_comes_down_to_one_put_that_is_late() {
    let found = find(&sim(), || ring(false));
    let text = found.to_string();
    assert_eq!(found.trace.len(), 1, "{text}");
    assert!(found.trace[0].contains("p at sim/tests/explore.rs:13:9"), "{text}");
    assert!(text.contains("With 1 random decisions") && text.contains(&format!("SHMEM_SIM_SEED={}", found.replay)));
}

#[test]
fn what_was_found_is_found_again() {
    let found = find(&sim(), || ring(false));
    let again = sim().replay(found.replay.clone()).run(|| ring(false)).unwrap_err();
    assert_eq!(again.to_string(), found.shortest.to_string());
    let first = sim().seed(found.seed).run(|| ring(false)).unwrap_err();
    assert_eq!(first.to_string(), found.failure.to_string());
    assert_eq!(find(&sim(), || ring(false)).replay, found.replay);
}

#[test]
fn a_plain_run_is_in_order() {
    let plain: Seed = "3:".parse().unwrap();
    for path in Path::MODELS {
        sim().path(path).replay(plain.clone()).run(|| ring(false)).unwrap();
    }
}

#[test]
fn with_the_fence_all_seeds_pass_on_every_path() {
    for path in Path::MODELS {
        let explored = explore(&sim().path(path), 0..500, || ring(true)).unwrap();
        assert_eq!(explored.seeds, 500);
    }
}

#[test]
fn a_deadlock_is_found_as_one() {
    // Two signals of one word: the later one may be overtaken by the earlier one.
    let found = find(&Sim::new(2).check(false), || {
        let ready = signals(1).at(0);
        if my_pe() == 0 {
            signal_op(ready.set(1), 1);
            signal_op(ready.set(2), 1);
        } else {
            wait_until(Thread, ready, eq(2));
        }
    });
    assert!(matches!(found.shortest, Failure::Deadlock { .. }), "{found}");
}

#[test]
fn a_count_that_is_taken_for_a_name_is_found() {
    let found = find(&Sim::new(3).check(false), || {
        let (data, source) = (symmetric::<u32>(2), symmetric::<u32>(1));
        let arrived = counters(1).at(0);
        source.store(0, 1);
        if my_pe() > 0 {
            put_signal(Thread, data.chunk(my_pe() - 1, 1), source, arrived.add(1), 0);
        } else {
            wait_until(Thread, arrived, ge(1));
            assert_eq!(data.load(0), 1);
        }
    });
    assert!(found.trace.len() <= 2, "{found}");
}

#[test]
fn a_source_that_is_written_too_early_is_found() {
    let found = find(&Sim::new(2).check(false), || {
        let (data, source, ready) = (symmetric::<u32>(1), symmetric::<u32>(1), signals(1).at(0));
        if my_pe() == 0 {
            source.store(0, 1);
            put_nbi(Thread, data, source, 1);
            source.store(0, 2);
            quiet(Thread);
            signal_op(ready.set(1), 1);
        } else {
            wait_until(Thread, ready, eq(1));
            assert_eq!(data.load(0), 1);
        }
    });
    assert_eq!(found.trace.len(), 1, "{found}");
}

#[test]
fn a_schedule_is_found_and_told() {
    // Nobody says which lane comes first.
    let found = find(&Sim::new(1).check(false).block(64), || {
        let first = shmem_sim::global::<u32>(1);
        if first.load(0) == 0 {
            first.store(0, 1 + thread::index());
        }
        Block.sync();
        assert!(first.load(0) <= 32, "the second warp came first");
    });
    assert_eq!(found.trace.len(), 1, "{found}");
    assert!(
        found.trace[0].starts_with("warp 1 of block 0 on PE 0 runs before 1 others"),
        "{found}"
    );
}
