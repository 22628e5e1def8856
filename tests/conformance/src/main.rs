//! Runs the suite on whatever `SHMEM_BACKEND` and `SHMEM_NPES` say, GPUs first.
use conformance::suite;
use shmem_host::{Backend, World};

fn main() -> anyhow::Result<()> {
    let world = World::from_env()?;
    println!("conformance on {}, {} PEs", world.backend_name(), world.n());
    let backend = if world.backend_name() == "cuda" {
        Backend::Cuda
    } else {
        Backend::Sim
    };
    drop(world);
    conformance::refused::worlds(backend)?;
    println!("ok refused: worlds that can't be made");
    let passed = suite::run(|| Ok(World::from_env()?), true)?;
    println!("{passed} passed, 0 failed");
    Ok(())
}
