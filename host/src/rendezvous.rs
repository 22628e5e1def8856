//! Where the PEs of a process meet: each gives a value and gets everybody's.
//!
//! Everything that PEs agree on (allocations, barriers) is computed by each of them from these values alone, so a
//! rendezvous over a network can take this one's place.

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often a PE that waits looks whether the others are held up.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) struct Rendezvous<V> {
    state: Mutex<State<V>>,
    changed: Condvar,
}

struct State<V> {
    /// How many rounds are complete.
    rounds: u64,
    /// What each PE gave for the round that is under way.
    given: Vec<Option<V>>,
    /// The last complete round. A second slot is not needed: the next round needs everyone who still reads this one.
    complete: Arc<[V]>,
    /// PEs that will come no more.
    ended: Vec<bool>,
}

/// Why a PE did not meet the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Missed {
    /// The World failed meanwhile.
    Failed,
    /// This PE has ended without coming.
    Ended(u32),
    /// These PEs did not come in time.
    TimeLimit(Vec<u32>),
}

/// What a meeting needs to know of the World.
pub(crate) trait Host {
    /// Nobody needs to be waited for any more.
    fn failed(&self) -> bool;

    /// How long a PE waits for others that nothing holds up.
    fn limit(&self) -> Option<Duration>;

    /// The PE waits for its device, which has a limit of its own.
    fn is_held_up(&self, pe: u32) -> bool;

    /// These PEs' threads are let go now, among them the one that calls.
    fn release(&self, pes: Range<u32>);
}

impl<V> Rendezvous<V> {
    pub(crate) fn new(n: u32) -> Self {
        let state = State {
            rounds: 0,
            given: (0..n).map(|_| None).collect(),
            complete: Arc::new([]),
            ended: vec![false; n as usize],
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<V>> {
        // No code runs under the lock that could leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a value and waits for those of all other PEs; returns them in the PEs' order.
    pub(crate) fn meet(&self, pe: u32, value: V, host: &impl Host) -> Result<Arc<[V]>, Missed> {
        let mut state = self.lock();
        let round = state.rounds;
        state.given[pe as usize] = Some(value);
        if state.given.iter().all(Option::is_some) {
            state.complete = state.given.iter_mut().filter_map(Option::take).collect();
            state.rounds += 1;
            // All of them, before the first: one that comes to its next wait must find the others running, the last to come
            // here too, although nobody lets that one go.
            host.release(0..state.given.len() as u32);
            self.changed.notify_all();
            return Ok(state.complete.clone());
        }
        let mut start = Instant::now();
        loop {
            if state.rounds != round {
                return Ok(state.complete.clone());
            }
            if host.failed() {
                return Err(Missed::Failed);
            }
            let absent = || {
                (0..)
                    .zip(&state.given)
                    .filter(|(_, given)| given.is_none())
                    .map(|(pe, _)| pe)
            };
            if let Some(pe) = absent().find(|&pe| state.ended[pe as usize]) {
                return Err(Missed::Ended(pe));
            }
            if absent().any(|pe| host.is_held_up(pe)) {
                start = Instant::now();
            }
            state = match host.limit().map(|limit| limit.saturating_sub(start.elapsed())) {
                Some(Duration::ZERO) => return Err(Missed::TimeLimit(absent().collect())),
                Some(left) => self
                    .changed
                    .wait_timeout(state, left.min(LOOK))
                    .map_or_else(|e| e.into_inner().0, |pair| pair.0),
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// This PE will come no more.
    pub(crate) fn end(&self, pe: u32) {
        self.lock().ended[pe as usize] = true;
        self.changed.notify_all();
    }

    /// Returns once every PE has ended.
    pub(crate) fn wait_for_end(&self) {
        let mut state = self.lock();
        while !state.ended.iter().all(|ended| *ended) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets everyone who waits look again whether the World has failed.
    pub(crate) fn wake(&self) {
        drop(self.lock());
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
    use std::thread;

    #[derive(Default)]
    struct Quiet {
        failed: AtomicBool,
        limit: Option<Duration>,
        /// How often PE 0 is still held up when somebody looks.
        held_up: AtomicU32,
        released: Mutex<Vec<u32>>,
        met: AtomicU32,
    }

    impl Host for Quiet {
        fn failed(&self) -> bool {
            self.failed.load(SeqCst)
        }

        fn limit(&self) -> Option<Duration> {
            self.limit
        }

        fn is_held_up(&self, pe: u32) -> bool {
            pe == 0 && self.held_up.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)).is_ok()
        }

        fn release(&self, pes: Range<u32>) {
            let mut released = self.released.lock().unwrap();
            released.extend(pes);
            assert_eq!(self.met.load(SeqCst), 0, "somebody has been let go already");
        }
    }

    #[test]
    fn everyone_is_released_before_anybody_is_let_go() {
        let meeting = Rendezvous::new(3);
        let host = Quiet::default();
        thread::scope(|s| {
            for pe in 0..3 {
                let (meeting, host) = (&meeting, &host);
                s.spawn(move || {
                    meeting.meet(pe, (), host).unwrap();
                    host.met.fetch_add(1, SeqCst);
                });
            }
        });
        assert_eq!(*host.released.lock().unwrap(), [0, 1, 2]);
    }

    #[test]
    fn everyone_gets_everyones_value_round_after_round() {
        let meeting = Rendezvous::new(5);
        thread::scope(|s| {
            for pe in 0..5u32 {
                let meeting = &meeting;
                s.spawn(move || {
                    for round in 0..200 {
                        let all = meeting.meet(pe, pe + round, &Quiet::default()).unwrap();
                        assert_eq!(*all, [round, round + 1, round + 2, round + 3, round + 4]);
                    }
                });
            }
        });
    }

    #[test]
    fn a_late_pe_is_named() {
        let meeting = Rendezvous::new(3);
        let host = Quiet {
            limit: Some(Duration::from_millis(20)),
            ..Quiet::default()
        };
        assert_eq!(meeting.meet(1, (), &host), Err(Missed::TimeLimit(vec![0, 2])));
    }

    #[test]
    fn a_pe_that_its_device_holds_up_is_waited_for() {
        let meeting = Rendezvous::new(2);
        let host = Quiet {
            limit: Some(Duration::from_millis(20)),
            held_up: 3.into(),
            ..Quiet::default()
        };
        let start = Instant::now();
        assert_eq!(meeting.meet(1, (), &host), Err(Missed::TimeLimit(vec![0])));
        assert!(start.elapsed() >= Duration::from_millis(60));
    }

    #[test]
    fn an_ended_pe_is_not_waited_for() {
        let meeting = Rendezvous::new(2);
        thread::scope(|s| {
            let waiting = s.spawn(|| meeting.meet(0, (), &Quiet::default()));
            meeting.end(1);
            assert_eq!(waiting.join().unwrap(), Err(Missed::Ended(1)));
        });
        meeting.end(0);
        meeting.wait_for_end();
    }

    #[test]
    fn a_failure_wakes_those_who_wait() {
        let meeting = Rendezvous::new(2);
        let host = Quiet::default();
        thread::scope(|s| {
            let waiting = s.spawn(|| meeting.meet(0, (), &host));
            thread::sleep(Duration::from_millis(10));
            host.failed.store(true, SeqCst);
            meeting.wake();
            assert_eq!(waiting.join().unwrap(), Err(Missed::Failed));
        });
    }
}
