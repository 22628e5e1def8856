//! init: from the first call of the library to the first barrier; large allocations.

use crate::bench::Bench;
use shmem_host::info;
use std::time::Instant;

/// What is allocated.
const BYTES: usize = 1 << 30;
const BYTES_SIMULATED: usize = 1 << 16;

/// Initialises the driver and makes the context of the device that this process's first PE will have, which the peer's
/// measurement leaves out as well. Nothing where there is no device.
pub(crate) fn make_context() -> anyhow::Result<()> {
    if info()?.devices.is_err() {
        return Ok(());
    }
    let rank = ["SHMEM_RANK", "LOCAL_RANK", "PMIX_RANK"]
        .iter()
        .find_map(|name| std::env::var(name).ok()?.parse::<usize>().ok())
        .unwrap_or(0);
    cudarc::driver::result::init()?;
    let count = cudarc::driver::result::device::get_count()? as usize;
    let device = cudarc::driver::result::device::get((rank % count.max(1)) as i32)?;
    // SAFETY: the device exists. The context stays for the life of the process.
    unsafe { cudarc::driver::result::primary_ctx::retain(device) }?;
    Ok(())
}

pub(crate) fn init(b: &Bench) -> anyhow::Result<()> {
    b.row("init", "init_attr_to_barrier", 0, b.init, "s");
    let bytes = if b.simulated { BYTES_SIMULATED } else { BYTES };
    for which in ["first", "again"] {
        b.pe.barrier_all()?;
        let start = Instant::now();
        let buffer = b.pe.alloc_uninit::<u8>(bytes)?;
        let allocated = start.elapsed().as_secs_f64();
        drop(buffer);
        // Memory is free once every PE has dropped it.
        b.pe.barrier_all()?;
        let freed = start.elapsed().as_secs_f64() - allocated;
        let (allocated, freed) = (b.slowest(allocated)?, b.slowest(freed)?);
        b.row("init", &format!("malloc_{which}"), bytes, allocated, "s");
        b.row("init", &format!("free_{which}"), bytes, freed, "s");
    }
    Ok(())
}
