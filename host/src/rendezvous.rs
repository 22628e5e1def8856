//! Where PEs meet: each gives a value and gets everybody's.
//!
//! Everything that PEs agree on (allocations, barriers) is computed by each of them from these values alone. PEs of one
//! process meet here. Where there are others, the last to come leaves the process's values for a thread that exchanges them
//! with the other processes ([`Rendezvous::serve`]), and all wait for what it brings.

use crate::layout::Layout;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often a PE that waits looks whether the others are held up.
const LOOK: Duration = Duration::from_millis(100);
/// How long a PE waits before it asks those of other machines what holds them up, and asks again.
const ASK: Duration = Duration::from_secs(1);

/// The same where the limit is short.
pub(crate) fn patience(limit: Option<Duration>) -> Duration {
    limit.map_or(ASK, |limit| ASK.min(limit / 4))
}

pub(crate) struct Rendezvous<V> {
    layout: Layout,
    state: Mutex<State<V>>,
    changed: Condvar,
}

struct State<V> {
    /// How many rounds are complete.
    rounds: u64,
    /// What each PE of this process gave for the round that is under way. One that is elsewhere may be a round ahead.
    given: Vec<VecDeque<V>>,
    /// The last complete round. A second slot is not needed: the next round needs everyone who still reads this one.
    complete: Arc<[V]>,
    /// PEs of this process that will come no more.
    ended: Vec<bool>,
    exchange: Exchange<V>,
}

/// How far this process has got with the others.
enum Exchange<V> {
    /// Not all PEs of this process have come.
    No,
    /// They have, and this is to be told.
    Due(Round<V>),
    UnderWay,
    /// This PE has ended in another process instead.
    Ended(u32),
    /// It broke.
    Lost(String),
    /// All PEs of all processes have ended.
    Over,
}

/// What a process tells the others: the values of its PEs, or None where all of them have ended.
pub(crate) type Round<V> = Option<Vec<V>>;

/// Why a PE did not meet the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Missed {
    /// The World failed meanwhile.
    Failed,
    /// This PE has ended without coming.
    Ended(u32),
    /// These PEs did not come in time.
    TimeLimit(Vec<u32>),
    /// The other processes can't be reached.
    Lost(String),
}

/// What a meeting needs to know of the World.
pub(crate) trait Host {
    /// Nobody needs to be waited for any more.
    fn failed(&self) -> bool;

    /// How long a PE waits for others that nothing holds up.
    fn limit(&self) -> Option<Duration>;

    /// The PE waits for its device, which has a limit of its own.
    fn is_held_up(&self, pe: u32) -> bool;

    /// These PEs have not come for some time: those of other machines are asked how far they are.
    fn ask(&self, absent: &[u32]);

    /// These PEs' threads are let go now, among them the one that calls.
    fn release(&self, pes: Range<u32>);

    /// The PE has come to so many rounds: other processes can tell who is missing.
    fn come(&self, pe: u32, rounds: u64);

    /// To how many rounds a PE of another process has come.
    fn came(&self, pe: u32) -> u64;
}

impl<V> State<V> {
    fn all_ended(&self) -> bool {
        self.ended.iter().all(|ended| *ended)
    }
}

impl<V> Rendezvous<V> {
    pub(crate) fn new(layout: Layout) -> Self {
        let local = layout.local().len();
        let state = State {
            rounds: 0,
            given: (0..local).map(|_| VecDeque::new()).collect(),
            complete: Arc::new([]),
            ended: vec![false; local],
            exchange: Exchange::No,
        };
        Self {
            layout,
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<V>> {
        // No code runs under the lock that could leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn index(&self, pe: u32) -> usize {
        (pe - self.layout.local().start) as usize
    }

    fn is_alone(&self) -> bool {
        self.layout.processes() == 1
    }

    /// Gives a value and waits for those of all other PEs; returns them in the PEs' order.
    pub(crate) fn meet(&self, pe: u32, value: V, host: &impl Host) -> Result<Arc<[V]>, Missed> {
        let mut state = self.lock();
        let round = state.rounds;
        host.come(pe, round + 1);
        self.give(&mut state, pe, value, host);
        let mut start = Instant::now();
        let since = start;
        let patience = patience(host.limit());
        loop {
            if state.rounds != round {
                return Ok(state.complete.clone());
            }
            if host.failed() {
                return Err(Missed::Failed);
            }
            match &state.exchange {
                Exchange::Ended(pe) => return Err(Missed::Ended(*pe)),
                Exchange::Lost(cause) => return Err(Missed::Lost(cause.clone())),
                _ => {}
            }
            // Once the exchange is due, the values of this process's PEs are on their way.
            let here = matches!(state.exchange, Exchange::No);
            let local = self.layout.local().zip(&state.given);
            let local = local.filter(|(_, given)| here && given.is_empty()).map(|(pe, _)| pe);
            if let Some(pe) = local.clone().find(|&pe| state.ended[self.index(pe)]) {
                return Err(Missed::Ended(pe));
            }
            let remote = self.layout.remote().filter(|&pe| host.came(pe) <= round);
            let mut absent: Vec<u32> = local.chain(remote).collect();
            absent.sort_unstable();
            if since.elapsed() >= patience {
                host.ask(&absent);
            }
            if absent.iter().any(|&pe| host.is_held_up(pe)) {
                start = Instant::now();
            }
            state = match host.limit().map(|limit| limit.saturating_sub(start.elapsed())) {
                Some(Duration::ZERO) => return Err(Missed::TimeLimit(absent)),
                Some(left) => self
                    .changed
                    .wait_timeout(state, left.min(LOOK))
                    .map_or_else(|e| e.into_inner().0, |pair| pair.0),
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// The value of a PE that is not here, which does not wait.
    pub(crate) fn bring(&self, pe: u32, value: V, host: &impl Host) {
        self.give(&mut self.lock(), pe, value, host);
    }

    fn give(&self, state: &mut State<V>, pe: u32, value: V, host: &impl Host) {
        state.given[self.index(pe)].push_back(value);
        if state.given.iter().any(VecDeque::is_empty) {
            return;
        }
        let all = state.given.iter_mut().filter_map(VecDeque::pop_front).collect();
        if self.is_alone() {
            self.complete(state, all, host);
        } else {
            state.exchange = Exchange::Due(Some(all));
            self.changed.notify_all();
        }
    }

    fn complete(&self, state: &mut State<V>, all: Vec<V>, host: &impl Host) {
        state.complete = all.into();
        state.rounds += 1;
        state.exchange = Exchange::No;
        // All of them, before the first: one that comes to its next wait must find the others running, the last to come
        // here too, although nobody lets that one go.
        host.release(self.layout.local());
        self.changed.notify_all();
    }

    /// Exchanges what the PEs of this process leave with other processes: `exchange` gives what this one has to tell and
    /// gets what each has. Returns when all PEs everywhere have ended, the World has failed, or the other processes can't be
    /// reached: then it is false.
    pub(crate) fn serve(&self, host: &impl Host, exchange: impl Fn(Round<V>) -> Result<Vec<Round<V>>, String>) -> bool {
        if self.is_alone() {
            return true;
        }
        let mut state = self.lock();
        while !host.failed() {
            match std::mem::replace(&mut state.exchange, Exchange::UnderWay) {
                Exchange::Due(mine) => {
                    let ending = mine.is_none();
                    drop(state);
                    let all = exchange(mine);
                    state = self.lock();
                    self.exchanged(&mut state, ending, all, host);
                }
                end @ (Exchange::Over | Exchange::Lost(_)) => {
                    let over = matches!(end, Exchange::Over);
                    state.exchange = end;
                    return over;
                }
                other => {
                    state.exchange = other;
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
        true
    }

    fn exchanged(&self, state: &mut State<V>, ending: bool, all: Result<Vec<Round<V>>, String>, host: &impl Host) {
        let ended = |all: &[Round<V>]| (0..).zip(all).find(|(_, round)| round.is_none()).map(|(rank, _)| rank);
        let fits = |all: &[Round<V>]| {
            let expected = (0..self.layout.processes()).map(|rank| self.layout.of_rank(rank).len());
            let has = all.iter().map(|round| round.as_ref().map(Vec::len));
            expected
                .zip(has)
                .all(|(expected, has)| has.is_none_or(|has| has == expected))
                && all.len() == self.layout.processes() as usize
        };
        match all {
            Err(cause) => state.exchange = Exchange::Lost(cause),
            Ok(all) if !fits(&all) => {
                state.exchange = Exchange::Lost("a process told of other PEs than it has".to_owned());
            }
            Ok(all) if ending => {
                // Where others wait for PEs that have ended, they fail, and that ends this.
                let over = all.iter().all(Option::is_none);
                state.exchange = if over { Exchange::Over } else { Exchange::UnderWay };
            }
            Ok(all) => match ended(&all) {
                Some(rank) => state.exchange = Exchange::Ended(self.layout.of_rank(rank).start),
                None => return self.complete(state, all.into_iter().flatten().flatten().collect(), host),
            },
        }
        self.changed.notify_all();
    }

    /// This PE will come no more.
    pub(crate) fn end(&self, pe: u32) {
        let mut state = self.lock();
        let index = self.index(pe);
        state.ended[index] = true;
        if !self.is_alone() && state.all_ended() && matches!(state.exchange, Exchange::No) {
            state.exchange = Exchange::Due(None);
        }
        self.changed.notify_all();
    }

    /// Returns once every PE has ended; in a World that has failed, every PE of this process.
    pub(crate) fn wait_for_end(&self, host: &impl Host) {
        let mut state = self.lock();
        loop {
            let over = matches!(state.exchange, Exchange::Over | Exchange::Lost(_));
            if state.all_ended() && (over || self.is_alone() || host.failed()) {
                return;
            }
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

        fn come(&self, _: u32, _: u64) {}

        fn came(&self, _: u32) -> u64 {
            0
        }

        fn ask(&self, _: &[u32]) {}
    }

    #[test]
    fn everyone_is_released_before_anybody_is_let_go() {
        let meeting = Rendezvous::new(Layout::alone(3));
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

    /// Two processes of two PEs each, in threads: `work` for each PE, with its process's part.
    fn in_two_processes(work: impl Fn(u32, &Rendezvous<u32>, &Quiet) + Sync) {
        let between = Rendezvous::<Round<u32>>::new(Layout::alone(2));
        let parts = [0, 1].map(|rank| Rendezvous::new(Layout::new(rank, [2, 2])));
        let host = Quiet::default();
        thread::scope(|s| {
            for pe in 0..4 {
                let (part, parts, work, host) = (&parts[pe as usize / 2], &parts, &work, &host);
                s.spawn(move || {
                    work(pe, part, host);
                    parts.iter().for_each(Rendezvous::wake);
                    part.end(pe);
                    part.wait_for_end(host);
                });
            }
            for (rank, part) in (0..).zip(&parts) {
                let (between, host) = (&between, &host);
                s.spawn(move || {
                    part.serve(host, |mine| {
                        Ok(between.meet(rank, mine, &Quiet::default()).unwrap().to_vec())
                    });
                });
            }
        });
    }

    #[test]
    fn processes_meet_as_pes_do() {
        in_two_processes(|pe, part, host| {
            for round in 0..100 {
                let all = part.meet(pe, 10 * round + pe, host).unwrap();
                assert_eq!(*all, [0, 1, 2, 3].map(|pe| 10 * round + pe));
            }
        });
    }

    #[test]
    fn a_process_that_has_ended_is_not_waited_for() {
        in_two_processes(|pe, part, host| {
            if pe == 0 {
                assert_eq!(part.meet(pe, 0, host), Err(Missed::Ended(2)));
                // What a session does with such an error.
                host.failed.store(true, SeqCst);
            } else if pe == 1 {
                let missed = part.meet(pe, 0, host);
                assert!(matches!(missed, Err(Missed::Ended(2) | Missed::Failed)), "{missed:?}");
            }
        });
    }

    #[test]
    fn nothing_waits_for_processes_that_are_lost() {
        let (part, host) = (Rendezvous::<u32>::new(Layout::new(0, [1, 1])), Quiet::default());
        thread::scope(|s| {
            let serving = s.spawn(|| part.serve(&host, |_| Err("gone".to_owned())));
            // It ends well, the others do not.
            part.end(0);
            part.wait_for_end(&host);
            assert!(!serving.join().unwrap());
        });
    }

    #[test]
    fn everyone_gets_everyones_value_round_after_round() {
        let meeting = Rendezvous::new(Layout::alone(5));
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
    fn one_that_is_elsewhere_may_be_a_round_ahead() {
        let (meeting, host) = (Rendezvous::new(Layout::alone(2)), Quiet::default());
        meeting.bring(1, 10, &host);
        meeting.bring(1, 11, &host);
        assert_eq!(*meeting.meet(0, 0, &host).unwrap(), [0, 10]);
        assert_eq!(*meeting.meet(0, 1, &host).unwrap(), [1, 11]);
        thread::scope(|s| {
            let waiting = s.spawn(|| meeting.meet(0, 2, &host));
            meeting.bring(1, 12, &host);
            assert_eq!(*waiting.join().unwrap().unwrap(), [2, 12]);
        });
    }

    #[test]
    fn a_late_pe_is_named() {
        let meeting = Rendezvous::new(Layout::alone(3));
        let host = Quiet {
            limit: Some(Duration::from_millis(20)),
            ..Quiet::default()
        };
        assert_eq!(meeting.meet(1, (), &host), Err(Missed::TimeLimit(vec![0, 2])));
    }

    #[test]
    fn a_pe_that_its_device_holds_up_is_waited_for() {
        let meeting = Rendezvous::new(Layout::alone(2));
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
        let meeting = Rendezvous::new(Layout::alone(2));
        thread::scope(|s| {
            let waiting = s.spawn(|| meeting.meet(0, (), &Quiet::default()));
            meeting.end(1);
            assert_eq!(waiting.join().unwrap(), Err(Missed::Ended(1)));
        });
        meeting.end(0);
        meeting.wait_for_end(&Quiet::default());
    }

    #[test]
    fn a_failure_wakes_those_who_wait() {
        let meeting = Rendezvous::new(Layout::alone(2));
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
