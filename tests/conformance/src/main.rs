//! Runs the suite on whatever `SHMEM_BACKEND` and `SHMEM_NPES` say, GPUs first: all of it, or what has one of the arguments in
//! its name. With `--little`, with little data: for adapters that a thread emulates.
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
    let mut names: Vec<_> = std::env::args().skip(1).collect();
    if names.extract_if(.., |name| name == "--little").count() > 0 {
        suite::take_little();
    }
    let passed = suite::run_named(|| Ok(World::from_env()?), true, &names)?;
    println!("{passed} passed, 0 failed");
    Ok(())
}
