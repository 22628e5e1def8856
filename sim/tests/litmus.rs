//! The litmus tests of the ordering contract: over the seeds, each path shows every outcome that it allows, and none that it
//! forbids.
//!
//! What can't be shown, and why:
//! - Load buffering and IRIW with `g` or fetching atomics: those act at once, in the order of the program. With `get_nbi`,
//!   which may read late, both are shown.
//! - Over queue pairs, stale data behind a signal without a fence, and an earlier put that wins: one queue pair keeps its
//!   order, which the contract does not promise. The proxy shows both.

use shmem::prelude::*;
use shmem::{
    Thread, fence, flush, g, get_nbi, my_pe, p, put, put_nbi, put_signal, quiet, relaxed, signal_op, wait_until,
};
use shmem_sim::{Path, Sim, counters, signals, symmetric, symmetric_with};
use std::collections::BTreeSet;
use std::sync::Mutex;

const SEEDS: u64 = 2000;

/// What a kernel reports over all seeds.
fn outcomes<T: Ord + Send>(
    sim: &Sim,
    path: Path,
    seeds: u64,
    kernel: impl Fn(&dyn Fn(T)) + Send + Sync,
) -> BTreeSet<T> {
    let seen = Mutex::new(BTreeSet::new());
    let see = |outcome| {
        seen.lock().unwrap().insert(outcome);
    };
    // Short queues are made sooner.
    let sim = sim.clone().path(path).queues(1, 16);
    for seed in 0..seeds {
        let ran = sim.clone().seed(seed).run(|| kernel(&see));
        ran.unwrap_or_else(|failure| panic!("{path}, seed {seed}: {failure}"));
    }
    seen.into_inner().unwrap()
}

/// The outcomes are exactly these, by path.
fn exactly<T: Ord + Send + std::fmt::Debug + Clone>(
    sim: &Sim,
    kernel: impl Fn(&dyn Fn(T)) + Send + Sync,
    allowed: impl Fn(Path) -> Vec<T>,
) {
    for path in Path::ALL {
        let allowed: BTreeSet<T> = allowed(path).into_iter().collect();
        assert_eq!(outcomes(sim, path, SEEDS, &kernel), allowed, "{path}");
    }
}

/// What PE 1 finds behind PE 0's message of two elements, sent by `send(data, ready)`.
fn message(see: &dyn Fn([u32; 2]), send: impl Fn(SymSlice<u32>, SymSlice<u32>, Signal)) {
    let (data, ready) = (symmetric::<u32>(2), signals(1).at(0));
    let source = symmetric_with(2, |_, _| 1u32);
    if my_pe() == 0 {
        send(data, source, ready);
    } else {
        wait_until(Thread, ready, eq(1));
        see([data.load(0), data.load(1)]);
    }
}

const FRESH: [u32; 2] = [1, 1];

#[test]
fn a_message_with_a_fence_is_whole() {
    let kernel = |see: &dyn Fn([u32; 2])| {
        message(see, |data, source, ready| {
            put(Thread, data, source, 1);
            fence(Thread);
            relaxed::signal_op(ready.set(1), 1);
        });
    };
    exactly(&Sim::new(2).check(false), kernel, |_| vec![FRESH]);
}

#[test]
fn a_message_with_its_signal_is_whole() {
    let kernel = |see: &dyn Fn([u32; 2])| {
        message(see, |data, source, ready| {
            put_signal(Thread, data, source, ready.set(1), 1)
        });
    };
    exactly(&Sim::new(2).check(false), kernel, |_| vec![FRESH]);
}

#[test]
fn a_message_behind_quiet_is_whole() {
    let kernel = |see: &dyn Fn([u32; 2])| {
        message(see, |data, source, ready| {
            put_nbi(Thread, data, source, 1);
            quiet(Thread);
            signal_op(ready.set(1), 1);
        });
    };
    exactly(&Sim::new(2).check(false), kernel, |_| vec![FRESH]);
}

#[test]
fn a_message_without_a_fence_may_be_stale_or_torn() {
    let kernel = |see: &dyn Fn([u32; 2])| {
        message(see, |data, source, ready| {
            put(Thread, data, source, 1);
            signal_op(ready.set(1), 1);
        });
    };
    exactly(&Sim::new(2).check(false), kernel, |path| match path {
        Path::QueuePairs | Path::Ibgda => vec![FRESH],
        _ => vec![[0, 0], [0, 1], [1, 0], FRESH],
    });
}

#[test]
fn put_signal_says_nothing_about_earlier_puts() {
    let kernel = |see: &dyn Fn(u32)| {
        let (early, data, ready) = (symmetric::<u32>(1), symmetric::<u32>(1), signals(1).at(0));
        let source = symmetric_with(1, |_, _| 1u32);
        if my_pe() == 0 {
            put(Thread, early, source, 1);
            put_signal(Thread, data, source, ready.set(1), 1);
        } else {
            wait_until(Thread, ready, eq(1));
            assert_eq!(data.load(0), 1);
            see(early.load(0));
        }
    };
    exactly(&Sim::new(2).check(false), kernel, |path| match path {
        Path::QueuePairs | Path::Ibgda => vec![1],
        _ => vec![0, 1],
    });
}

#[test]
fn the_signal_of_a_tile_covers_what_each_member_put() {
    let kernel = |see: &dyn Fn(bool)| {
        let (data, ready) = (symmetric::<u32>(96), signals(1).at(0));
        let source = symmetric_with(96, |_, i| i as u32);
        if my_pe() == 0 {
            put_signal(Warp, data, source, ready.set(1), 1);
        } else {
            wait_until(Warp, ready, eq(1));
            see(Warp.strided(96).all(|i| data.load(i) == i));
        }
    };
    for path in Path::ALL {
        let seen = outcomes(&Sim::new(2).check(false).block(32), path, 500, kernel);
        assert_eq!(seen, BTreeSet::from([true]), "{path}");
    }
}

#[test]
fn store_buffering_is_forbidden_by_a_quiet_over_load_and_store_only() {
    let kernel = |see: &dyn Fn((u32, u32))| {
        let (x, told, ready) = (symmetric::<u32>(1).at(0), symmetric::<u32>(1).at(0), signals(1).at(0));
        let (me, other) = (my_pe(), 1 - my_pe());
        p(x, 1, other);
        quiet(Thread);
        // The word that the other has written.
        let seen = x.load();
        p(told, seen, other);
        fence(Thread);
        signal_op(ready.set(1), other);
        wait_until(Thread, ready, eq(1));
        see(if me == 0 {
            (seen, told.load())
        } else {
            (told.load(), seen)
        });
    };
    exactly(&Sim::new(2).check(false), kernel, |path| match path {
        Path::LoadStore => vec![(0, 1), (1, 0), (1, 1)],
        _ => vec![(0, 0), (0, 1), (1, 0), (1, 1)],
    });
}

#[test]
fn without_quiet_both_may_read_old_values() {
    let kernel = |see: &dyn Fn(u32)| {
        let x = symmetric::<u32>(2);
        p(x.at(my_pe()), 1, 1 - my_pe());
        see(g(x.at(1 - my_pe()), my_pe()));
    };
    exactly(&Sim::new(2).check(false), kernel, |_| vec![0, 1]);
}

#[test]
fn what_one_puts_it_gets_over_a_queue_pair() {
    let kernel = |see: &dyn Fn(u32)| {
        let x = symmetric::<u32>(1).at(0);
        if my_pe() == 0 {
            p(x, 1, 1);
            see(g(x, 1));
        }
    };
    exactly(&Sim::new(2).check(false), kernel, |path| match path {
        Path::QueuePairs | Path::Ibgda => vec![1],
        _ => vec![0, 1],
    });
}

#[test]
fn after_quiet_it_gets_it_over_every_path_and_in_every_context() {
    let kernel = |see: &dyn Fn(u32)| {
        let x = symmetric::<u32>(1).at(0);
        if my_pe() == 0 {
            p(x, 1, 1);
            quiet(Thread);
            see(g(x, 1));
        }
    };
    exactly(&Sim::new(2).check(false), kernel, |_| vec![1]);
}

#[test]
fn two_puts_to_one_address_end_in_either_order() {
    for fenced in [false, true] {
        let kernel = |see: &dyn Fn(u32)| {
            let (x, ready) = (symmetric::<u32>(1).at(0), signals(1).at(0));
            if my_pe() == 0 {
                p(x, 1, 1);
                if fenced {
                    fence(Thread);
                }
                p(x, 2, 1);
                quiet(Thread);
                signal_op(ready.set(1), 1);
            } else {
                wait_until(Thread, ready, eq(1));
                see(x.load());
            }
        };
        exactly(&Sim::new(2).check(false), kernel, |path| match path {
            _ if fenced => vec![2],
            Path::QueuePairs | Path::Ibgda => vec![2],
            _ => vec![1, 2],
        });
    }
}

#[test]
fn a_fence_is_for_the_thread_that_makes_it() {
    let kernel = |see: &dyn Fn(u32)| {
        let (x, ready) = (symmetric::<u32>(1).at(0), signals(1).at(0));
        if my_pe() == 0 {
            if thread::index() == 0 {
                p(x, 1, 1);
                fence(Thread);
            }
            Block.sync();
            if thread::index() == 1 {
                signal_op(ready.set(1), 1);
            }
        } else {
            wait_until(Block, ready, eq(1));
            see(x.load());
        }
    };
    exactly(&Sim::new(2).check(false).block(2), kernel, |path| match path {
        Path::QueuePairs | Path::Ibgda => vec![1],
        _ => vec![0, 1],
    });
}

#[test]
fn a_source_rewritten_before_flush_may_send_new_data() {
    for flushed in [false, true] {
        let kernel = |see: &dyn Fn(u32)| {
            let (x, ready) = (symmetric::<u32>(1), signals(1).at(0));
            let source = symmetric_with(1, |_, _| 1u32);
            if my_pe() == 0 {
                put_nbi(Thread, x, source, 1);
                if flushed {
                    flush(Thread);
                }
                source.store(0, 2);
                quiet(Thread);
                signal_op(ready.set(1), 1);
            } else {
                wait_until(Thread, ready, eq(1));
                see(x.load(0));
            }
        };
        exactly(&Sim::new(2).check(false), kernel, |path| match path {
            // So little travels inside the entry: see ibgda.rs for more.
            Path::Ibgda => vec![1],
            _ if flushed => vec![1],
            _ => vec![1, 2],
        });
    }
}

#[test]
fn a_blocking_put_has_read_its_source() {
    let kernel = |see: &dyn Fn(u32)| {
        let (x, ready) = (symmetric::<u32>(1), signals(1).at(0));
        let source = symmetric_with(1, |_, _| 1u32);
        if my_pe() == 0 {
            put(Thread, x, source, 1);
            source.store(0, 2);
            quiet(Thread);
            signal_op(ready.set(1), 1);
        } else {
            wait_until(Thread, ready, eq(1));
            see(x.load(0));
        }
    };
    exactly(&Sim::new(2).check(false), kernel, |_| vec![1]);
}

#[test]
fn a_count_says_how_many_and_not_which() {
    let kernel = |see: &dyn Fn((u32, u32))| {
        let (x, arrived) = (symmetric::<u32>(2), counters(1).at(0));
        let source = symmetric_with(1, |_, _| 1u32);
        if my_pe() < 2 {
            put_signal(Thread, x.slice(my_pe()..my_pe() + 1), source, arrived.add(1), 2);
        } else {
            wait_until(Thread, arrived, ge(1));
            see((x.load(0), x.load(1)));
        }
    };
    exactly(&Sim::new(3).check(false), kernel, |_| vec![(0, 1), (1, 0), (1, 1)]);
}

/// The third PE hears from the second of what the first has put: to the second, or to the third.
fn causality(see: &dyn Fn(u32), at: u32) {
    let (x, first, second) = (symmetric::<u32>(1).at(0), signals(1).at(0), signals(1).at(0));
    match my_pe() {
        0 => {
            p(x, 1, at);
            quiet(Thread);
            signal_op(first.set(1), 1);
        }
        1 => {
            wait_until(Thread, first, eq(1));
            signal_op(second.set(1), 2);
        }
        _ => {
            wait_until(Thread, second, eq(1));
            see(g(x, at));
        }
    }
}

#[test]
fn the_third_sees_what_the_first_put_to_it() {
    // Over a network the first's put may still be on its way: the second's signal came to another PE.
    exactly(
        &Sim::new(3).check(false),
        |see: &dyn Fn(u32)| causality(see, 2),
        |path| match path {
            Path::LoadStore => vec![1],
            _ => vec![0, 1],
        },
    );
}

#[test]
fn the_third_sees_what_the_first_put_to_the_second() {
    exactly(
        &Sim::new(3).check(false),
        |see: &dyn Fn(u32)| causality(see, 1),
        |_| vec![1],
    );
}

#[test]
fn a_fence_orders_nothing_across_pes() {
    let kernel = |see: &dyn Fn(u32)| {
        let (x, first, second) = (symmetric::<u32>(1).at(0), signals(1).at(0), signals(1).at(0));
        match my_pe() {
            0 => {
                p(x, 1, 2);
                fence(Thread);
                signal_op(first.set(1), 1);
            }
            1 => {
                wait_until(Thread, first, eq(1));
                signal_op(second.set(1), 2);
            }
            _ => {
                wait_until(Thread, second, eq(1));
                see(x.load());
            }
        }
    };
    exactly(&Sim::new(3).check(false), kernel, |_| vec![0, 1]);
}

#[test]
fn behind_a_barrier_every_put_is_seen() {
    let kernel = |see: &dyn Fn(bool)| {
        let x = symmetric::<u32>(3);
        for round in 1..=2 {
            for pe in 0..3 {
                p(x.at(my_pe()), round, pe);
            }
            shmem_sim::collective().barrier(Thread, shmem::world());
            see((0..3).all(|pe| x.load(pe) >= round));
            shmem_sim::collective().sync(Thread, shmem::world());
        }
    };
    exactly(&Sim::new(3).check(false), kernel, |_| vec![true]);
}

#[test]
fn a_sync_orders_no_puts() {
    let kernel = |see: &dyn Fn(u32)| {
        let x = symmetric::<u32>(1).at(0);
        p(x, 1, 1 - my_pe());
        shmem_sim::collective().sync(Thread, shmem::world());
        see(x.load());
    };
    exactly(&Sim::new(2).check(false), kernel, |path| match path {
        Path::QueuePairs | Path::Ibgda => vec![1],
        _ => vec![0, 1],
    });
}

#[test]
fn load_buffering_shows_with_gets_that_read_late() {
    let kernel = |see: &dyn Fn((u32, u32))| {
        let (x, seen, told) = (symmetric::<u32>(2), symmetric::<u32>(1), symmetric::<u32>(1).at(0));
        let ready = signals(1).at(0);
        let (me, other) = (my_pe(), 1 - my_pe());
        get_nbi(Thread, seen, x.slice(other..other + 1), other);
        p(x.at(me), 1, me);
        quiet(Thread);
        p(told, seen.load(0), other);
        fence(Thread);
        signal_op(ready.set(1), other);
        wait_until(Thread, ready, eq(1));
        see(if me == 0 {
            (seen.load(0), told.load())
        } else {
            (told.load(), seen.load(0))
        });
    };
    exactly(&Sim::new(2).check(false), kernel, |_| {
        vec![(0, 0), (0, 1), (1, 0), (1, 1)]
    });
}

#[test]
fn two_readers_may_see_two_writes_in_different_orders() {
    let kernel = |see: &dyn Fn((u32, bool, bool))| {
        let (x, seen) = (symmetric::<u32>(1), symmetric::<u32>(2));
        let me = my_pe();
        if me < 2 {
            p(x.at(0), 1, me);
            return;
        }
        // Each asks in its own order.
        for pe in [me - 2, 3 - me] {
            get_nbi(Thread, seen.chunk(pe, 1), x, pe);
        }
        quiet(Thread);
        let (first, second) = (seen.load(me - 2) == 1, seen.load(3 - me) == 1);
        see((me, first, second));
    };
    for path in Path::ALL {
        let seen = outcomes(&Sim::new(4).check(false), path, SEEDS, kernel);
        assert!(
            seen.contains(&(2, true, false)) && seen.contains(&(3, true, false)),
            "{path}: {seen:?}"
        );
    }
}

#[test]
fn words_of_a_barrier_keep_their_order() {
    for path in Path::ALL {
        for seed in 0..500 {
            let ran = Sim::new(3).check(false).path(path).seed(seed).run(|| {
                for _ in 0..6 {
                    shmem_sim::collective().sync(Thread, shmem::world());
                }
            });
            ran.unwrap_or_else(|failure| panic!("{path}, seed {seed}: {failure}"));
        }
    }
}
