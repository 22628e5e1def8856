//! Every kernel on the simulator: one to five PEs, several seeds.
use shmem_host::{Backend, Pe, World};

fn on_worlds(check: fn(&Pe) -> anyhow::Result<()>) {
    on_worlds_of([2, 3, 4], check);
}

fn on_worlds_of<const N: usize>(pes: [u32; N], check: fn(&Pe) -> anyhow::Result<()>) {
    for n in pes {
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

#[test]
fn mixture_of_experts() {
    on_worlds_of([1, 2, 3, 5], paper::moe::check);
}

#[test]
fn hash_table() {
    on_worlds_of([1, 2, 3, 5], paper::hash::check);
}
