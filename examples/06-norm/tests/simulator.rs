//! Random shapes on the simulator.
use fused_norm::{Algorithm, reference};
use shmem_host::{Backend, Pe, World};

fn on(pes: u32, seed: u64, check: impl Fn(&Pe) -> anyhow::Result<()> + Sync) {
    let world = World::builder().backend(Backend::Sim).pes(pes).seed(seed).build().unwrap();
    if let Err(error) = world.run(|pe| check(&pe)) {
        panic!("{pes} PEs, seed {seed}: {error:#}");
    }
}

/// Numbers below each bound that follow from the seed.
fn below(seed: u64, bounds: &[usize]) -> Vec<usize> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |bound: &usize| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33) as usize % bound
    };
    bounds.iter().map(&mut next).collect()
}

/// Rows of any length, calls of any numbers of tokens.
fn random(by: Algorithm) {
    for pes in 1..=4 {
        for seed in 0..4 {
            let r = below(seed * 10 + u64::from(pes), &[100, 7, 7, 7]);
            on(pes, seed, |pe| reference::check(pe, 8 * (r[0] + 1), &[r[1] + 1, r[2], r[3] + 1], Some(by), seed));
        }
    }
}

#[test]
fn by_packets() {
    random(Algorithm::Packets);
}

#[test]
fn by_one_shot() {
    random(Algorithm::OneShot);
}

#[test]
fn by_two_shots() {
    random(Algorithm::TwoShot);
}
