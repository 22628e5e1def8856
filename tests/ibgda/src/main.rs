//! Posts writes from PE 0 to PE 1 and prints how fast that is: `SHMEM_NPES=2 SHMEM_PATH=ibgda SHMEM_HCA=emulated ibgda-rate [WRITES]`.
use anyhow::Context;
use ibgda_rate::program::{Options, run};
use shmem_host::World;

fn main() -> anyhow::Result<()> {
    let world = World::from_env()?;
    let timed = world.backend_name() == "cuda";
    let default = if timed { 2_000_000 } else { 2000 };
    let writes = std::env::args().nth(1).map_or(Ok(default), |text| {
        text.parse().with_context(|| format!("`{text}` is no number of writes"))
    })?;
    run(world, Options { writes, timed })
}
