//! `cargo xtask run simple-shift`
use shmem_host::{World, collective_launch};
use simple_shift::simple_shift;

fn main() -> anyhow::Result<()> {
    World::from_env()?.run(|pe| {
        let dst = pe.alloc::<i32>(1)?;
        collective_launch!(pe, simple_shift<<<1, 1>>>(&dst))?;
        pe.stream().barrier_all()?;
        println!("PE {}/{} received {}", pe.id(), pe.n(), dst.read(0)?);
        Ok(())
    })
}
