//! The checker names what is missing, whatever the network does; and finds nothing where nothing is.

use shmem::prelude::*;
use shmem_sim::{Bug, BugKind, Failure, Sim, collective, counters, signals, symmetric};

const SEEDS: u64 = 50;

/// The bug of a kernel, which every seed finds.
#[track_caller]
fn bug(sim: impl Fn() -> Sim, kernel: impl Fn() + Send + Sync) -> Bug {
    let found = (0..SEEDS).map(|seed| match sim().seed(seed).run(&kernel) {
        Err(Failure::Bug(bug)) => *bug,
        other => panic!("seed {seed}: {other:?}"),
    });
    found.last().unwrap()
}

#[track_caller]
fn clean(sim: impl Fn() -> Sim, kernel: impl Fn() + Send + Sync) {
    for seed in 0..SEEDS {
        if let Err(failure) = sim().seed(seed).run(&kernel) {
            panic!("seed {seed}: {failure}");
        }
    }
}

fn two() -> Sim {
    Sim::new(2).block(64)
}

/// PE 0 sends, PE 1 receives.
fn message(send: impl Fn(SymSlice<u32>, Signal), receive: impl Fn(Signal)) -> u32 {
    let (data, ready) = (symmetric::<u32>(64), signals(1).at(0));
    if shmem::my_pe() == 0 {
        send(data, ready);
        0
    } else {
        receive(ready);
        data.load(63 - thread::index())
    }
}

fn put(data: SymSlice<u32>) {
    let source = symmetric::<u32>(64);
    source.store(thread::index(), 7);
    Block.sync();
    shmem::put(Block, data, source, 1);
}

fn wait(ready: Signal) {
    shmem::wait_until(Block, ready, eq(1));
}

#[test]
fn a_signal_that_overtakes_its_put_lacks_a_fence() {
    let bug = bug(two, || {
        message(
            |data, ready| {
                put(data);
                if Block.leader() {
                    shmem::signal_op(ready.set(1), 1);
                }
            },
            wait,
        );
    });
    assert_eq!(bug.kind, BugKind::MissingFence, "{bug}");
    let text = bug.to_string();
    assert!(text.contains("put_signal instead of put and signal_op"), "{text}");
    assert!(text.contains("bugs.rs"), "{text}");
    clean(two, || {
        let got = message(
            |data, ready| {
                put(data);
                shmem::fence(Block);
                if Block.leader() {
                    shmem::signal_op(ready.set(1), 1);
                }
            },
            wait,
        );
        assert!(shmem::my_pe() == 0 || got == 7);
    });
    clean(two, || {
        message(
            |data, ready| shmem::put_signal(Block, data, data, ready.set(1), 1),
            wait,
        );
    });
}

#[test]
fn a_relaxed_wait_teaches_nothing() {
    let send = |data: SymSlice<u32>, ready: Signal| shmem::put_signal(Block, data, data, ready.set(1), 1);
    let bug = bug(two, || {
        message(send, |ready| {
            shmem::relaxed::wait_until(Block, ready, eq(1));
        });
    });
    assert_eq!(bug.kind, BugKind::RelaxedWait, "{bug}");
}

#[test]
fn a_sync_is_no_barrier() {
    let kernel = |barrier: bool| {
        move || {
            let data = symmetric::<u32>(64);
            shmem::p(data.at(thread::index()), 5, 1 - shmem::my_pe());
            if barrier {
                collective().barrier(Block, shmem::world());
            } else {
                collective().sync(Block, shmem::world());
            }
            data.load(thread::index());
        }
    };
    let bug = bug(two, kernel(false));
    assert_eq!(bug.kind, BugKind::MissingQuiet, "{bug}");
    clean(two, kernel(true));
}

#[test]
fn a_counter_does_not_tell_which() {
    let three = || Sim::new(3).block(32);
    let kernel = |all: bool| {
        move || {
            let (data, arrived) = (symmetric::<u32>(64), counters(1).at(0));
            let me = shmem::my_pe();
            if me > 0 {
                shmem::put_signal(Block, data.chunk(me - 1, 32), data.chunk(me - 1, 32), arrived.add(1), 0);
            } else {
                shmem::wait_until(Block, arrived, ge(if all { 2 } else { 1 }));
                data.load(thread::index());
            }
        }
    };
    let found: Vec<_> = (0..200)
        .filter_map(|seed| three().seed(seed).run(kernel(false)).err())
        .collect();
    assert!(found.len() > 20, "{}", found.len());
    for failure in found {
        let Failure::Bug(bug) = failure else {
            panic!("{failure}")
        };
        assert_eq!(bug.kind, BugKind::CounterAliasing, "{bug}");
    }
    clean(three, kernel(true));
}

#[test]
fn a_source_is_not_free_before_flush() {
    let kernel = |flush: bool| {
        move || {
            let (data, source) = (symmetric::<u32>(64), symmetric::<u32>(64));
            if shmem::my_pe() == 0 {
                shmem::put_nbi(Block, data, source, 1);
                if flush {
                    shmem::flush(Block);
                }
                Block.sync();
                source.store(thread::index(), 1);
            }
        }
    };
    assert_eq!(bug(two, kernel(false)).kind, BugKind::SourceReused);
    clean(two, kernel(true));
}

#[test]
fn a_get_nbi_is_complete_after_quiet() {
    let kernel = |quiet: bool| {
        move || {
            let (data, here) = (symmetric::<u32>(64), symmetric::<u32>(64));
            shmem::get_nbi(Block, here, data, 1 - shmem::my_pe());
            if quiet {
                shmem::quiet(Block);
            }
            Block.sync();
            here.load(thread::index());
        }
    };
    assert_eq!(bug(two, kernel(false)).kind, BugKind::GetNotComplete);
    clean(two, kernel(true));
}

#[test]
fn a_buffer_is_the_readers_until_it_says_so() {
    let kernel = |answer: bool| {
        move || {
            let (data, ready, free) = (symmetric::<u32>(64), signals(1).at(0), signals(1).at(0));
            for round in 1..=3 {
                if shmem::my_pe() == 0 {
                    if answer {
                        shmem::wait_until(Block, free, ge(round - 1));
                    }
                    shmem::put_signal(Block, data, symmetric::<u32>(64), ready.set(round), 1);
                } else {
                    shmem::wait_until(Block, ready, ge(round));
                    data.load(thread::index());
                    Block.sync();
                    if Block.leader() {
                        shmem::signal_op(free.set(round), 0);
                    }
                }
            }
        }
    };
    for seed in 0..SEEDS {
        let result = two().seed(seed).run(kernel(false));
        let Err(Failure::Bug(bug)) = result else {
            panic!("{result:?}")
        };
        assert!(
            matches!(
                bug.kind,
                BugKind::BufferReused | BugKind::WriteConflict | BugKind::SignalWriters
            ),
            "{bug}"
        );
    }
    clean(two, kernel(true));
}
