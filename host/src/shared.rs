//! What the PEs of one World share: the platform, where they meet, and the first failure.

use crate::Error;
use crate::backend::Platform;
use crate::collective::Turn;
use crate::rendezvous::{Host, Rendezvous};
use shmem::Serial;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Worlds made so far.
static WORLDS: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Shared {
    pub(crate) platform: Arc<dyn Platform>,
    pub(crate) rendezvous: Rendezvous<Turn>,
    pub(crate) time_limit: Option<Duration>,
    /// Which World of this process, from 1: handles of others are told apart by it.
    world: u32,
    failure: OnceLock<Failure>,
    /// Which PEs wait for their devices.
    held_up: Box<[AtomicBool]>,
}

/// The first failure: all others follow from it, or came too late to matter.
pub(crate) struct Failure {
    pub(crate) pe: u32,
    pub(crate) cause: String,
}

impl Shared {
    pub(crate) fn new(platform: Arc<dyn Platform>, time_limit: Option<Duration>) -> Self {
        let rendezvous = Rendezvous::new(platform.pes());
        let held_up = (0..platform.pes()).map(|_| AtomicBool::new(false)).collect();
        Self {
            platform,
            rendezvous,
            time_limit,
            world: WORLDS.fetch_add(1, Ordering::Relaxed) + 1,
            failure: OnceLock::new(),
            held_up,
        }
    }

    /// Allocation `number` of this World.
    pub(crate) fn serial(&self, number: u64) -> Serial {
        Serial::new(self.world, number)
    }

    /// Fails the World, unless it has failed already: kernels stop waiting, threads that wait wake up.
    pub(crate) fn fail(&self, pe: u32, cause: String) {
        let mut first = false;
        let failure = self.failure.get_or_init(|| {
            first = true;
            Failure { pe, cause }
        });
        if first {
            tracing::warn!(pe = failure.pe, cause = failure.cause, "the World has failed");
            self.platform.abort(failure.pe, &failure.cause);
            self.rendezvous.wake();
        }
    }

    /// Runs a wait of the PE for its device.
    pub(crate) fn hold_up<T>(&self, pe: u32, wait: impl FnOnce() -> T) -> T {
        let held_up = &self.held_up[pe as usize];
        held_up.store(true, Ordering::Relaxed);
        let result = wait();
        held_up.store(false, Ordering::Relaxed);
        result
    }

    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.failure.get()
    }

    pub(crate) fn failed(&self) -> bool {
        self.failure.get().is_some()
    }

    /// What a PE returns because another one failed first.
    pub(crate) fn peer_failed(&self) -> Option<Error> {
        self.failure.get().map(|first| Error::PeerFailed {
            pe: first.pe,
            cause: first.cause.clone(),
        })
    }
}

impl Host for Shared {
    fn failed(&self) -> bool {
        self.failed()
    }

    fn limit(&self) -> Option<Duration> {
        self.time_limit
    }

    fn is_held_up(&self, pe: u32) -> bool {
        self.held_up[pe as usize].load(Ordering::Relaxed)
    }

    fn release(&self, mut pes: Range<u32>) {
        self.platform.release(&mut pes);
    }
}
