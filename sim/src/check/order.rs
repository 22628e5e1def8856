//! What one lane knows of the order of events, and what its calls change about it.

use super::access::What;
use super::clock::{Channel, Clock, Done, LaneId, Run, Set};
use super::ends::Ends;
use shmem::hook::At;
use std::panic::Location;

/// Everything of a channel that came before some call: what the lane had seen, and its own events up to an epoch.
#[derive(Clone, Debug)]
pub(crate) struct Covered {
    pub(crate) channel: Channel,
    pub(crate) seen: Set,
    pub(crate) own: u32,
}

impl Covered {
    fn contains(&self, me: LaneId, lane: LaneId, epoch: u32) -> bool {
        (lane == me && epoch <= self.own) || self.seen.contains(lane, epoch)
    }
}

/// A fence of a context: later operations to a PE come after those before it.
#[derive(Clone, Debug)]
pub(crate) struct Fence {
    pub(crate) ctx: u32,
    pub(crate) seen: Set,
    pub(crate) own: u32,
    pub(crate) done: Done,
    pub(crate) ends: Ends,
}

#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) me: LaneId,
    /// Of the lane's next event.
    pub(crate) epoch: u32,
    /// What comes before it, but for its own events.
    pub(crate) clock: Clock,
    /// Quiets and flushes that `clock.done` does not hold yet.
    quiets: Vec<Covered>,
    pub(crate) fences: Vec<Fence>,
    /// What was known at the last fence of ordinary memory.
    pub(crate) fenced_memory: Option<Clock>,
    /// The epoch of the last put-like operation of each channel.
    last: Vec<(Channel, u32)>,
    /// What relaxed reads would have taught, had they acquired.
    pub(crate) relaxed: Clock,
    /// The epochs of its part of the put_signal under way.
    pub(crate) part: (u32, u32),
    /// Its last accesses: what, where, in which epoch, and the number under which it is remembered.
    pub(crate) recent: [(What, At, u32, u32); 4],
    pub(crate) next_recent: usize,
    /// Words that it has last read by g, by address.
    fetched: [u64; 4],
    next_fetched: usize,
}

impl Order {
    /// A lane that knows this much at its beginning.
    pub(crate) fn new(me: LaneId, clock: Clock) -> Self {
        Self {
            me,
            epoch: 1,
            clock,
            quiets: Vec::new(),
            fences: Vec::new(),
            fenced_memory: None,
            last: Vec::new(),
            relaxed: Clock::default(),
            part: (0, 0),
            recent: [(What::Load, Location::caller(), 0, 0); 4],
            next_recent: 0,
            fetched: [0; 4],
            next_fetched: 0,
        }
    }

    /// Gives the next operation of a channel an epoch of its own. Returns the last epoch before that had one, and its own.
    pub(crate) fn issue(&mut self, channel: Channel) -> (u32, u32) {
        self.epoch += 1;
        let epoch = self.epoch;
        self.epoch += 1;
        if let Some((_, last)) = self.last.iter_mut().find(|(c, _)| *c == channel) {
            return (std::mem::replace(last, epoch), epoch);
        }
        self.last.push((channel, epoch));
        (0, epoch)
    }

    /// It has read a word by g.
    pub(crate) fn fetched(&mut self, address: u64) {
        self.fetched[self.next_fetched] = address;
        self.next_fetched = (self.next_fetched + 1) % self.fetched.len();
    }

    pub(crate) fn has_fetched(&self, address: u64) -> bool {
        self.fetched.contains(&address)
    }

    /// It puts nothing in the put_signal that begins.
    pub(crate) fn no_part(&mut self) {
        self.part = (0, 0);
    }

    pub(crate) fn last_part(&self) -> Run {
        Run::of(self.me, self.part.0, self.part.1)
    }

    pub(crate) fn seen(&self, lane: LaneId, epoch: u32) -> bool {
        lane == self.me || self.clock.seen.contains(lane, epoch)
    }

    pub(crate) fn done(&self, channel: Channel, lane: LaneId, epoch: u32) -> bool {
        let quiet = |q: &&Covered| q.channel == channel || q.channel == Channel::all(channel.ctx);
        self.clock.done.contains(channel, lane, epoch)
            || self
                .quiets
                .iter()
                .filter(quiet)
                .any(|q| q.contains(self.me, lane, epoch))
    }

    /// Everything before is done in a context, and comes before what is issued later.
    pub(crate) fn quiet(&mut self, ctx: u32) {
        self.cover(Channel::all(ctx));
        self.fence(ctx);
    }

    /// The sources of a context may be written again.
    pub(crate) fn flush(&mut self, ctx: u32) {
        self.cover(Channel::sources(ctx));
    }

    /// A fence of ordinary memory: what relaxed reads saw is acquired, and relaxed writes tell of what came before.
    pub(crate) fn fence_memory(&mut self) {
        let relaxed = std::mem::take(&mut self.relaxed);
        self.clock.join(&relaxed);
        self.fenced_memory = Some(self.release());
    }

    pub(crate) fn fence(&mut self, ctx: u32) {
        self.settle();
        let fence = Fence {
            ctx,
            seen: self.clock.seen.clone(),
            own: self.epoch,
            done: self.clock.done.clone(),
            ends: self.clock.ends.clone(),
        };
        self.epoch += 1;
        match self.fences.iter_mut().find(|fence| fence.ctx == ctx) {
            Some(old) => *old = fence,
            None => self.fences.push(fence),
        }
    }

    /// Everything before is done in this channel.
    fn cover(&mut self, channel: Channel) {
        let covered = Covered {
            channel,
            seen: self.clock.seen.clone(),
            own: self.epoch,
        };
        self.epoch += 1;
        match self
            .quiets
            .iter_mut()
            .find(|q| q.channel == channel && q.seen.same(&covered.seen))
        {
            Some(old) => *old = covered,
            None => self.quiets.push(covered),
        }
    }

    pub(crate) fn relaxed_is_empty(&self) -> bool {
        self.relaxed.is_empty()
    }

    pub(crate) fn has_quiets(&self) -> bool {
        !self.quiets.is_empty()
    }

    pub(crate) fn take_quiets(&mut self) -> Vec<Covered> {
        std::mem::take(&mut self.quiets)
    }

    /// Puts quiets into the clock.
    pub(crate) fn settle(&mut self) {
        for Covered { channel, seen, own } in std::mem::take(&mut self.quiets) {
            let set = seen.with(Run::of(self.me, 0, own));
            self.clock.done.add(channel, &set);
        }
    }

    /// What a release tells, and whoever acquires it learns. Later events are not part of it.
    pub(crate) fn release(&mut self) -> Clock {
        self.settle();
        let mut clock = self.clock.clone();
        clock.seen = clock.seen.with(Run::of(self.me, 0, self.epoch));
        self.epoch += 1;
        clock
    }

    /// What the last fence of a context lets later operations to a PE tell.
    pub(crate) fn fenced(&self, channel: Channel, of_my_pe: impl Fn(u32) -> bool) -> Option<Clock> {
        let fence = self.fences.iter().find(|fence| fence.ctx == channel.ctx)?;
        let seen = fence.seen.with(Run::of(self.me, 0, fence.own));
        let mut done = fence.done.clone();
        done.add(channel, &seen.of_blocks(of_my_pe));
        let ends = fence.ends.clone();
        Some(Clock { seen, done, ends })
    }
}
