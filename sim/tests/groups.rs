//! Barriers of groups of warps and of grids.

use shmem::prelude::*;
use shmem_sim::{Failure, Sim, collective, global, run};

#[test]
fn groups_of_warps_wait_for_their_own_members_only() {
    for seed in 0..20 {
        Sim::new(1)
            .block(256)
            .seed(seed)
            .run(|| {
                let group = Block.groups::<2>();
                let cells = global::<u32>(256);
                let (t, first) = (thread::index(), 64 * group.id());
                // Group i syncs i + 1 times more than the block would let it.
                for round in 1..=5 * (group.id() + 1) {
                    cells.store(t, round);
                    group.sync();
                    assert_eq!(cells.load(first + (t + 32) % 64), round);
                    group.sync();
                }
            })
            .unwrap();
    }
}

#[test]
fn grids_of_all_pes_wait_for_their_own_blocks_only() {
    for seed in 0..20 {
        Sim::new(3)
            .grid((2, 2))
            .block(40)
            .seed(seed)
            .run(|| {
                let grid = collective().grid();
                let cells = global::<u32>(160);
                for round in 1..=4 * (shmem::my_pe() + 1) {
                    cells.store(grid.rank(), round);
                    grid.sync();
                    assert_eq!(cells.load((grid.rank() + 47) % grid.size()), round);
                    grid.sync();
                }
            })
            .unwrap();
    }
}

#[test]
fn lanes_that_have_ended_do_not_count_in_a_group_or_a_grid() {
    run(1, 3, 96, || {
        if thread::index() % 32 == 5 || thread::index() == 95 {
            return;
        }
        collective().grid().sync();
    })
    .unwrap();
    run(1, 1, 128, || {
        let group = Block.groups::<2>();
        if thread::index() % 32 == 5 {
            return;
        }
        group.sync();
    })
    .unwrap();
}

fn deadlock(run: Result<shmem_sim::Report, Failure>) -> String {
    match run {
        Err(Failure::Deadlock { report }) => report,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_warp_that_has_ended_is_missed_as_on_a_gpu() {
    let report = deadlock(run(1, 1, 128, || {
        let group = Block.groups::<2>();
        if warp::warp_id() != 1 {
            group.sync();
        }
    }));
    assert!(report.contains("32 lanes, threads 0-31: at "), "{report}");
    assert!(
        report.contains("waits for its group, warps 0-1; not arrived: none; ended: warp 1"),
        "{report}"
    );
}

#[test]
fn a_block_that_has_ended_is_missed_as_on_a_gpu() {
    let report = deadlock(run(1, 3, 64, || {
        if Block.id() != 1 {
            collective().grid().sync();
        }
    }));
    assert!(
        report.contains("waits for the grid barrier; 2 of 3 blocks have arrived; not arrived of this one: none"),
        "{report}"
    );
}

#[test]
fn lanes_that_do_not_come_are_told() {
    let report = deadlock(run(1, 2, 64, || {
        let grid = collective().grid();
        if Block.id() == 1 && thread::index() == 9 {
            shmem::wait_until(Thread, shmem_sim::signals(1).at(0), eq(1));
        }
        grid.sync();
    }));
    assert!(
        report.contains("1 of 2 blocks have arrived; not arrived of this one: thread 9"),
        "{report}"
    );
}

#[test]
fn warps_of_groups_of_different_sizes_do_not_meet() {
    let report = deadlock(run(1, 1, 128, || {
        let (pairs, fours) = (Block.groups::<2>(), Block.groups::<4>());
        if warp::warp_id() == 3 {
            fours.sync();
        } else {
            pairs.sync();
        }
    }));
    assert!(report.contains("waits for its group, warps 0-3"), "{report}");
}

#[test]
fn groups_divide_their_block() {
    let error = run(1, 1, 96, || Block.groups::<2>().sync()).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("a tile of 64 threads does not divide a block of 96"),
        "{text}"
    );
    assert!(text.contains("groups.rs"), "{text}");
}

#[test]
fn broadcasts_of_a_grid_are_told_to_every_block() {
    for seed in 0..10 {
        Sim::new(2)
            .grid(3)
            .block(33)
            .seed(seed)
            .run(|| {
                let grid = collective().grid();
                for round in 0..5u64 {
                    let said = grid.broadcast(round * 1000 + u64::from(grid.rank()));
                    assert_eq!(said, round * 1000);
                }
            })
            .unwrap();
    }
}

#[test]
fn a_panic_ends_those_who_wait_in_a_group() {
    let error = run(1, 2, 128, || {
        let group = Block.groups::<4>();
        assert!(Block.id() != 1 || warp::warp_id() != 2, "not this warp");
        group.sync();
        collective().grid().sync();
    })
    .unwrap_err();
    assert!(error.to_string().contains("not this warp"), "{error}");
}
