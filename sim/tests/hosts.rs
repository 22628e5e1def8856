//! Host threads, streams and gangs.

mod common;

use common::{MAIN, collective, engine, hosts, job, signals};
use shmem::prelude::*;
use shmem::state::SystemArea;
use shmem::{my_pe, n_pes, p, signal_op, spin_until, wait_until};
use shmem_sim::{BugKind, Config, Engine, Failure};
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

fn all_well(results: &[Result<(), shmem_sim::Failure>]) {
    assert!(results.iter().all(Result::is_ok), "{results:?}");
}

#[test]
fn a_gang_starts_when_every_pe_has_launched() {
    let engine = engine(4);
    let launched = Arc::new(AtomicU32::new(0));
    let results = hosts(&engine, 4, |pe| {
        std::thread::sleep(Duration::from_millis(10 * u64::from(pe)));
        launched.fetch_add(1, SeqCst);
        let seen = Arc::clone(&launched);
        let kernel = job("gang", 2, 48, move || {
            assert_eq!(seen.load(SeqCst), 4);
            let ready = signals(4, 2).at(thread::block_index());
            if Block.leader() {
                signal_op(ready.set(1), (my_pe() + 1) % n_pes());
            }
            wait_until(Block, ready, eq(1));
        });
        engine.submit(pe, MAIN, collective(kernel))?;
        engine.wait(pe, MAIN)
    });
    all_well(&results);
}

#[test]
fn a_stream_runs_its_kernels_in_order() {
    let engine = engine(1);
    let order = Arc::new(Mutex::new(Vec::new()));
    for i in 0..20 {
        let order = Arc::clone(&order);
        let kernel = job("step", 2, 33, move || {
            Block.sync();
            order.lock().unwrap().push(i);
        });
        engine
            .submit(0, MAIN, if i % 3 == 0 { collective(kernel) } else { kernel })
            .unwrap();
    }
    engine.wait(0, MAIN).unwrap();
    let order = order.lock().unwrap();
    assert_eq!(order.len(), 20 * 66);
    assert!(order.is_sorted());
}

#[test]
fn a_stream_goes_on_behind_a_kernel_that_ends_when_nothing_else_runs() {
    let engine = engine(1);
    let ran = Arc::new(AtomicBool::new(false));
    for round in 0..3 {
        let ran = Arc::clone(&ran);
        let patient = job("patient", 1, 1, move || {
            let mut tries = 0;
            spin_until(|| {
                tries += 1;
                tries > 100
            });
            ran.store(round == 2, SeqCst);
        });
        engine.submit(0, MAIN, patient).unwrap();
    }
    engine.wait(0, MAIN).unwrap();
    assert!(ran.load(SeqCst));
}

#[test]
fn a_kernel_may_wait_for_one_on_another_stream() {
    let engine = engine(2);
    let results = hosts(&engine, 2, |pe| {
        let other = engine.stream(pe);
        let waits = job("waits", 1, 64, || {
            wait_until(Block, signals(2, 1).at(0), eq(3));
        });
        engine.submit(pe, MAIN, waits)?;
        let sets = job("sets", 1, 1, || signal_op(signals(2, 1).at(0).set(3), 1 - my_pe()));
        engine.submit(pe, other, sets)?;
        engine.wait(pe, other)?;
        engine.wait(pe, MAIN)
    });
    all_well(&results);
}

#[test]
fn a_kernel_may_wait_for_one_that_is_submitted_later() {
    let engine = engine(2);
    let results = hosts(&engine, 2, |pe| {
        if pe == 0 {
            engine.submit(
                0,
                MAIN,
                job("waits", 1, 1, || {
                    wait_until(Thread, signals(2, 1).at(0), eq(1));
                }),
            )?;
        } else {
            // Longer than the simulator waits for a host before it looks whether lanes can go on.
            std::thread::sleep(Duration::from_millis(300));
            engine.submit(1, MAIN, job("sets", 1, 1, || signal_op(signals(2, 1).at(0).set(1), 0)))?;
        }
        engine.wait(pe, MAIN)
    });
    all_well(&results);
}

#[test]
fn gangs_run_beside_plain_kernels_and_each_other() {
    let engine = engine(3);
    let results = hosts(&engine, 3, |pe| {
        let (first, second) = (engine.stream(pe), engine.stream(pe));
        // The gang on `first` waits for the one on `second`, and both for the plain kernel.
        let waits = job("waits", 1, 32, || {
            wait_until(Block, signals(3, 3).at(1), eq(1));
        });
        engine.submit(pe, first, collective(waits))?;
        let sets = job("sets", 1, 32, || {
            wait_until(Block, signals(3, 3).at(2), eq(1));
            if Block.leader() {
                signal_op(signals(3, 3).at(1).set(1), (my_pe() + 1) % 3);
            }
        });
        engine.submit(pe, second, collective(sets))?;
        engine.submit(
            pe,
            MAIN,
            job("plain", 1, 1, || signal_op(signals(3, 3).at(2).set(1), my_pe())),
        )?;
        for stream in [first, second, MAIN] {
            engine.wait(pe, stream)?;
        }
        Ok(())
    });
    all_well(&results);
}

#[test]
fn hosts_read_and_write_heaps_between_kernels() {
    let engine = engine(2);
    let offset = shmem::state::SystemArea::new(2).bytes;
    let results = hosts(&engine, 2, |pe| {
        let mine = (engine.heap(pe) as u64 + offset) as *mut u32;
        // SAFETY: inside this PE's heap; no kernel uses it before the launch.
        unsafe { mine.write(100 + pe) };
        let kernel = job("swap", 1, 1, move || {
            let x = SymSlice::<u32>::__new(offset, 2);
            p(x.at(1), x.load(0) * 2, 1 - my_pe());
        });
        engine.submit(pe, MAIN, collective(kernel))?;
        engine.wait(pe, MAIN)?;
        // The stream is done when this PE's blocks are: the peer's put comes before its part of the next gang.
        engine.submit(pe, MAIN, collective(job("meet", 1, 1, || {})))?;
        engine.wait(pe, MAIN)?;
        // SAFETY: as above; no kernel runs.
        assert_eq!(unsafe { mine.add(1).read() }, 200 + 2 * (1 - pe));
        Ok(())
    });
    all_well(&results);
}

#[test]
fn a_running_kernel_sees_what_a_host_writes() {
    let stop = Arc::new(AtomicBool::new(false));
    let engine = engine(1);
    let seen = Arc::clone(&stop);
    engine
        .submit(
            0,
            MAIN,
            job("persistent", 1, 1, move || spin_until(|| seen.load(SeqCst))),
        )
        .unwrap();
    std::thread::sleep(Duration::from_millis(200));
    assert!(engine.failure().is_none());
    stop.store(true, SeqCst);
    engine.wait(0, MAIN).unwrap();
}

#[test]
fn host_collectives_are_no_deadlock() {
    let engine = engine(3);
    let meeting = Barrier::new(3);
    let results = hosts(&engine, 3, |pe| {
        for round in 1..=20 {
            let kernel = job("ring", 1, 32, move || {
                let ready = signals(3, 1).at(0);
                if Block.leader() {
                    signal_op(ready.set(round), (my_pe() + 1) % 3);
                }
                wait_until(Block, ready, ge(round));
            });
            engine.submit(pe, MAIN, collective(kernel))?;
            {
                let _inside = engine.blocked(pe);
                if meeting.wait().is_leader() && round % 2 == 0 {
                    (0..3).for_each(|pe| engine.release(pe));
                }
            }
            engine.wait(pe, MAIN)?;
        }
        Ok(())
    });
    all_well(&results);
}

#[test]
fn a_large_grid_runs_a_part_at_a_time() {
    let engine = engine(1);
    let (running, most, all) = (
        Arc::new(AtomicU32::new(0)),
        Arc::new(AtomicU32::new(0)),
        Arc::new(AtomicU32::new(0)),
    );
    let counters = (Arc::clone(&running), Arc::clone(&most), Arc::clone(&all));
    engine
        .submit(
            0,
            MAIN,
            job("large", 3000, 64, move || {
                let (running, most, all) = &counters;
                most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                Block.sync();
                running.fetch_sub(1, SeqCst);
                all.fetch_add(1, SeqCst);
            }),
        )
        .unwrap();
    engine.wait(0, MAIN).unwrap();
    assert_eq!(all.load(SeqCst), 3000 * 64);
    assert!(most.load(SeqCst) <= 16 << 10, "{} lanes at once", most.load(SeqCst));
}

/// Memory mappings of this process that have the size or name of something else are no matter: their number is.
fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

#[test]
fn stacks_are_used_again() {
    let engine = engine(2);
    let results = hosts(&engine, 2, |pe| {
        let launch = || {
            engine.submit(pe, MAIN, collective(job("again", 4, 64, || Block.sync())))?;
            engine.wait(pe, MAIN)
        };
        for _ in 0..10 {
            launch()?;
        }
        let before = mappings();
        for _ in 0..1000 {
            launch()?;
        }
        // Other tests of this process may map and unmap; a stack or pool per launch would be thousands.
        assert!(mappings() < before + 500, "{before} mappings became {}", mappings());
        Ok(())
    });
    all_well(&results);
}

#[test]
fn many_pes_have_their_own_state() {
    let pes = 300;
    let mut config = Config::new(pes);
    config.heap_bytes = 32 << 20;
    let engine = Engine::new(config).unwrap();
    for pe in 0..pes {
        let kernel = job("who", 1, 1, move || {
            assert_eq!((my_pe(), n_pes()), (pe, pes));
            // SAFETY: `Engine` launches collectively.
            unsafe { Collective::__new(0) }.barrier(Thread, shmem::world());
        });
        engine.submit(pe, MAIN, collective(kernel)).unwrap();
        engine.detach(pe);
    }
    for pe in 0..pes {
        engine.wait(pe, MAIN).unwrap();
    }
}

/// PE 0's kernel writes a word of PE 1, which its host or a later kernel reads; whether the hosts have met in between.
fn read_later(met: bool, by_host: bool) -> Result<(), Failure> {
    let engine = engine(2);
    let word = || SymSlice::<u64>::__new(SystemArea::new(2).bytes, 1).at(0);
    engine.submit(0, MAIN, job("writes", 1, 1, move || p(word(), 7, 1)))?;
    engine.wait(0, MAIN)?;
    if met {
        engine.met(&[0, 1]);
    }
    if by_host {
        let address = engine.heap(1) as u64 + SystemArea::new(2).bytes;
        engine.host_access(1, false, address, 8, Location::caller());
    } else {
        engine.submit(1, MAIN, job("reads", 1, 1, move || _ = word().load()))?;
        engine.wait(1, MAIN)?;
    }
    engine.settle(1)
}

#[test]
fn an_end_is_known_to_its_own_pe_until_hosts_meet() {
    for by_host in [false, true] {
        let bug = read_later(false, by_host).unwrap_err();
        let Failure::Bug(bug) = bug else { panic!("{bug}") };
        assert_eq!(bug.kind, BugKind::Unordered);
        let reader = &bug.calls[1];
        assert_eq!(
            (reader.pe, reader.kernel),
            (1, if by_host { "" } else { "reads" }),
            "{bug}"
        );
        assert_eq!(bug.to_string().contains("the host of PE 1"), by_host, "{bug}");
        read_later(true, by_host).unwrap();
    }
}

#[test]
fn a_stream_knows_what_came_before_on_it_and_no_other_does() {
    let run = |same: bool, waited: bool| {
        let engine = engine(1);
        let other = if same { MAIN } else { engine.stream(0) };
        let word = || SymSlice::<u64>::__new(SystemArea::new(1).bytes, 1).at(0);
        engine.submit(0, MAIN, job("writes", 1, 1, move || word().store(7)))?;
        if waited {
            engine.wait(0, MAIN)?;
        }
        engine.submit(0, other, job("reads", 1, 1, move || _ = word().load()))?;
        engine.wait(0, MAIN)?;
        engine.wait(0, other)
    };
    run(true, false).unwrap();
    run(false, true).unwrap();
    assert!(matches!(run(false, false), Err(Failure::Bug(_))));
}
