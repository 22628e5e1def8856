//! On the simulator: numbers of PEs, seeds, shapes.
use gups::check::{check, inserts, keys, updates};
use gups::update::op;
use shmem_host::{Backend, Pe, World};

fn on_worlds(check: impl Fn(&Pe, u64) -> anyhow::Result<()> + Sync) {
    for pes in 1..=4 {
        for seed in 0..6 {
            let world = World::builder()
                .backend(Backend::Sim)
                .pes(pes)
                .seed(seed)
                .build()
                .unwrap();
            if let Err(error) = world.run(|pe| check(&pe, seed)) {
                panic!("{pes} PEs, seed {seed}: {error:#}");
            }
        }
    }
}

#[test]
fn everything_with_little_data() {
    on_worlds(|pe, seed| check(pe, (1 + seed as u32 % 3, 17 + 16 * (seed as u32 % 2)), 64));
}

#[test]
fn one_word_takes_all_updates() {
    on_worlds(|pe, _| updates::<{ op::SUB }>(pe, (2, 40), 1, 99));
}

#[test]
fn everyone_inserts_one_key() {
    on_worlds(|pe, _| inserts(pe, (2, 33), 4, |_| vec![u64::MAX; 70]));
}

#[test]
fn more_keys_than_words() {
    on_worlds(|pe, seed| inserts(pe, (3, 32), 16, |from| keys(from ^ seed as u32, 90, 200)));
}
