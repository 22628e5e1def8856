//! What several test files need.
#![allow(dead_code, reason = "each test file uses its own part")]

use shmem::{SignalWord, SymSlice};
use shmem_sim::{Config, Engine, Failure, KernelJob, StreamId};
use std::sync::Arc;
use std::time::Duration;

/// A kernel of one dimension.
#[track_caller]
pub(crate) fn job(name: &'static str, grid: u32, block: u32, lane: impl Fn() + Send + Sync + 'static) -> KernelJob {
    let at = std::panic::Location::caller();
    KernelJob {
        name,
        symbol: "",
        place: (at.file(), at.line()),
        grid: [grid, 1, 1],
        block: [block, 1, 1],
        shared_bytes: 0,
        cluster: 1,
        collective: false,
        lane: Arc::new(lane),
    }
}

pub(crate) fn collective(job: KernelJob) -> KernelJob {
    KernelJob {
        collective: true,
        ..job
    }
}

pub(crate) fn engine(pes: u32) -> Engine {
    Engine::new(Config::new(pes)).unwrap()
}

/// Signals in the first user part of the heap, as a host's allocator would hand them out.
pub(crate) fn signals(pes: u32, len: u64) -> SymSlice<SignalWord> {
    SymSlice::__new(shmem::state::SystemArea::new(pes).bytes, len)
}

/// Runs `host` on a thread for each PE, as host programs do, and detaches each at its end.
pub(crate) fn hosts(
    engine: &Engine,
    pes: u32,
    host: impl Fn(u32) -> Result<(), Failure> + Sync,
) -> Vec<Result<(), Failure>> {
    std::thread::scope(|scope| {
        let host = &host;
        let threads: Vec<_> = (0..pes)
            .map(|pe| {
                scope.spawn(move || {
                    let result = host(pe);
                    engine.detach(pe);
                    result
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

/// A limit that a test which goes wrong runs into.
pub(crate) fn limited(pes: u32, limit: Duration) -> Engine {
    let mut config = Config::new(pes);
    config.time_limit = Some(limit);
    Engine::new(config).unwrap()
}

pub(crate) const MAIN: StreamId = StreamId(0);
