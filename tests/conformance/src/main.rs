//! Runs the suite on whatever `SHMEM_BACKEND` and `SHMEM_NPES` say, GPUs first.
use conformance::suite;
use shmem_host::World;

fn main() -> anyhow::Result<()> {
    let world = World::from_env()?;
    println!("conformance on {}, {} PEs", world.backend_name(), world.n());
    drop(world);
    let passed = suite::run(|| Ok(World::from_env()?), true)?;
    println!("{passed} passed, 0 failed");
    Ok(())
}
