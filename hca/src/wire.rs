//! What happens between a doorbell and a completion, one step at a time.
//!
//! Within a queue pair requests arrive in order, and completions are written in order. Everything else is free, as it is
//! on a network: bytes land in the target's memory after their acknowledgement, those of relaxed keys in any order; what
//! a read fetches may be newer than later writes, unless those are fenced; answers land late; other queue pairs overtake.
//! A read or atomic pushes the writes before it to memory first.

use crate::config::Delivery;
use crate::decode::Operation;
use crate::fabric::Fabric;
use crate::memory::{Memory, Place, Unmapped};
use crate::rng::mix;
use crate::state::{Progress, QueuePair, State};
use crate::violation::Fault;

/// What a step did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepKind {
    /// A packet of a request arrived at the target.
    Arrived,
    /// A packet was lost.
    Lost,
    /// A packet's bytes are in the target's memory.
    Landed,
    /// The target read bytes for an answer.
    Fetched,
    /// An answer's bytes are in the sender's memory.
    Answered,
    /// An entry is done, and was reported if it wants that.
    Completed,
    /// An entry failed.
    Failed,
}

/// A step, and of which entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Whose.
    pub queue_pair: QueuePair,
    /// The entry's first block, counted since the queue was made.
    pub position: u64,
    /// What.
    pub kind: StepKind,
    /// Memory that was written, and how many bytes.
    pub written: Option<(Place, u64)>,
}

pub(crate) const SEND: usize = 0;
pub(crate) const LAND: usize = 1;
pub(crate) const FETCH: usize = 2;
pub(crate) const ANSWER: usize = 3;
pub(crate) const COMPLETE: usize = 4;
/// How often a slow queue pair is passed over in a row.
const PASSES: u32 = 64;
/// What eager delivery does first.
const EAGER: [usize; 5] = [LAND, ANSWER, COMPLETE, FETCH, SEND];

impl<M: Memory> Fabric<M> {
    /// Does one thing that can happen next, and tells what; None where there is nothing to do.
    pub fn step(&mut self) -> Option<Step> {
        while !self.active.is_empty() {
            let eager = self.config.delivery == Delivery::Eager;
            let i = if eager { 0 } else { self.next_active() };
            let index = self.active[i];
            let options = self.queue_pairs[index].options();
            if let Some(what) = self.choose(options, eager) {
                return Some(self.perform(index, what));
            }
            self.active.swap_remove(i);
        }
        None
    }

    /// Steps until there is nothing to do; returns how many.
    pub fn run(&mut self) -> usize {
        let mut steps = 0;
        while self.step().is_some() {
            steps += 1;
        }
        steps
    }

    /// One of the active queue pairs.
    fn next_active(&mut self) -> usize {
        let mut i = 0;
        // A slow one is passed over, but not for ever.
        for _ in 0..PASSES {
            i = self.rng.below(self.active.len());
            let slowness = self.slowness(self.active[i]);
            if self.active.len() == 1 || self.rng.below(slowness) == 0 {
                break;
            }
        }
        i
    }

    /// How much seldomer a queue pair is picked than the fastest: what crosses a network takes one way in a moment and another
    /// one late. In half of the seeds all are the same.
    fn slowness(&self, index: usize) -> usize {
        match self.config.delivery {
            Delivery::Seeded(seed) if mix(seed) & 1 == 0 => 1 << (2 * (mix(seed ^ (index as u64 + 1)) & 3)),
            _ => 1,
        }
    }

    fn choose(&mut self, options: [bool; 5], eager: bool) -> Option<usize> {
        if eager {
            return EAGER.into_iter().find(|&what| options[what]);
        }
        let weight = |what: usize| if options[what] { self.weights[what] } else { 0 };
        let sum: u32 = (0..5).map(weight).sum();
        if sum == 0 {
            return None;
        }
        let mut draw = self.rng.below(sum as usize) as u32;
        (0..5).find(|&what| {
            let weight = if options[what] { self.weights[what] } else { 0 };
            let here = draw < weight;
            draw = draw.wrapping_sub(weight);
            here
        })
    }

    fn perform(&mut self, index: usize, what: usize) -> Step {
        let queue_pair = self.queue_pairs[index].id;
        let step = |position, kind, written| Step {
            queue_pair,
            position,
            kind,
            written,
        };
        match what {
            LAND => {
                let (position, landed) = self.land(index);
                self.landed(index, position, landed, StepKind::Landed, step)
            }
            ANSWER => {
                let (position, landed) = self.answer(index);
                self.landed(index, position, landed, StepKind::Answered, step)
            }
            COMPLETE => {
                let (position, kind) = self.finish(index);
                step(position, kind, None)
            }
            _ => {
                let (position, kind) = self.packet(index, what == SEND);
                step(position, kind, None)
            }
        }
    }

    /// Bytes of the entry at `position` landed, or the memory that its key covered is gone.
    fn landed(
        &mut self,
        index: usize,
        position: u64,
        landed: Result<(Place, u64), Unmapped>,
        kind: StepKind,
        step: impl Fn(u64, StepKind, Option<(Place, u64)>) -> Step,
    ) -> Step {
        match landed {
            Ok(written) => step(position, kind, Some(written)),
            Err(unmapped) => {
                let qp = &mut self.queue_pairs[index];
                qp.state = State::Error;
                let violation = qp.violation(position as u16, unmapped.into());
                self.report(violation);
                step(position, StepKind::Failed, None)
            }
        }
    }

    /// A packet of the next entry to send, or of the oldest read that is not answered in full.
    fn packet(&mut self, index: usize, sending: bool) -> (u64, StepKind) {
        let qp = &self.queue_pairs[index];
        let at = if sending { qp.sent } else { qp.to_fetch().unwrap_or(0) };
        let position = qp.works.get(at).map_or(0, |w| w.position);
        let done = if self.loses(index, at) {
            self.lose(index, at)
        } else if sending {
            self.send(index, at).map(|()| StepKind::Arrived)
        } else {
            self.fetch_for(index, at).map(|()| StepKind::Fetched)
        };
        let kind = done.unwrap_or_else(|fault| {
            let qp = &mut self.queue_pairs[index];
            if let Some(work) = qp.works.get_mut(at) {
                let (syndrome, vendor) = fault.syndrome();
                work.progress = Progress::Failed(syndrome, vendor);
            }
            let violation = qp.violation(position as u16, fault);
            self.report(violation);
            StepKind::Failed
        });
        (position, kind)
    }

    /// Whether the next packet of an entry is lost.
    fn loses(&mut self, index: usize, at: usize) -> bool {
        let qp = &self.queue_pairs[index];
        let nop = |o: &Operation| matches!(o, Operation::Nop);
        if qp
            .works
            .get(at)
            .and_then(|w| w.request.as_ref())
            .is_some_and(|r| nop(&r.operation))
        {
            return false;
        }
        let connected = qp.target.is_some_and(|target| {
            let target = &self.queue_pairs[target];
            target.target == Some(index)
                && target.agreed.mtu == qp.agreed.mtu
                && target.agreed.first_received == qp.agreed.first_sent
                && target.state >= State::ReadyToReceive
                && target.state != State::Error
                && self.adapters[target.id.adapter].reachable
                && self.adapters[qp.id.adapter].reachable
        });
        !connected
            || self.config.loss > 0
                && self.config.delivery != Delivery::Eager
                && self.rng.below(1_000_000) < self.config.loss as usize
    }

    fn lose(&mut self, index: usize, at: usize) -> Result<StepKind, Fault> {
        let qp = &mut self.queue_pairs[index];
        let retries = qp.retries;
        if let Some(work) = qp.works.get_mut(at) {
            work.tries += 1;
            if work.tries > retries {
                return Err(Fault::RetriesExceeded(retries));
            }
        }
        Ok(StepKind::Lost)
    }
}
