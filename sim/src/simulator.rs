//! The simulator's thread: starts what is at the head of the streams, runs lanes, and finds out when nothing can go on.

use crate::adapters::Adapters;
use crate::check::HostEvent;
use crate::desk::{Desk, News, Order};
use crate::failure::Failure;
use crate::hosts::Doing;
use crate::launch::{Launch, Poll};
use crate::report::{Report, numbers};
use crate::world::World;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rounds over all launches between two looks at the processor's clock.
const CLOCK_ROUNDS: u32 = 8;
/// Looks that closures get before they count as stuck: one may give up by itself after some tries.
const PATIENT_POLLS: u32 = 1 << 16;
/// How long a host may stay in a host collective that others have left before it counts as waiting there.
const COLLECTIVE_EXIT: Duration = Duration::from_secs(1);
/// Between two looks at lanes that wait for something that a host may write.
const IDLE_LOOKS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(16));

/// Between two looks at lanes that wait for something that another process may write.
const PEER_LOOKS: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(2));

/// Labels of the random sequences.
const PLAIN: u64 = 0;
const COLLECTIVE: u64 = 1;

#[derive(Default)]
struct Stream {
    queue: VecDeque<Order>,
    /// Its head has been taken off the queue and runs.
    running: bool,
}

pub(crate) struct Simulator {
    world: Rc<World>,
    desk: Arc<Desk>,
    limit: Option<Duration>,
    /// By PE and number.
    streams: BTreeMap<(u32, u32), Stream>,
    launches: Vec<Launch>,
    /// Rounds in which lanes ran, over all of its life: a world may go on by one round at a time.
    rounds: u32,
    /// Since when someone has been waiting for a host.
    kept_since: Option<Instant>,
    next_look: Duration,
}

impl Simulator {
    pub(crate) fn new(world: World, desk: Arc<Desk>, limit: Option<Duration>) -> Self {
        Self {
            world: Rc::new(world),
            desk,
            limit,
            streams: BTreeMap::new(),
            launches: Vec::new(),
            rounds: 0,
            kept_since: None,
            next_look: Duration::ZERO,
        }
    }

    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    /// Runs what is at the desk to its end, for hosts that have ended. A failure is published.
    pub(crate) fn run_through(&mut self) {
        let News { orders, events, .. } = self.desk.take_news();
        self.look_at(events);
        self.accept(orders);
        while self.world.failure().is_none() && !self.has_ended() {
            self.start();
            if !self.advance() {
                self.idle();
            }
        }
        if self.world.failure().is_none() {
            self.world.adapters_do(Adapters::drain);
        }
        self.end_lanes();
        self.write_timeline();
        if let Some(failure) = self.world.failure().cloned() {
            self.desk.publish(failure);
        }
    }

    fn has_ended(&self) -> bool {
        self.launches.is_empty() && self.streams.values().all(|stream| stream.queue.is_empty())
    }

    /// Serves the desk until the world is dropped.
    pub(crate) fn run(&mut self) {
        loop {
            let news = self.desk.take_news();
            if news.shutdown {
                break;
            }
            // What a host has done before it failed may be why.
            self.look_at(news.events);
            if let Some(failure) = news.told {
                self.world.fail(failure);
            }
            self.accept(news.orders);
            if self.world.failure().is_none() && self.has_ended() {
                self.world.adapters_do(Adapters::drain);
            }
            if self.world.failure().is_none() {
                self.desk.looked_at(news.noted);
            }
            if self.world.failure().is_none() {
                self.start();
                let switches = self.world.switches();
                let advanced = self.advance();
                if news.host_away && self.world.switches() != switches {
                    self.world.lose_repeatability();
                }
                if advanced {
                    self.kept_since = None;
                    self.next_look = Duration::ZERO;
                } else {
                    self.idle();
                }
            }
            if let Some(failure) = self.world.failure().cloned() {
                self.end_lanes();
                self.write_timeline();
                self.desk.publish(failure);
                self.desk.sleep(None);
            }
        }
        self.end_lanes();
        self.write_timeline();
    }

    /// Tells the checker what hosts have done.
    fn look_at(&self, events: Vec<HostEvent>) {
        if let Some(check) = &self.world.check {
            check.hosts_did(events);
        }
    }

    fn write_timeline(&self) {
        if let Some(timeline) = &self.world.timeline {
            timeline.write();
        }
    }

    fn accept(&mut self, orders: Vec<Order>) {
        if !orders.is_empty() {
            self.kept_since = None;
        }
        for order in orders {
            self.streams
                .entry((order.pe, order.stream))
                .or_default()
                .queue
                .push_back(order);
        }
    }

    /// Starts plain launches at the head of their streams, and collective ones that are at the head on every PE.
    fn start(&mut self) {
        let mut gangs: BTreeMap<u64, Vec<(u32, u32)>> = BTreeMap::new();
        let mut starting = Vec::new();
        for (&at, stream) in self.streams.iter().filter(|(_, stream)| !stream.running) {
            match stream.queue.front() {
                Some(order) if order.job.collective => gangs.entry(order.number).or_default().push(at),
                Some(order) => starting.push((vec![at], vec![PLAIN, order.pe.into(), order.number])),
                None => {}
            }
        }
        let complete = gangs
            .into_iter()
            .filter(|(_, heads)| heads.len() == self.world.local().len());
        starting.extend(complete.map(|(number, heads)| (heads, vec![COLLECTIVE, number])));
        for (heads, labels) in starting {
            let jobs = heads.iter().filter_map(|at| {
                let stream = self.streams.get_mut(at)?;
                stream.running = true;
                stream.queue.pop_front()
            });
            let jobs = jobs.collect();
            self.launches.push(Launch::new(&self.world, jobs, &labels));
            self.tell_lanes();
        }
    }

    fn tell_lanes(&self) {
        let lanes: u64 = self.launches.iter().map(Launch::lanes).sum();
        self.world.net.set_lanes(lanes.min(u32::MAX.into()) as u32);
    }

    /// Runs lanes until a stream moves on, a host has news, or nothing can run; false where nothing has come of it.
    fn advance(&mut self) -> bool {
        let mut any = false;
        loop {
            let mut ran = false;
            for launch in &self.launches {
                ran |= launch.run_slice();
                if self.world.failure().is_some() {
                    return true;
                }
            }
            // Time goes on by itself where nobody runs.
            if !ran {
                // Between launches adapters wait, so that what hosts find does not depend on their speed.
                ran = self.world.net.skip() || !self.launches.is_empty() && self.world.adapters_do(Adapters::go_on);
                // What lands last may be what was wrong.
                if self.world.failure().is_some() {
                    return true;
                }
            }
            let moved = self.retire();
            any |= ran || moved;
            if ran {
                self.look_at_clock();
            }
            if moved || !ran || self.world.failure().is_some() || self.desk.has_news() {
                break;
            }
        }
        any
    }

    /// Ends a launch that has run for too long. Looks at the processor's clock now and then.
    fn look_at_clock(&mut self) {
        self.rounds = self.rounds.wrapping_add(1);
        if self.rounds.is_multiple_of(CLOCK_ROUNDS) {
            if self.world.has_others() {
                self.world.memory.expect_changes();
            }
            if self.over_limit(Launch::ran) {
                self.fail_by_limit("is still running");
            }
        }
    }

    /// Moves on the streams whose launch has ended. Hosts that wait for one of them run from here on.
    fn retire(&mut self) -> bool {
        let mut moved = false;
        for launch in &self.launches {
            launch.take_ended(|part| {
                moved = true;
                if let Some(stream) = self.streams.get_mut(&(part.pe, part.stream)) {
                    stream.running = false;
                }
                self.desk
                    .job_done(part.pe, part.stream, self.world.switches(), self.world.time_ns());
            });
        }
        if moved {
            self.launches
                .retain(|launch| launch.parts.iter().any(|part| !part.over()));
            self.tell_lanes();
        }
        moved
    }

    /// No lane is ready: waits for a host, or finds that nothing can ever go on.
    fn idle(&mut self) {
        if self.launches.is_empty() && self.world.adapters_do(Adapters::drain) {
            return;
        }
        if self.has_ended() {
            self.desk.sleep(None);
            return;
        }
        let hosts = self.desk.hosts();
        let may_come = hosts.contains(&Doing::Runs);
        let patient = !may_come && !self.world.has_others();
        let poll = self.poll(if patient { PATIENT_POLLS } else { 1 });
        if self.world.failure().is_some() {
            return;
        }
        if poll.progress {
            if may_come {
                self.world.lose_repeatability();
            }
            // Closures that make no more progress than this, such as to a sync, may never come true.
            self.look_at_clock();
            return;
        }
        if poll.reads_clock {
            if self.over_limit(Launch::ran) {
                self.fail_by_limit("waits for the clock");
            }
        } else if may_come {
            self.await_hosts(&hosts);
        } else if self.world.has_others() {
            self.await_peers(&hosts);
        } else {
            if hosts.contains(&Doing::InCollective) {
                self.desk.sleep(Some(COLLECTIVE_EXIT));
            }
            if !self.desk.has_news() {
                let report = self.report("deadlock: no lane can run and nothing is in flight", &hosts);
                self.world.fail(Failure::Deadlock { report });
            }
        }
    }

    /// Lets paused lanes look again until one goes on, or closures have looked `patience` times in all.
    fn poll(&self, patience: u32) -> Poll {
        let mut sum = Poll::default();
        loop {
            let before = sum.closures;
            for launch in &self.launches {
                let poll = launch.poll();
                sum.progress |= poll.progress;
                sum.reads_clock |= poll.reads_clock;
                sum.closures += poll.closures;
                if self.world.failure().is_some() {
                    return sum;
                }
            }
            if sum.progress || sum.reads_clock || sum.closures == before || sum.closures >= patience {
                return sum;
            }
        }
    }

    fn await_hosts(&mut self, hosts: &[Doing]) {
        let now = Instant::now();
        let someone_waits = hosts
            .iter()
            .any(|doing| matches!(doing, Doing::WaitsFor(_) | Doing::InCollective));
        let since = someone_waits.then(|| self.kept_since.unwrap_or(now));
        self.kept_since = since;
        if let (Some(limit), Some(since)) = (self.limit, since)
            && since.elapsed() >= limit
        {
            let late = (0..)
                .zip(hosts)
                .filter(|(_, doing)| **doing == Doing::Runs)
                .map(|(pe, _)| pe);
            let heading = format!(
                "time limit of {limit:?}: everything waits for the host of {}, which neither waits nor has ended",
                numbers("PE", late)
            );
            self.fail_by_report(&heading, hosts);
            return;
        }
        let left = self
            .limit
            .zip(since)
            .map(|(limit, since)| limit.saturating_sub(since.elapsed()));
        // A lane that waits for a word may wait for a host to write it, which is no news.
        let look = if self.launches.is_empty() {
            left
        } else {
            let next = self.next_look(if self.world.has_others() {
                PEER_LOOKS
            } else {
                IDLE_LOOKS
            });
            Some(left.map_or(next, |left| left.min(next)))
        };
        self.desk.sleep(look);
        let slept = now.elapsed();
        for launch in &self.launches {
            launch.started.set(launch.started.get() + slept);
        }
    }

    /// No host of this process will do anything: waits for other processes to write what lanes wait for, or to let a host
    /// go that is in a collective with them.
    fn await_peers(&mut self, hosts: &[Doing]) {
        let since = *self.kept_since.get_or_insert_with(Instant::now);
        if self.over_limit(|launch| launch.started.get().elapsed()) {
            self.fail_by_limit("waits for PEs of other processes");
        } else if self.launches.is_empty() && self.limit.is_some_and(|limit| since.elapsed() >= limit) {
            let limit = self.limit.unwrap_or_default();
            self.fail_by_report(
                &format!("time limit of {limit:?}: a collective launch can't start"),
                hosts,
            );
        } else {
            let look = self.next_look(PEER_LOOKS);
            self.desk.sleep(Some(look));
        }
    }

    /// How long to sleep now: longer each time that nothing has come of it.
    fn next_look(&mut self, (least, most): (Duration, Duration)) -> Duration {
        let look = self.next_look.clamp(least, most);
        self.next_look = look * 2;
        look
    }

    fn over_limit(&self, time: impl Fn(&Launch) -> Duration) -> bool {
        self.limit
            .is_some_and(|limit| self.launches.iter().any(|launch| time(launch) >= limit))
    }

    fn fail_by_limit(&self, what: &str) {
        let late = self.launches.iter().max_by_key(|launch| launch.started.get().elapsed());
        let heading = late.map(|launch| {
            format!(
                "time limit of {:?}: kernel {} {what}",
                self.limit.unwrap_or_default(),
                launch.kernel
            )
        });
        self.fail_by_report(&heading.unwrap_or_default(), &self.desk.hosts());
    }

    fn fail_by_report(&self, heading: &str, hosts: &[Doing]) {
        let report = self.report(heading, hosts);
        self.world.fail(Failure::TimeLimit { report });
    }

    fn report(&self, heading: &str, hosts: &[Doing]) -> String {
        let mut report = Report::new(heading, &self.world);
        for launch in &self.launches {
            report.launch(launch);
        }
        report.text(&self.world.net.report());
        if let Some(adapters) = &self.world.adapters {
            report.text(&adapters.report());
        }
        let heads = self.streams.iter().filter(|(_, stream)| !stream.running);
        let heads: Vec<_> = heads.filter_map(|(_, stream)| stream.queue.front()).collect();
        for order in heads.iter().filter(|order| order.job.collective) {
            let launched = |pe: u32| {
                heads
                    .iter()
                    .any(|other| other.pe == pe && other.number == order.number && other.job.collective)
            };
            let missing: Vec<u32> = self.world.local().filter(|&pe| !launched(pe)).collect();
            report.waiting_launch(order, &missing);
        }
        report.hosts(hosts);
        report.finish()
    }

    fn end_lanes(&mut self) {
        self.world.end();
        for launch in &self.launches {
            launch.end();
        }
        self.launches.clear();
        self.streams.clear();
    }
}
