//! Runs every kernel on whatever `SHMEM_BACKEND` and `SHMEM_NPES` say, GPUs first.
use anyhow::Context;
use paper::{halo, hash, moe, norm, ring};
use shmem_host::{Pe, World};

type Check = fn(&Pe) -> anyhow::Result<()>;

fn main() -> anyhow::Result<()> {
    let world = World::from_env()?;
    println!("paper kernels on {}, {} PEs", world.backend_name(), world.n());
    let kernels: [(&str, Check); 5] = [
        ("ring all-reduce", ring::check),
        ("all-reduce with RMSNorm", norm::check),
        ("Jacobi halo", halo::check),
        ("mixture of experts", moe::check),
        ("hash table", hash::check),
    ];
    world.run(|pe| -> anyhow::Result<()> {
        for (name, check) in kernels {
            check(&pe).with_context(|| format!("{name} on PE {} of {}", pe.id(), pe.n()))?;
            if pe.id() == 0 {
                println!("ok {name}");
            }
        }
        Ok(())
    })
}
