//! How worlds fail: faults, panics, deadlocks, limits.

mod common;

use common::{MAIN, collective, engine, hosts, job, limited, signals};
use shmem::fault::FaultKind;
use shmem::prelude::*;
use shmem::{my_pe, p, spin_until, wait_until};
use shmem_sim::{Engine, Failure, Sim, run, symmetric};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The report of a deadlock, and nothing else.
fn deadlock(result: Result<shmem_sim::Report, Failure>) -> String {
    match result {
        Err(Failure::Deadlock { report }) => report,
        other => panic!("no deadlock: {other:?}"),
    }
}

#[track_caller]
fn assert_told(report: &str, parts: &[&str]) {
    for part in parts {
        assert!(report.contains(part), "{part:?} is not in:\n{report}");
    }
}

#[test]
fn a_deadlock_tells_the_words_of_which_any_would_do() {
    let report = deadlock(Sim::new(1).block(2).seed(4).run(|| {
        let words = shmem_sim::symmetric_with(10, |_, i| i as i32 - 1);
        let values = shmem_sim::symmetric_with(10, |_, _| 100i32);
        if Block.leader() {
            shmem::wait_until_any(Thread, words, gt(20));
        } else {
            shmem::wait_until_some(Thread, words.slice(0..3), ge(values.slice(0..3)), &mut [0; 3]);
        }
    }));
    assert_told(
        &report,
        &[
            "any of 10 words, or of some of them: from symmetric offset",
            "of PE 0 on, 4 bytes each, they are -1, 0, 1, 2, 3, 4, 5, 6, .., wanted > 20",
            "any of 3 words, or of some of them",
            "they are -1, 0, 1, wanted >= a value of its own",
        ],
    );
}

#[test]
fn a_deadlock_tells_who_waits_on_what() {
    let report = deadlock(Sim::new(2).block(70).seed(4).run(|| {
        let word = shmem_sim::signals(3).at(2);
        match thread::index() {
            0 if my_pe() == 1 => {
                wait_until(Thread, word, ge(9));
            }
            68 | 69 => return,
            _ => {}
        }
        Block.sync();
    }));
    let offset = shmem::state::SystemArea::new(2).bytes + 16;
    assert_told(
        &report,
        &[
            "deadlock: no lane can run and nothing is in flight (seed 4)",
            "kernel run<<<1, 70>>>",
            "on PE 1, block 0:",
            &format!("a word: the 8 bytes at symmetric offset {offset:#x} of PE 1 are 0, wanted >= 9"),
            "thread 0: at",
            "67 lanes, threads 1-67: at",
            "waits for the block barrier; not arrived: thread 0",
            "2 lanes, threads 68-69: has ended",
            "failures.rs:",
        ],
    );
    assert!(!report.contains("host of"), "`run` has no hosts:\n{report}");
    assert!(!report.contains("on PE 0"), "PE 0 finished:\n{report}");
}

#[test]
fn a_deadlock_tells_which_pe_has_not_come_to_a_barrier() {
    let come = |team: fn() -> shmem::Team, absent: u32| {
        deadlock(run(3, 1, 32, move || {
            if my_pe() != absent {
                shmem_sim::collective().barrier(Warp, team());
            }
        }))
    };
    let report = come(|| shmem::world().slot(2), 1);
    assert_told(
        &report,
        &["waits for a barrier of the world (slot 2): PE 1 has not come"],
    );
    let report = come(shmem::node, 2);
    assert_told(
        &report,
        &["waits for a barrier of the node (slot 0): PE 2 has not come"],
    );
}

#[test]
fn calls_of_different_kinds_do_not_meet() {
    let report = deadlock(run(1, 1, 32, || match warp::lane_id() {
        0..4 => Block.sync(),
        4..8 => warp::sync(warp::FULL),
        8..16 => warp::sync(0xff00),
        16..18 => {
            warp::ballot(true);
        }
        _ => {}
    }));
    assert_told(
        &report,
        &[
            "threads 0-3: at",
            "waits for the block barrier; not arrived: threads 4-7, 16-17",
            "threads 4-7: at",
            "waits for a warp sync of lanes 0xffffffff; not arrived: threads 0-3, 16-17",
            "threads 16-17: at",
            "waits for a warp exchange of lanes 0xffffffff; not arrived: threads 0-7",
            "threads 8-15, 18-31: has ended",
        ],
    );
}

#[test]
fn a_report_tells_whether_its_schedule_may_not_repeat() {
    for away in [false, true] {
        let engine = engine(2);
        let results = hosts(&engine, 2, |pe| {
            let waits = job("waits", 1, 1, || {
                wait_until(Thread, signals(2, 1).at(0), eq(9));
            });
            engine.submit(pe, MAIN, waits)?;
            if away && pe == 1 {
                std::thread::sleep(Duration::from_millis(250));
            }
            engine.wait(pe, MAIN)
        });
        for result in results {
            let Err(Failure::Deadlock { report }) = result else {
                panic!("{result:?}")
            };
            let told = report.contains("a host was away for more than 100ms: this schedule may not repeat");
            assert_eq!(told, away, "{report}");
        }
    }
}

#[test]
fn a_closure_that_never_comes_true_is_a_deadlock() {
    let report = deadlock(run(1, 2, 1, || spin_until(|| false)));
    assert_told(&report, &["block 0:", "block 1:", "waits for a condition of its own"]);
}

#[test]
fn a_lock_that_nobody_frees_is_a_deadlock() {
    // Each try stores what is there already.
    let report = deadlock(run(1, 1, 1, || {
        let lock = symmetric::<u32>(1).at(0);
        lock.store(1);
        spin_until(|| {
            lock.store(1);
            false
        });
    }));
    assert_told(&report, &["waits for a condition of its own"]);
}

#[test]
fn closures_may_count_their_tries_and_look_at_the_tests_own_atomics() {
    let flag = AtomicU32::new(0);
    run(2, 1, 2, || {
        let mut tries = 0;
        spin_until(|| {
            tries += 1;
            tries > 1000
        });
        if my_pe() == 0 {
            flag.store(1, Relaxed);
        }
        spin_until(|| flag.load(Relaxed) == 1);
    })
    .unwrap();
}

#[test]
fn hosts_that_never_launch_their_part_are_told() {
    let engine = engine(3);
    let results = hosts(&engine, 3, |pe| {
        if pe != 1 {
            engine.submit(pe, MAIN, collective(job("together", 2, 32, || {})))?;
            engine.wait(pe, MAIN)?;
        }
        Ok(())
    });
    assert!(results[1].is_ok());
    for pe in [0, 2] {
        let Err(Failure::Deadlock { report }) = &results[pe] else {
            panic!("{:?}", results[pe])
        };
        assert_told(
            report,
            &[
                &format!("PE {pe}, stream 0: collective kernel together<<<2, 32>>>"),
                "(launch number 0) waits for PE 1 to come to it",
                "host of PEs 0, 2: waits for stream 0",
                "host of PE 1: has ended",
            ],
        );
    }
}

#[test]
fn a_host_inside_a_collective_counts_as_waiting() {
    let engine = engine(2);
    let results = hosts(&engine, 2, |pe| {
        if pe == 0 {
            let _inside = engine.blocked(0);
            while engine.failure().is_none() {
                std::thread::yield_now();
            }
            return Ok(());
        }
        engine.submit(
            1,
            MAIN,
            job("alone", 1, 1, || {
                wait_until(Thread, common::signals(2, 1).at(0), eq(1));
            }),
        )?;
        engine.wait(1, MAIN)
    });
    let Err(Failure::Deadlock { report }) = &results[1] else {
        panic!("{results:?}")
    };
    assert_told(
        report,
        &["kernel alone<<<1, 1>>>", "host of PE 0: waits in a host collective"],
    );
}

#[test]
fn a_fault_reaches_every_pe() {
    let engine = engine(3);
    let results = hosts(&engine, 3, |pe| {
        let kernel = job("index", 1, 64, || {
            let x = signals(3, 4);
            if my_pe() == 1 && thread::index() == 33 {
                let _ = x.at(4u32);
            }
            wait_until(Block, x.at(0), eq(1));
        });
        engine.submit(pe, MAIN, collective(kernel))?;
        engine.wait(pe, MAIN)
    });
    let Err(Failure::Fault {
        kernel: "index",
        pe: 1,
        record,
        message: None,
    }) = &results[1]
    else {
        panic!("{results:?}")
    };
    assert_eq!(FaultKind::from_number(record.kind), Some(FaultKind::Index));
    assert_eq!(
        (record.a, record.b, record.thread, record.block),
        (4, 4, [33, 0, 0], [0; 3])
    );
    assert!(record.file().ends_with("failures.rs"));
    for pe in [0, 2] {
        let Err(Failure::PeerFailed { pe: 1, cause }) = &results[pe] else {
            panic!("{results:?}")
        };
        assert_told(
            cause,
            &[
                "kernel `index` on PE 1 at",
                "index 4 is outside an object of 4 elements",
                "thread 33",
            ],
        );
    }
    // A world that has failed stays so.
    assert!(matches!(engine.failure(), Some(Failure::Fault { pe: 1, .. })));
    assert!(matches!(
        engine.submit(0, MAIN, job("late", 1, 1, || {})),
        Err(Failure::PeerFailed { pe: 1, .. })
    ));
    assert!(matches!(engine.wait(1, MAIN), Err(Failure::Fault { .. })));
}

#[test]
fn a_target_outside_the_world_is_a_fault() {
    let error = run(2, 1, 1, || p(symmetric::<u32>(1).at(0), 1, 2)).unwrap_err();
    assert!(
        error.to_string().ends_with("there is no PE 2 in a world of 2"),
        "{error}"
    );
}

#[test]
fn a_handle_that_lies_outside_the_heap_is_a_fault() {
    let error = Sim::new(1)
        .heap_bytes(1 << 25)
        .run(|| p(SymSlice::<u64>::__new((1 << 25) - 4, 1).at(0), 1, 0))
        .unwrap_err();
    assert!(
        error.to_string().contains("range 33554428..33554436 is outside"),
        "{error}"
    );
}

#[test]
fn a_panic_tells_its_message_and_place() {
    let line = line!() + 3;
    let error = run(2, 2, 40, || {
        if my_pe() == 1 && thread::block_index() == 1 && thread::index() == 35 {
            assert_eq!(1 + 1, 3, "sums are off");
        }
        Block.sync();
    })
    .unwrap_err();
    let Failure::Fault {
        kernel: "run",
        pe: 1,
        record,
        message: Some(message),
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(FaultKind::from_number(record.kind), Some(FaultKind::Panic));
    assert_eq!(
        (record.line, record.block, record.thread),
        (line, [1, 0, 0], [35, 0, 0])
    );
    assert_told(message, &["sums are off"]);
    assert_told(
        &error.to_string(),
        &["kernel `run` on PE 1 at", "failures.rs:", "block 1, thread 35"],
    );
}

/// Counts what is alive.
struct Held<'a>(&'a AtomicU32);

impl<'a> Held<'a> {
    fn new(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, Relaxed);
        Self(count)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[test]
fn lanes_that_are_ended_drop_what_they_hold() {
    let alive = AtomicU32::new(0);
    let error = run(2, 2, 50, || {
        let _held = Held::new(&alive);
        if my_pe() == 0 && thread::block_index() == 0 && thread::index() == 7 {
            // Not before the others hold theirs.
            spin_until(|| alive.load(Relaxed) == 200);
            panic!("the end");
        }
        wait_until(Block, signals(2, 1).at(0), eq(1));
    })
    .unwrap_err();
    assert_told(&error.to_string(), &["the end"]);
    assert_eq!(alive.into_inner(), 0);
}

/// Makes every kind of call while it is dropped.
struct CallsAtTheEnd<'a>(&'a AtomicU32);

impl Drop for CallsAtTheEnd<'_> {
    fn drop(&mut self) {
        Block.sync();
        warp::sync(warp::FULL);
        warp::ballot(true);
        p(signals(2, 4).cast::<u64>().at(3), 1, 1 - my_pe());
        shmem::quiet(Block);
        self.0.fetch_add(1, Relaxed);
        if thread::index() == 3 {
            wait_until(Thread, signals(2, 4).at(0), eq(77));
            unreachable!("a wait does not return once the world has failed");
        }
    }
}

#[test]
fn destructors_may_call_the_api_when_lanes_are_ended() {
    let dropped = AtomicU32::new(0);
    let error = run(2, 1, 64, || {
        let _calls = CallsAtTheEnd(&dropped);
        if my_pe() == 1 && thread::index() == 40 {
            spin_until(|| true);
            panic!("the end");
        }
        wait_until(Thread, signals(2, 4).at(1), eq(5));
    })
    .unwrap_err();
    assert_told(&error.to_string(), &["the end"]);
    assert!(dropped.into_inner() > 0);
}

#[test]
fn a_panic_in_a_lane_whose_destructor_waits_is_still_told() {
    struct Waits;
    impl Drop for Waits {
        fn drop(&mut self) {
            wait_until(Thread, signals(1, 1).at(0), eq(1));
        }
    }
    let error = run(1, 1, 4, || {
        let _waits = Waits;
        assert!(thread::index() != 2, "number two");
        wait_until(Thread, signals(1, 1).at(0), eq(2));
    })
    .unwrap_err();
    assert_told(&error.to_string(), &["number two"]);
}

#[test]
fn a_kernel_that_catches_the_end_is_ended_all_the_same() {
    let error = run(1, 1, 2, || {
        if thread::index() == 1 {
            warp::sync(0b10);
            panic!("the end");
        }
        loop {
            let _ = std::panic::catch_unwind(|| wait_until(Thread, signals(1, 1).at(0), eq(1)));
        }
    })
    .unwrap_err();
    assert_told(&error.to_string(), &["the end"]);
}

#[test]
fn a_stack_overflow_is_a_fault() {
    #[inline(never)]
    fn deeper(n: u64) -> u64 {
        let here = std::hint::black_box([n; 64]);
        if n == 0 { here[5] } else { deeper(n - 1) + here[7] }
    }
    let error = run(1, 1, 40, || {
        Block.sync();
        if thread::index() == 20 {
            std::hint::black_box(deeper(1_000_000));
        }
        Block.sync();
    })
    .unwrap_err();
    assert_told(
        &error.to_string(),
        &["thread 20", "the lane's stack overflowed", "SHMEM_SIM_STACK"],
    );
}

#[test]
fn a_host_that_stays_away_runs_into_the_limit() {
    let engine = limited(3, Duration::from_millis(300));
    let results = hosts(&engine, 3, |pe| {
        if pe == 2 {
            while engine.failure().is_none() {
                std::thread::yield_now();
            }
            return Ok(());
        }
        engine.submit(pe, MAIN, collective(job("together", 1, 1, || {})))?;
        engine.wait(pe, MAIN)
    });
    let Err(Failure::TimeLimit { report }) = &results[0] else {
        panic!("{results:?}")
    };
    assert_told(
        report,
        &[
            "time limit of 300ms: everything waits for the host of PE 2",
            "waits for PE 2 to come to it",
            "host of PE 2: runs",
        ],
    );
}

#[test]
fn a_lane_that_waits_for_a_host_that_stays_away_is_told() {
    let engine = limited(2, Duration::from_millis(300));
    let results = hosts(&engine, 2, |pe| {
        if pe == 1 {
            while engine.failure().is_none() {
                std::thread::yield_now();
            }
            return Ok(());
        }
        engine.submit(
            0,
            MAIN,
            job("waits", 1, 1, || {
                wait_until(Thread, signals(2, 1).at(0), eq(1));
            }),
        )?;
        engine.wait(0, MAIN)
    });
    let Err(Failure::TimeLimit { report }) = &results[0] else {
        panic!("{results:?}")
    };
    assert_told(report, &["the host of PE 1", "kernel waits<<<1, 1>>>", "wanted == 1"]);
}

#[test]
fn a_kernel_that_switches_without_end_runs_into_the_limit() {
    let result = Sim::new(1)
        .block(64)
        .time_limit(Some(Duration::from_millis(200)))
        .run(|| {
            loop {
                Block.sync();
            }
        });
    let Err(Failure::TimeLimit { report }) = result else {
        panic!("{result:?}")
    };
    assert_told(
        &report,
        &[
            "time limit of 200ms: kernel run<<<1, 64>>>",
            "is still running",
            "can run, was last at",
        ],
    );
}

#[test]
fn a_kernel_that_the_machine_keeps_off_the_processor_is_not_over_the_limit() {
    let limit = Duration::from_millis(200);
    let result = Sim::new(1).block(64).time_limit(Some(limit)).run(|| {
        if Block.rank() == 0 {
            std::thread::sleep(2 * limit);
        }
        for _ in 0..100 {
            Block.sync();
        }
    });
    assert!(result.is_ok(), "{result:?}");
}

#[test]
fn lanes_that_wake_each_other_for_nothing_run_into_the_limit() {
    let result = Sim::new(2)
        .check(false)
        .time_limit(Some(Duration::from_millis(200)))
        .run(|| {
            let word = symmetric::<u64>(1).at(0);
            spin_until(|| {
                p(word, word.load() + 1, 1 - my_pe());
                false
            });
        });
    assert!(matches!(result, Err(Failure::TimeLimit { .. })), "{result:?}");
}

#[test]
fn different_kernels_at_the_same_position_are_told_with_both_names() {
    for (name, grid) in [("left", 2), ("right", 1)] {
        let engine = engine(2);
        let results = hosts(&engine, 2, |pe| {
            let kernel = if pe == 0 {
                job("left", 1, 32, || {})
            } else {
                job(name, grid, 32, || {})
            };
            engine.submit(pe, MAIN, collective(kernel))?;
            engine.wait(pe, MAIN)
        });
        for result in results {
            let Err(Failure::Launch { report }) = result else {
                panic!("{result:?}")
            };
            assert_told(
                &report,
                &[
                    "collective launch number 0 differs",
                    "left<<<1, 32>>>",
                    &format!("{name}<<<{grid}, 32>>>"),
                    "PE 0",
                    "PE 1",
                ],
            );
        }
    }
}

#[test]
fn launches_that_cannot_be_are_refused_and_do_no_harm() {
    let engine = engine(1);
    for (grid, block) in [(0, 1), (1, 0), (1, 1025)] {
        let Err(Failure::Launch { report }) = engine.submit(0, MAIN, job("bad", grid, block, || {})) else {
            panic!()
        };
        assert_told(&report, &["bad<<<"]);
    }
    let result = engine.submit(0, shmem_sim::StreamId(5), job("lost", 1, 1, || {}));
    assert!(result.unwrap_err().to_string().contains("PE 0 has no stream 5"));
    engine.submit(0, MAIN, job("good", 1, 1, || {})).unwrap();
    engine.wait(0, MAIN).unwrap();
}

#[test]
fn a_failed_host_fails_every_pe() {
    let engine = engine(3);
    let results = hosts(&engine, 3, |pe| {
        if pe == 1 {
            engine.fail(1, "its file is missing".to_owned());
            return engine.wait(1, MAIN);
        }
        engine.submit(
            pe,
            MAIN,
            job("waits", 1, 32, || {
                wait_until(Block, signals(3, 1).at(0), eq(1));
            }),
        )?;
        engine.wait(pe, MAIN)
    });
    for result in results {
        let Err(Failure::PeerFailed { pe: 1, cause }) = result else {
            panic!("{result:?}")
        };
        assert_eq!(cause, "its file is missing");
    }
}

#[test]
fn an_engine_may_be_dropped_while_lanes_wait() {
    let alive = Arc::new(AtomicU32::new(0));
    let ran = Arc::new(AtomicU64::new(0));
    let engine = engine(2);
    for pe in 0..2 {
        let (alive, ran) = (Arc::clone(&alive), Arc::clone(&ran));
        let kernel = job("waits", 3, 40, move || {
            let _held = Held::new(&alive);
            ran.fetch_add(1, Relaxed);
            wait_until(Thread, signals(2, 1).at(0), eq(1));
        });
        engine.submit(pe, MAIN, kernel).unwrap();
    }
    while ran.load(Relaxed) < 2 * 3 * 40 {
        std::thread::yield_now();
    }
    drop(engine);
    assert_eq!(alive.load(Relaxed), 0);
    assert_eq!(Arc::strong_count(&alive), 1, "the kernels are gone as well");
}

#[test]
fn an_engine_that_a_kernel_holds_ends_with_it() {
    let engine = engine(1);
    let held = Engine::clone(&engine);
    let (told, done) = std::sync::mpsc::channel();
    engine
        .submit(
            0,
            MAIN,
            job("holder", 1, 1, move || {
                let _ = held.heap(0);
                told.send(()).unwrap();
            }),
        )
        .unwrap();
    drop(engine);
    done.recv().unwrap();
}

#[test]
fn worlds_that_cannot_be_are_refused() {
    for pes in [0, 1025] {
        let error = Engine::new(shmem_sim::Config::new(pes)).unwrap_err();
        assert!(error.to_string().contains(&format!("not {pes}")), "{error}");
    }
    let error = Sim::new(2).heap_bytes(64).run(|| {}).unwrap_err();
    assert_told(&error.to_string(), &["heap_bytes is 64"]);
    let error = Sim::new(2).heap_bytes(1 << 62).run(|| {}).unwrap_err();
    assert_told(&error.to_string(), &["could not map"]);
}

#[test]
fn objects_are_made_under_run_only() {
    let engine = engine(1);
    engine
        .submit(
            0,
            MAIN,
            job("lost", 1, 1, || {
                symmetric::<u32>(1);
            }),
        )
        .unwrap();
    assert_told(
        &engine.wait(0, MAIN).unwrap_err().to_string(),
        &["launched by a host program"],
    );
    let error = std::panic::catch_unwind(|| symmetric::<u32>(1)).unwrap_err();
    assert_told(
        error.downcast_ref::<&str>().copied().unwrap_or_default(),
        &["inside a kernel"],
    );
}

#[test]
fn one_line_makes_one_object() {
    let error = run(1, 1, 2, || {
        symmetric::<u32>(1 + thread::index() as usize);
    })
    .unwrap_err();
    assert_told(&error.to_string(), &["this line has made an object of"]);
}
