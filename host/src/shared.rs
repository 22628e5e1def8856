//! What the PEs of one World share: the platform, where they meet, and the first failure.

use crate::Error;
use crate::backend::Platform;
use crate::collective::Turn;
use crate::meetings::Meetings;
use crate::post::Letter;
use crate::processes::Group;
use crate::rendezvous::{Host, Rendezvous, patience};
use shmem::Serial;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// In which a failure is known everywhere.
pub(crate) const NEWS: Duration = Duration::from_secs(1);
/// How often a process looks how the others are.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// Worlds made so far.
static WORLDS: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Shared {
    pub(crate) platform: Arc<dyn Platform>,
    pub(crate) rendezvous: Rendezvous<Turn>,
    /// Of teams.
    pub(crate) meetings: Meetings,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) group: Group,
    failure: OnceLock<Failure>,
    /// When processes of other machines were last asked how far they are.
    asked: Mutex<Option<Instant>>,
}

/// The first failure: all others follow from it, or came too late to matter.
pub(crate) struct Failure {
    pub(crate) pe: u32,
    pub(crate) cause: String,
}

impl Shared {
    pub(crate) fn new(platform: Arc<dyn Platform>, group: Group, time_limit: Option<Duration>) -> Self {
        WORLDS.fetch_max(group.world, Ordering::Relaxed);
        Self {
            platform,
            rendezvous: Rendezvous::new(group.layout.clone()),
            meetings: Meetings::default(),
            time_limit,
            group,
            failure: OnceLock::new(),
            asked: Mutex::default(),
        }
    }

    /// The number of the next World of this process, from 1, unless another process needs a higher one.
    pub(crate) fn next_world() -> u32 {
        WORLDS.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// PEs of the World.
    pub(crate) fn pes(&self) -> u32 {
        self.group.layout.pes()
    }

    /// Allocation `number` of this World.
    pub(crate) fn serial(&self, number: u64) -> Serial {
        Serial::new(self.group.world, number)
    }

    /// Fails the World, unless it has failed already: kernels stop waiting, threads that wait wake up, other processes do the
    /// same.
    pub(crate) fn fail(&self, pe: u32, cause: String) {
        if self.fail_here(pe, cause)
            && let Some(failure) = self.failure.get()
        {
            self.group.tell(failure.pe, &failure.cause);
        }
    }

    /// As [`learn_failure`](Self::learn_failure), for somebody who has lost the others: the news may be on their way.
    pub(crate) fn await_failure(&self) -> bool {
        let start = Instant::now();
        while !self.learn_failure() && start.elapsed() < NEWS {
            thread::sleep(LOOK);
        }
        self.failed()
    }

    /// Takes over what another process has failed with, if one has. True where the World has failed.
    pub(crate) fn learn_failure(&self) -> bool {
        if let Some((pe, cause)) = self.group.failure() {
            self.fail_here(pe, cause);
        }
        self.failed()
    }

    /// True where this was the first failure.
    fn fail_here(&self, pe: u32, cause: String) -> bool {
        let mut first = false;
        let failure = self.failure.get_or_init(|| {
            first = true;
            Failure { pe, cause }
        });
        if first {
            tracing::warn!(pe = failure.pe, cause = failure.cause, "the World has failed");
            self.platform.abort(failure.pe, &failure.cause);
            self.rendezvous.wake();
            self.meetings.wake();
        }
        first
    }

    /// This PE will come to no meeting any more.
    pub(crate) fn end(&self, pe: u32) {
        self.meetings.end(pe);
        // In a World that has failed nobody waits for it.
        if let Some(post) = self.group.post().filter(|_| !self.failed()) {
            let layout = &self.group.layout;
            let others = (0..layout.processes()).filter(|&rank| layout.of_rank(rank) != layout.local());
            // One that takes no letters has ended, which its connection tells.
            let _ = post.send(&Letter::End { pe }, others, &|| self.failed());
        }
        self.rendezvous.end(pe);
    }

    /// Runs a wait of the PE for its device.
    pub(crate) fn hold_up<T>(&self, pe: u32, wait: impl FnOnce() -> T) -> T {
        self.group.board.hold_up(pe, true);
        let result = wait();
        self.group.board.hold_up(pe, false);
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
        self.group.board.is_held_up(pe)
    }

    fn come(&self, pe: u32, rounds: u64) {
        self.group.board.come(pe, rounds);
    }

    fn came(&self, pe: u32) -> u64 {
        self.group.board.came(pe)
    }

    fn ask(&self, absent: &[u32]) {
        let layout = &self.group.layout;
        let mut far: Vec<_> = absent
            .iter()
            .map(|&pe| layout.rank_of(pe))
            .filter(|&rank| !layout.is_near(rank))
            .collect();
        far.sort_unstable();
        far.dedup();
        let Some(post) = self.group.post().filter(|_| !far.is_empty()) else {
            return;
        };
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.is_some_and(|asked| asked.elapsed() < patience(self.limit())) {
            return;
        }
        *asked = Some(Instant::now());
        let rank = layout.rank();
        // Without an answer the limit decides.
        let _ = post.send(&Letter::Ask { rank }, far, &|| self.failed());
    }

    fn release(&self, mut pes: Range<u32>) {
        self.platform.release(&mut pes);
    }
}
