//! Where host threads and the simulator's thread meet: launches are handed in, finished streams are handed out.
//!
//! Lanes run while every host thread is blocked, has ended, or has kept the simulator waiting for [`PATIENCE`]: then what
//! the lanes find does not depend on how fast the hosts are, and a run can be replayed from its seed.

use crate::check::{HostAccess, HostEvent};
use crate::config::Config;
use crate::failure::Failure;
use crate::hosts::{Doing, Gangs, Host};
use crate::kernel::KernelJob;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long the simulator waits for a host thread to block before it runs lanes beside it.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);

pub(crate) struct Desk {
    state: Mutex<State>,
    simulator: Condvar,
    hosts: Box<[Condvar]>,
    /// Something is new for the simulator; looked at between lanes, without the lock.
    news: AtomicBool,
    /// Network adapters carry operations, on after kernels have ended.
    adapters: bool,
}

struct State {
    orders: Vec<Order>,
    /// What hosts have done that the checker has to know; None where nothing is checked.
    events: Option<Vec<HostEvent>>,
    /// How many there were so far, and how many the simulator has looked at.
    noted: u64,
    looked_at: u64,
    hosts: Box<[Host]>,
    gangs: Gangs,
    /// A failure that a host has told; it becomes `failure` once all lanes have ended.
    told: Option<Failure>,
    failure: Option<Failure>,
    shutdown: bool,
    switches: u64,
    /// Simulated, when a job last ended.
    time_ns: u64,
}

impl State {
    fn note(&mut self, event: impl FnOnce() -> HostEvent) {
        if let Some(events) = &mut self.events {
            events.push(event());
            self.noted += 1;
        }
    }
}

/// A job on its way to its stream.
pub(crate) struct Order {
    pub(crate) pe: u32,
    pub(crate) stream: u32,
    pub(crate) job: KernelJob,
    /// The how-manieth collective (or plain) launch of its PE it is.
    pub(crate) number: u64,
}

/// What the simulator finds at the desk.
#[derive(Default)]
pub(crate) struct News {
    pub(crate) orders: Vec<Order>,
    pub(crate) events: Vec<HostEvent>,
    /// How many there were so far, these among them.
    pub(crate) noted: u64,
    pub(crate) told: Option<Failure>,
    pub(crate) shutdown: bool,
    /// A host does other things, and is no longer waited for: lanes that run now run beside it.
    pub(crate) host_away: bool,
}

/// The host's side.
impl Desk {
    /// The hosts of PEs that are not local are in other processes. Where accesses are checked, what hosts do is told.
    pub(crate) fn new(config: &Config) -> Self {
        let (pes, local, checked) = (config.pes, config.local(), config.checked());
        Self {
            adapters: config.has_adapters(),
            state: Mutex::new(State {
                orders: Vec::new(),
                events: checked.then(Vec::new),
                noted: 0,
                looked_at: 0,
                hosts: (0..pes)
                    .map(|pe| {
                        if local.contains(&pe) {
                            Host::new()
                        } else {
                            Host::elsewhere()
                        }
                    })
                    .collect(),
                gangs: Gangs::new(local.len() as u32),
                told: None,
                failure: None,
                shutdown: false,
                switches: 0,
                time_ns: 0,
            }),
            simulator: Condvar::new(),
            hosts: (0..pes).map(|_| Condvar::new()).collect(),
            news: AtomicBool::new(false),
        }
    }

    /// A host thread that panics with the lock held leaves a state that is whole: each change is one step.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// With the lock held, so that a simulator that is about to sleep does not miss it.
    fn tell_simulator(&self, _held: &State) {
        self.news.store(true, Ordering::Release);
        self.simulator.notify_one();
    }

    pub(crate) fn add_stream(&self, pe: u32) -> u32 {
        self.lock().hosts[pe as usize].add_stream()
    }

    pub(crate) fn submit(&self, pe: u32, stream: u32, job: KernelJob) -> Result<(), Failure> {
        job.kernel().check()?;
        let mut state = self.lock();
        if let Some(failure) = &state.failure {
            return Err(failure.seen_by(pe));
        }
        let State { hosts, gangs, .. } = &mut *state;
        let host = &mut hosts[pe as usize];
        host.check_stream(pe, stream)?;
        if job.collective
            && let Err(failure) = gangs.join(host.collectives(), pe, job.kernel())
        {
            return Err(self.tell(state, failure).seen_by(pe));
        }
        state.note(|| HostEvent::Launched { pe, stream });
        let host = &mut state.hosts[pe as usize];
        let was_late = host.is_late();
        let number = host.submit(stream, job.collective);
        state.orders.push(Order {
            pe,
            stream,
            job,
            number,
        });
        // A simulator that waits for this host to block need not wake for each launch before that.
        if was_late {
            self.tell_simulator(&state);
        } else {
            self.news.store(true, Ordering::Release);
        }
        Ok(())
    }

    pub(crate) fn wait(&self, pe: u32, stream: u32) -> Result<(), Failure> {
        let mut state = self.lock();
        state.hosts[pe as usize].check_stream(pe, stream)?;
        state.hosts[pe as usize].wait(stream);
        self.tell_simulator(&state);
        while !state.hosts[pe as usize].drained(stream) {
            state = self.hosts[pe as usize]
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.hosts[pe as usize].waited(stream);
        state.note(|| HostEvent::Waited { pe, stream });
        match &state.failure {
            Some(failure) => Err(failure.seen_by(pe)),
            None => Ok(()),
        }
    }

    /// The host enters a collective of its own.
    pub(crate) fn block(&self, pe: u32) {
        let mut state = self.lock();
        state.hosts[pe as usize].block();
        self.tell_simulator(&state);
    }

    /// The host comes out of a collective, or will as soon as its thread gets to run.
    pub(crate) fn unblock(&self, pe: u32) {
        let mut state = self.lock();
        state.hosts[pe as usize].unblock();
        self.tell_simulator(&state);
    }

    /// These hosts have met, and come out of it.
    pub(crate) fn met(&self, pes: &[u32]) {
        let mut state = self.lock();
        state.note(|| HostEvent::Met(pes.to_vec()));
        for &pe in pes {
            state.hosts[pe as usize].unblock();
        }
        self.tell_simulator(&state);
    }

    /// The host has seen what it launched on the stream go by, without waiting for it.
    pub(crate) fn passed(&self, pe: u32, stream: u32) {
        self.lock().note(|| HostEvent::Waited { pe, stream });
    }

    /// A host reads or writes memory. What is wrong with it is found when the simulator goes on.
    pub(crate) fn access(&self, access: HostAccess) {
        self.lock().note(|| HostEvent::Access(access));
    }

    /// Memory is given out anew.
    pub(crate) fn reused(&self, address: u64, bytes: u64) {
        self.lock().note(|| HostEvent::Reused { address, bytes });
    }

    /// Waits until everything that hosts have done so far has been looked at. Returns why the world has failed, if it has.
    pub(crate) fn settle(&self, pe: u32) -> Option<Failure> {
        let mut state = self.lock();
        if self.adapters {
            // What they do last is looked at as well.
            state.noted += 1;
        } else if state.events.is_none() || state.noted == state.looked_at {
            return state.failure.clone();
        }
        state.hosts[pe as usize].block();
        self.tell_simulator(&state);
        let upto = state.noted;
        while state.failure.is_none() && state.looked_at < upto {
            state = self.hosts[pe as usize]
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.hosts[pe as usize].unblock();
        state.failure.clone()
    }

    pub(crate) fn detach(&self, pe: u32) {
        let mut state = self.lock();
        state.hosts[pe as usize].detach();
        self.tell_simulator(&state);
    }

    /// Fails the world from a host thread. Returns when no lane runs any more, with the world's failure.
    pub(crate) fn fail(&self, failure: Failure) -> Failure {
        self.tell(self.lock(), failure)
    }

    fn tell(&self, mut state: MutexGuard<'_, State>, failure: Failure) -> Failure {
        state.told.get_or_insert(failure);
        self.tell_simulator(&state);
        loop {
            if let Some(failure) = &state.failure {
                return failure.clone();
            }
            state = self.hosts[0].wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn failure(&self) -> Option<Failure> {
        self.lock().failure.clone()
    }

    pub(crate) fn switches(&self) -> u64 {
        self.lock().switches
    }

    pub(crate) fn time_ns(&self) -> u64 {
        self.lock().time_ns
    }

    pub(crate) fn shut_down(&self) {
        let mut state = self.lock();
        state.shutdown = true;
        self.tell_simulator(&state);
    }
}

/// The simulator's side.
impl Desk {
    pub(crate) fn has_news(&self) -> bool {
        self.news.load(Ordering::Acquire)
    }

    /// Waits for the hosts to block, within limits, and takes what they have left.
    pub(crate) fn take_news(&self) -> News {
        let mut state = self.lock();
        let until = Instant::now() + PATIENCE;
        while !state.shutdown && state.told.is_none() && state.hosts.iter().any(Host::keeps_waiting) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.hosts.iter_mut().for_each(Host::lose_patience);
                break;
            }
            state = self
                .simulator
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        self.news.store(false, Ordering::Release);
        let mut orders = std::mem::take(&mut state.orders);
        // Which host came first is chance.
        orders.sort_by_key(|order| order.pe);
        News {
            orders,
            events: state.events.as_mut().map(std::mem::take).unwrap_or_default(),
            noted: state.noted,
            told: state.told.take(),
            shutdown: state.shutdown,
            host_away: state.hosts.iter().any(Host::is_away),
        }
    }

    /// Of the things that hosts have done, so many have been looked at.
    pub(crate) fn looked_at(&self, noted: u64) {
        let mut state = self.lock();
        if state.looked_at < noted {
            state.looked_at = noted;
            self.hosts.iter().for_each(Condvar::notify_all);
        }
    }

    /// Waits for news, at most this long.
    pub(crate) fn sleep(&self, limit: Option<Duration>) {
        let state = self.lock();
        let idle = |_: &mut State| !self.has_news();
        match limit {
            None => drop(self.simulator.wait_while(state, idle)),
            Some(limit) => drop(self.simulator.wait_timeout_while(state, limit, idle)),
        }
    }

    /// A job of this stream has ended.
    pub(crate) fn job_done(&self, pe: u32, stream: u32, switches: u64, time_ns: u64) {
        let mut state = self.lock();
        (state.switches, state.time_ns) = (switches, time_ns);
        if state.hosts[pe as usize].job_done(stream) {
            self.hosts[pe as usize].notify_all();
        }
    }

    /// What each host thread does.
    pub(crate) fn hosts(&self) -> Vec<Doing> {
        self.lock().hosts.iter().map(Host::doing).collect()
    }

    /// Tells all hosts that the world has failed; no lane runs any more.
    pub(crate) fn publish(&self, failure: Failure) {
        let mut state = self.lock();
        state.failure.get_or_insert(failure);
        state.orders.clear();
        state.hosts.iter_mut().for_each(Host::drain);
        for host in &self.hosts {
            host.notify_all();
        }
    }
}
