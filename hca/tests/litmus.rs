//! What a network of reliable queue pairs allows and forbids (ORDERING.md's table): over many seeds the allowed outcomes
//! happen, and the forbidden ones never do.

mod common;

use common::{Options, Rig};
use shmem_hca::Config;
use shmem_mlx5::completion::Kind;
use shmem_mlx5::entry;
use shmem_mlx5::{Length, Remote};

const SEEDS: u64 = 400;
const DATA: u64 = 0x1000;
const FLAG: u64 = 0x2000;
const BYTES: usize = 3000;

fn data_key(rig: &Rig, relaxed: bool) -> Remote {
    if relaxed {
        rig.remote_relaxed(1, DATA)
    } else {
        rig.remote(1, DATA)
    }
}

/// Steps one seed until PE 1's flag is set, and tells whether the data was there.
fn data_is_there(rig: &mut Rig) -> bool {
    while rig.heap(1, FLAG, 1) == [0] {
        assert!(rig.step().is_some(), "the flag never came");
    }
    rig.heap(1, DATA, BYTES).iter().all(|&b| b == 7)
}

/// Over all seeds, how often the data was missing when the flag was seen.
fn missing(put_relaxed: bool, flag: impl Fn(&mut Rig)) -> usize {
    let run = |seed| {
        let mut rig = Rig::new(Config::strict(seed), Options::default());
        rig.set_heap(0, 0, &[7; BYTES]);
        let (to, from) = (data_key(&rig, put_relaxed), rig.local(0, 0));
        let units = entry::write(rig.next(0, 1), to, from, Length::new(BYTES as u32).unwrap());
        rig.write(0, 1, &units);
        flag(&mut rig);
        let there = data_is_there(&mut rig);
        rig.fabric.run();
        rig.clean();
        there
    };
    (0..SEEDS).filter(|&seed| !run(seed)).count()
}

#[test]
fn a_later_strict_write_of_the_queue_pair_shows_the_data() {
    for relaxed in [false, true] {
        let missing = missing(relaxed, |rig| {
            let units = entry::write_inline(rig.next(0, 1), rig.remote(1, FLAG), [1, 0, 0], 4).unwrap();
            rig.post(0, 1, &units);
        });
        assert_eq!(missing, 0);
    }
}

#[test]
fn a_later_atomic_of_the_queue_pair_shows_the_data() {
    let missing = missing(true, |rig| {
        let units = entry::fetch_add(rig.next(0, 1), rig.remote(1, FLAG), 1, rig.local(0, 0x4000));
        rig.post(0, 1, &units);
    });
    assert_eq!(missing, 0);
}

#[test]
fn a_later_relaxed_write_may_overtake_relaxed_data() {
    let missing = missing(true, |rig| {
        let units = entry::write_inline(rig.next(0, 1), rig.remote_relaxed(1, FLAG), [1, 0, 0], 4).unwrap();
        rig.post(0, 1, &units);
    });
    assert!(missing > SEEDS as usize / 20, "{missing}");
}

#[test]
fn another_queue_pair_may_overtake() {
    let missing = missing(false, |rig| {
        rig.ring(0, 1);
        // PE 1's own, to itself.
        let units = entry::write_inline(rig.next(1, 1), rig.remote(1, FLAG), [1, 0, 0], 4).unwrap();
        rig.post(1, 1, &units);
    });
    assert!(missing > SEEDS as usize / 4, "{missing}");
}

/// Steps until the last entry of `0 -> 1` is reported.
fn wait(rig: &mut Rig) {
    while rig.queues[0][1].done < rig.queues[0][1].posted {
        let idle = rig.step().is_none();
        match rig.take(0, 1) {
            Some((kind, ..)) => assert_eq!(kind, Kind::Request),
            None => assert!(!idle),
        }
    }
}

#[test]
fn a_completed_write_may_not_be_in_memory_yet_and_a_read_behind_it_brings_it_there() {
    let mut late = 0;
    for seed in 0..SEEDS {
        let mut rig = Rig::new(Config::strict(seed), Options::default());
        rig.set_heap(0, 0, &[7; 8]);
        let units = entry::write(
            rig.next(0, 1).signalled(),
            rig.remote_relaxed(1, DATA),
            rig.local(0, 0),
            Length::new(8).unwrap(),
        );
        rig.post(0, 1, &units);
        wait(&mut rig);
        late += usize::from(rig.heap(1, DATA, 8) != [7; 8]);
        let units = entry::read(
            rig.next(0, 1).signalled(),
            rig.remote(1, FLAG),
            rig.local(0, 0x4000),
            Length::new(1).unwrap(),
        );
        rig.post(0, 1, &units);
        wait(&mut rig);
        assert_eq!(rig.heap(1, DATA, 8), [7; 8]);
        rig.clean();
    }
    assert!(late > SEEDS as usize / 20, "{late}");
}

#[test]
fn a_read_sees_earlier_writes_and_may_see_later_ones_unless_fenced() {
    let mut saw_later = [0, 0];
    for seed in 0..SEEDS {
        for fenced in [false, true] {
            let mut rig = Rig::new(Config::strict(seed), Options::default());
            let word = |rig: &mut Rig, value: u32, fenced: bool| {
                let mut post = rig.next(0, 1);
                if fenced {
                    post = post.fenced();
                }
                let units = entry::write_inline(post, rig.remote(1, DATA), [value, 0, 0], 4).unwrap();
                rig.write(0, 1, &units);
            };
            word(&mut rig, 1, false);
            let units = entry::read(
                rig.next(0, 1),
                rig.remote(1, DATA),
                rig.local(0, 0x4000),
                Length::new(4).unwrap(),
            );
            rig.write(0, 1, &units);
            word(&mut rig, 2, fenced);
            rig.ring(0, 1);
            rig.fabric.run();
            rig.clean();
            let seen = u32::from_ne_bytes(rig.heap(0, 0x4000, 4).try_into().unwrap());
            assert!(seen == 1 || seen == 2, "{seen}");
            saw_later[usize::from(fenced)] += usize::from(seen == 2);
        }
    }
    assert!(saw_later[0] > SEEDS as usize / 50 && saw_later[1] == 0, "{saw_later:?}");
}

#[test]
fn a_source_that_is_rewritten_before_completion_may_arrive_either_way() {
    let mut new = 0;
    for seed in 0..SEEDS {
        let mut rig = Rig::new(Config::strict(seed), Options::default());
        rig.set_heap(0, 0, &[7; 8]);
        let units = entry::write(
            rig.next(0, 1).signalled(),
            rig.remote(1, DATA),
            rig.local(0, 0),
            Length::new(8).unwrap(),
        );
        rig.post(0, 1, &units);
        for _ in 0..seed % 3 {
            rig.step();
        }
        rig.set_heap(0, 0, &[8; 8]);
        rig.fabric.run();
        new += usize::from(rig.heap(1, DATA, 8) == [8; 8]);
        rig.clean();
    }
    assert!(new > 0 && new < SEEDS as usize, "{new}");
    // After the completion, never.
    for seed in 0..SEEDS {
        let mut rig = Rig::new(Config::strict(seed), Options::default());
        rig.set_heap(0, 0, &[7; 8]);
        let units = entry::write(
            rig.next(0, 1).signalled(),
            rig.remote(1, DATA),
            rig.local(0, 0),
            Length::new(8).unwrap(),
        );
        rig.post(0, 1, &units);
        wait(&mut rig);
        rig.set_heap(0, 0, &[8; 8]);
        rig.fabric.run();
        assert_eq!(rig.heap(1, DATA, 8), [7; 8]);
    }
}

#[test]
fn what_a_completion_of_a_get_tells_is_in_place() {
    for seed in 0..SEEDS {
        let mut rig = Rig::new(Config::strict(seed), Options::default());
        rig.set_heap(1, 0, &[7; BYTES]);
        let units = entry::read(
            rig.next(0, 1).signalled(),
            rig.remote_relaxed(1, 0),
            rig.local(0, 0x4000),
            Length::new(BYTES as u32).unwrap(),
        );
        rig.post(0, 1, &units);
        wait(&mut rig);
        assert_eq!(rig.heap(0, 0x4000, BYTES), [7; BYTES]);
        rig.clean();
    }
}

#[test]
fn the_same_seed_does_the_same() {
    let trace = |seed| {
        let mut rig = Rig::new(
            Config {
                loss: 100_000,
                ..Config::strict(seed)
            },
            Options::default(),
        );
        for i in 0..8 {
            let (to, from) = (rig.remote_relaxed(1, DATA + i * 64), rig.local(0, 0));
            let units = entry::write(rig.next(0, 1).signalled(), to, from, Length::new(2000).unwrap());
            rig.write(0, 1, &units);
        }
        rig.ring(0, 1);
        std::iter::from_fn(|| rig.step()).collect::<Vec<_>>()
    };
    assert_eq!(trace(1), trace(1));
    assert_ne!(trace(1), trace(2));
}
