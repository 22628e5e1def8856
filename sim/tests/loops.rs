//! Loops that a user writes without a wait, and warp calls that do not meet.

use shmem::prelude::*;
use shmem_sim::{Failure, Sim};
use std::time::Duration;

#[test]
fn a_loop_of_loads_lets_others_run() {
    // The loop is a race, which the checker would tell.
    let sim = Sim::new(2).block(2).check(false);
    sim.run(|| {
        let flag = shmem_sim::symmetric::<u32>(1);
        if thread::index() == 0 {
            while flag.load(0) == 0 {}
        } else {
            shmem::p(flag.at(0), 1, 1 - shmem::my_pe());
        }
    })
    .unwrap();
}

#[test]
fn a_loop_of_loads_that_nobody_ends_ends_by_the_time_limit_with_its_place() {
    let ended = Sim::new(1).time_limit(Some(Duration::from_millis(200))).run(|| {
        let flag = shmem_sim::symmetric::<u32>(1);
        while flag.load(0) == 0 {}
    });
    let Err(Failure::TimeLimit { report }) = ended else {
        panic!("{ended:?}")
    };
    assert!(report.contains("was last at sim/tests/loops.rs"), "{report}");
}

/// Runs something that nobody ends; the report says where it was.
fn endless(block: u32, kernel: impl Fn() + Send + Sync) -> String {
    let ended = Sim::new(1)
        .block(block)
        .time_limit(Some(Duration::from_millis(200)))
        .run(kernel);
    match ended {
        Err(Failure::TimeLimit { report }) => report,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_closure_that_syncs_or_votes_ends_by_the_time_limit() {
    endless(32, || {
        let x = shmem_sim::signals(1);
        shmem::spin_until(|| warp::all(shmem::signal_fetch(x.at(0)) == 1));
    });
    endless(32, || {
        shmem::spin_until(|| {
            Warp.sync();
            false
        });
    });
    endless(64, || {
        shmem::spin_until(|| {
            Block.sync();
            false
        });
    });
}

#[test]
fn loops_of_any_call_that_does_not_wait_end_by_the_time_limit() {
    let report = endless(1, || {
        let x = shmem_sim::symmetric::<u32>(1);
        while shmem::g(x.at(0), 0) == 0 {}
    });
    assert!(report.contains("was last at sim/tests/loops.rs"), "{report}");
    endless(1, || {
        let x = shmem_sim::symmetric::<u32>(1);
        loop {
            shmem::p(x.at(0), 0, 0);
        }
    });
    endless(1, || {
        let x = shmem_sim::signals(1);
        loop {
            shmem::signal_op(x.at(0).set(0), 0);
        }
    });
    endless(1, || {
        let x = shmem_sim::symmetric::<u32>(1);
        while x.load(0) == 0 {
            Block.sync();
        }
    });
    endless(1, || {
        loop {
            Block.sync();
        }
    });
    endless(1, || {
        loop {
            warp::sync(1);
        }
    });
}

#[test]
fn a_closure_that_calls_without_waiting_is_still_a_deadlock() {
    let ended = shmem_sim::run(1, 1, 1, || {
        let x = shmem_sim::symmetric::<u32>(1);
        shmem::spin_until(|| shmem::g(x.at(0), 0) == 1 && x.load(0) == 1);
    });
    assert!(matches!(ended, Err(Failure::Deadlock { .. })), "{ended:?}");
}

#[test]
fn a_shuffle_does_not_meet_a_vote() {
    let ended = shmem_sim::run(1, 1, 32, || {
        if warp::lane_id() < 16 {
            warp::shuffle(7u32, 20);
        } else {
            warp::ballot(true);
        }
    });
    let text = ended.unwrap_err().to_string();
    assert!(text.matches("loops.rs").count() >= 2, "both places: {text}");
}

#[test]
fn a_whole_warp_needs_blocks_of_whole_warps() {
    for call in [|| assert_eq!(warp::shuffle_xor(1u32, 1), 1), || Warp.sync()] {
        let text = shmem_sim::run(1, 1, 40, call).unwrap_err().to_string();
        assert!(text.contains("loops.rs"), "{text}");
    }
}
