//! A thread that is the emulated adapters: it looks at the registers that kernels write, and does what was posted.

use crate::{Error, NetworkCounters, NetworkError};
use shmem_hca::{Fabric, Pinned, Violation};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Looks without news before other threads may run after each.
const SPINS: u32 = 1 << 12;
/// Looks without news before the thread sleeps after each: some 50 ms.
const YIELDS: u32 = 1 << 17;
const SLEEP: Duration = Duration::from_micros(50);

/// What the thread and the World tell each other.
struct State {
    stop: AtomicBool,
    failure: OnceLock<Error>,
    entries: AtomicU64,
    doorbells: AtomicU64,
}

/// The thread. Dropping the value ends it.
pub(super) struct Adapters {
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread needs to say which PEs a fault concerns, and to end their kernels.
pub(super) struct Known {
    /// Addresses of the PEs' abort words, in memory of the host that stays as long as the thread runs.
    pub(super) abort: Vec<u64>,
    /// The context and the peer of a queue pair's number, by adapter.
    pub(super) queues: Vec<Vec<(u32, u32, u32)>>,
}

impl Known {
    fn fault(&self, violation: &Violation) -> Error {
        let of = self.queues.get(violation.adapter).into_iter().flatten();
        let which = of.into_iter().find(|(number, ..)| *number == violation.queue_pair);
        let which = which.map_or(String::new(), |(_, context, peer)| {
            format!(" (context {context}, to PE {peer})")
        });
        Error::Adapter {
            report: format!("the emulated adapter of PE {}: {violation}{which}", violation.adapter),
        }
    }

    /// Kernels of every PE end at their next wait.
    fn abort(&self) {
        for word in &self.abort {
            let word = std::ptr::with_exposed_provenance_mut::<u32>(*word as usize);
            // SAFETY: aligned, and in memory that outlives the thread; kernels and the driver access it as a word.
            unsafe { AtomicU32::from_ptr(word) }.store(1, Ordering::Release);
        }
    }
}

impl Adapters {
    pub(super) fn start(fabric: Arc<Mutex<Fabric<Pinned>>>, known: Known) -> Result<Self, std::io::Error> {
        let state = Arc::new(State {
            stop: AtomicBool::new(false),
            failure: OnceLock::new(),
            entries: AtomicU64::new(0),
            doorbells: AtomicU64::new(0),
        });
        let shared = state.clone();
        let thread = thread::Builder::new()
            .name("network adapters".to_owned())
            .spawn(move || {
                let ended = catch_unwind(AssertUnwindSafe(|| serve(&fabric, &known, &shared)));
                if let Err(payload) = ended {
                    let cause = text(&*payload);
                    let _ = shared.failure.set(NetworkError::Ended { cause }.into());
                    known.abort();
                }
            })?;
        Ok(Self {
            state,
            thread: Some(thread),
        })
    }

    /// The first fault.
    pub(super) fn failure(&self) -> Option<Error> {
        self.state.failure.get().cloned()
    }

    pub(super) fn counters(&self) -> NetworkCounters {
        NetworkCounters {
            entries: self.state.entries.load(Ordering::Relaxed),
            doorbells: self.state.doorbells.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Adapters {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // It catches what it panics with.
            let _ = thread.join();
        }
    }
}

fn serve(fabric: &Mutex<Fabric<Pinned>>, known: &Known, state: &State) {
    let mut idle = 0u32;
    while !state.stop.load(Ordering::Acquire) {
        let (steps, counters, violations) = {
            let mut fabric = fabric.lock().unwrap_or_else(PoisonError::into_inner);
            (fabric.poll(), fabric.counters(), fabric.take_violations())
        };
        if let Some(first) = violations.first() {
            // The first one is kept: others follow from it.
            let _ = state.failure.set(known.fault(first));
            known.abort();
        }
        state.entries.store(counters.entries, Ordering::Relaxed);
        state.doorbells.store(counters.doorbells, Ordering::Relaxed);
        idle = if steps > 0 { 0 } else { idle.saturating_add(1) };
        match idle {
            ..SPINS => std::hint::spin_loop(),
            SPINS..YIELDS => thread::yield_now(),
            YIELDS.. => thread::sleep(SLEEP),
        }
    }
}

fn text(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or(payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("(a panic without text)").to_owned()
}
