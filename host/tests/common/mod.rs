//! What the test files share.
#![allow(dead_code, reason = "each test file uses its part")]

use shmem_host::{Backend, Builder, Error, Pe, World};
use std::time::{Duration, Instant};

pub(crate) fn sim(pes: u32) -> Builder {
    World::builder()
        .pes(pes)
        .backend(Backend::Sim)
        .heap(48 << 20)
        .time_limit(Some(Duration::from_secs(20)))
}

/// Runs `f` on so many PEs of the simulator.
pub(crate) fn run(pes: u32, f: impl Fn(Pe) -> Result<(), Error> + Sync) -> Result<(), Error> {
    sim(pes).build()?.run(f)
}

/// Runs something that must not take as long as any time limit: whoever hangs fails.
pub(crate) fn promptly<T>(f: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = f();
    assert!(start.elapsed() < Duration::from_secs(10), "took {:?}", start.elapsed());
    result
}
