//! From the first call of the library to the first barrier.

use crate::measure::{Row, slowest};
use shmem_host::{World, info};
use std::time::Instant;

/// The slowest PE's time. The driver is initialised and the device's context there before, as in the peer's measurement.
pub(crate) fn to_first_barrier() -> anyhow::Result<()> {
    if info()?.devices.is_ok() {
        make_context()?;
    }
    let start = Instant::now();
    World::from_env()?.run(|pe| {
        pe.barrier_all()?;
        let value = slowest(&pe, start.elapsed().as_secs_f64())?;
        let row = Row {
            bench: "init",
            variant: "from_env_to_barrier".to_owned(),
            bytes: 0,
            value,
            unit: "s",
        };
        if pe.id() == 0 {
            println!("bench,variant,bytes,value,unit\n{row}");
        }
        Ok(())
    })
}

/// The context of the device that this process's first PE will have.
fn make_context() -> anyhow::Result<()> {
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
