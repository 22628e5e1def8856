//! Every kernel on the simulator: two to four PEs, several seeds.
use shmem_host::{Backend, Pe, World};

fn on_worlds(check: fn(&Pe) -> anyhow::Result<()>) {
    for n in 2..=4 {
        for seed in 0..4 {
            let world = World::builder()
                .backend(Backend::Sim)
                .pes(n)
                .seed(seed)
                .build()
                .unwrap();
            if let Err(error) = world.run(|pe| check(&pe)) {
                panic!("{n} PEs, seed {seed}: {error:?}");
            }
        }
    }
}

#[test]
fn ring_all_reduce() {
    on_worlds(paper::ring::check);
}

#[test]
fn all_reduce_with_rms_norm() {
    on_worlds(paper::norm::check);
}

#[test]
fn jacobi_halo() {
    on_worlds(paper::halo::check);
}
