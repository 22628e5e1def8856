//! Lanes of one block: barrier, warp calls, shared memory.

use shmem::prelude::*;
use shmem_sim::{Sim, run};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

#[test]
fn a_barrier_separates_what_lies_before_it_from_what_lies_behind() {
    for block in [1, 2, 31, 32, 33, 256, 1024] {
        let arrived = AtomicU32::new(0);
        run(1, 1, block, || {
            for round in 1..=3 {
                arrived.fetch_add(1, Relaxed);
                Block.sync();
                assert_eq!(arrived.load(Relaxed), round * block);
                Block.sync();
            }
        })
        .unwrap();
    }
}

#[test]
fn barriers_of_blocks_are_separate() {
    let done = AtomicU32::new(0);
    run(2, 5, 40, || {
        for _ in 0..=thread::block_index() {
            Block.sync();
        }
        done.fetch_add(1, Relaxed);
    })
    .unwrap();
    assert_eq!(done.into_inner(), 2 * 5 * 40);
}

#[test]
fn lanes_that_have_ended_do_not_count() {
    run(1, 3, 100, || {
        if thread::index().is_multiple_of(3) {
            return;
        }
        Block.sync();
        if thread::index() < 50 {
            return;
        }
        Block.sync();
    })
    .unwrap();
}

#[test]
fn the_last_lane_to_end_opens_the_barrier() {
    for seed in 0..20 {
        let order = Mutex::new(Vec::new());
        Sim::new(1)
            .block(64)
            .seed(seed)
            .run(|| {
                if thread::index() == 0 {
                    // Outlasts the others' way to the barrier.
                    for _ in 0..10 {
                        warp::sync(1);
                    }
                } else {
                    Block.sync();
                }
                order.lock().unwrap().push(thread::index());
            })
            .unwrap();
        let order = order.into_inner().unwrap();
        assert_eq!(order.len(), 64);
        assert_eq!(order[0], 0, "the barrier opened before lane 0 had ended");
    }
}

#[test]
fn shuffles_exchange_within_each_warp() {
    run(1, 1, 128, || {
        let lane = warp::lane_id();
        for round in 0..20 {
            let from = (lane + round) % 32;
            let got = warp::shuffle(thread::index() * 1000 + round, from);
            assert_eq!(got, (warp::warp_id() * 32 + from) * 1000 + round);
        }
        assert_eq!(warp::shuffle_xor(u64::from(lane) << 40, 5), u64::from(lane ^ 5) << 40);
        assert_eq!(warp::ballot(lane % 2 == 1), 0xaaaa_aaaa);
    })
    .unwrap();
}

#[test]
fn small_tiles_exchange_side_by_side() {
    run(1, 1, 64, || {
        let tile = SubWarp::<8>;
        // Tiles of a warp make different numbers of calls: each waits for its own members only.
        for round in 0..=tile.id() {
            let got = tile.shuffle(thread::index() + round, 3);
            assert_eq!(got, thread::index() / 8 * 8 + 3 + round);
        }
    })
    .unwrap();
}

#[test]
fn a_tile_may_meet_while_its_warp_has_still_to_read() {
    for seed in 0..50 {
        Sim::new(1)
            .block(32)
            .seed(seed)
            .run(|| {
                for round in 0..5u32 {
                    let lane = warp::lane_id();
                    assert_eq!(warp::shuffle(lane + 100 * round, 9), 9 + 100 * round);
                    assert_eq!(
                        SubWarp::<16>.shuffle(lane + 7 * round, 2),
                        lane / 16 * 16 + 2 + 7 * round
                    );
                }
            })
            .unwrap();
    }
}

#[test]
fn a_short_last_warp_counts_the_lanes_there_are() {
    run(1, 2, 37, || {
        warp::sync(warp::FULL);
        let in_warp = if thread::index() < 32 { u32::MAX } else { 0b11111 };
        assert_eq!(warp::ballot(true), in_warp);
        Block.sync();
    })
    .unwrap();
}

#[test]
fn ended_lanes_read_as_zero_in_an_exchange() {
    run(1, 1, 32, || {
        if warp::lane_id() >= 8 {
            return;
        }
        // Makes sure that the others are gone: the barrier opens when 8 lanes are left.
        Block.sync();
        assert_eq!(warp::ballot(true), 0xff);
    })
    .unwrap();
}

#[test]
fn lanes_of_a_mask_that_end_release_the_others() {
    for seed in 0..20 {
        Sim::new(1)
            .block(32)
            .seed(seed)
            .run(|| {
                if warp::lane_id() < 16 {
                    warp::sync(warp::FULL);
                }
            })
            .unwrap();
    }
}

#[test]
fn a_call_for_lanes_without_the_caller_is_a_fault() {
    let error = run(1, 1, 32, || {
        if warp::lane_id() == 3 {
            warp::sync(0b0111);
        }
    })
    .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("lane 3 calls for the lanes 0x7, which it is not one of"),
        "{error}"
    );
    assert!(error.to_string().contains("lanes.rs:"), "{error}");
}

#[test]
fn indices_cover_grid_and_block() {
    let seen = Mutex::new(Vec::new());
    Sim::new(1)
        .grid((2, 3))
        .block((4, 2, 3))
        .run(|| {
            assert_eq!(
                [thread::block_dim_x(), thread::block_dim_y(), thread::block_dim_z()],
                [4, 2, 3]
            );
            assert!(thread::thread_idx_x() < 4 && thread::thread_idx_y() < 2 && thread::thread_idx_z() < 3);
            seen.lock().unwrap().push((thread::block_index(), thread::index()));
        })
        .unwrap();
    let mut seen = seen.into_inner().unwrap();
    seen.sort_unstable();
    let all: Vec<_> = (0..6)
        .flat_map(|block| (0..24).map(move |thread| (block, thread)))
        .collect();
    assert_eq!(seen, all);
}

#[test]
fn shared_memory_belongs_to_one_block_and_starts_out_poisoned() {
    // Unchecked: the checker does not let it come to the poison.
    Sim::new(1)
        .grid(40)
        .block(64)
        .check(false)
        .run(|| {
            shared!(tile: [u32; 64]);
            assert_eq!(tile.load(thread::index()), 0xa5a5_a5a5);
            tile.store(thread::index(), thread::block_index());
            Block.sync();
            assert_eq!(tile.load(63 - thread::index()), thread::block_index());
        })
        .unwrap();
}

#[test]
fn dynamic_shared_memory_has_the_size_of_the_launch() {
    Sim::new(1)
        .block(32)
        .shared_bytes(512)
        .check(false)
        .run(|| {
            let all = shmem::shared::dynamic::<u64>();
            assert_eq!(all.len(), 64);
            all.store(thread::index(), 1);
            Block.sync();
            assert_eq!(all.load(31 - thread::index()), 1);
            assert_eq!(all.load(40), 0xa5a5_a5a5_a5a5_a5a5);
        })
        .unwrap();
}

#[test]
fn every_member_of_a_block_gets_the_leaders_value() {
    run(1, 2, 1000, || {
        for round in 0..3 {
            assert_eq!(Block.broadcast(u64::from(thread::index()) + round), round);
        }
    })
    .unwrap();
}
