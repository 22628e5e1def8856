//! What happens between a doorbell and a completion, one step at a time.
//!
//! Within a queue pair requests arrive in order, and completions are written in order. Everything else is free, as it is
//! on a network: bytes land in the target's memory after their acknowledgement, those of relaxed keys in any order; what
//! a read fetches may be newer than later writes, unless those are fenced; answers land late; other queue pairs overtake.
//! A read or atomic pushes the writes before it to memory first.

use crate::completion::Report;
use crate::decode::{Change, Fence, Operation, Piece, Pointer, Target};
use crate::fabric::{Delivery, Fabric};
use crate::keys::{KeyFault, Want};
use crate::memory::{Memory, Place};
use crate::state::{AdapterState, Landing, Progress, Qp, QueuePair, State};
use crate::tables::{UNIT, syndrome};
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

const SEND: usize = 0;
const LAND: usize = 1;
const FETCH: usize = 2;
const ANSWER: usize = 3;
const COMPLETE: usize = 4;
/// What eager delivery does first.
const EAGER: [usize; 5] = [LAND, ANSWER, COMPLETE, FETCH, SEND];

/// What a packet does at the target.
enum Arrival {
    /// Bytes for its memory.
    Packet(Landing, Progress),
    /// A request.
    Request(Progress),
    /// An atomic; the old value goes back to a place.
    Change {
        place: Place,
        change: Change,
        back: (Place, bool),
    },
}

impl Operation {
    fn bytes(&self) -> u64 {
        match self {
            Self::Nop => 0,
            Self::Write { data, .. } | Self::Send { data, .. } => data.iter().map(Piece::len).sum(),
            Self::Read { to, .. } => to.iter().map(|p| u64::from(p.bytes)).sum(),
            Self::Atomic { change, .. } => change.bytes as u64,
        }
    }

    fn is_fetching(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::Atomic { .. })
    }
}

impl AdapterState {
    /// Where memory under a key is, and whether writes to it are relaxed.
    fn resolve(&self, domain: u32, key: u32, address: u64, bytes: u64, want: Want) -> Result<(Place, bool), KeyFault> {
        let entry = self.keys.get(&key).ok_or(KeyFault::Unknown { key })?;
        let place = entry.check(key, domain, address, bytes, want)?;
        Ok((place, entry.access.relaxed_ordering))
    }

    fn local(&self, domain: u32, pointer: Pointer, want: Want) -> Result<(Place, bool), Fault> {
        let bytes = u64::from(pointer.bytes);
        self.resolve(domain, pointer.key, pointer.address, bytes, want)
            .map_err(Fault::Local)
    }

    fn remote(&self, domain: u32, at: Target, bytes: u64, want: Want) -> Result<(Place, bool), Fault> {
        self.resolve(domain, at.key, at.address, bytes, want)
            .map_err(Fault::Remote)
    }
}

impl Qp {
    fn reads_in_flight(&self) -> usize {
        let fetching = |p: &Progress| matches!(p, Progress::Reading { .. } | Progress::Answered);
        self.works
            .iter()
            .take(self.sent)
            .filter(|w| fetching(&w.progress))
            .count()
    }

    fn may_send(&self) -> bool {
        let Some(work) = self.works.get(self.sent) else {
            return false;
        };
        let (Some(request), Progress::Sending(_), State::ReadyToSend) = (&work.request, &work.progress, self.state)
        else {
            return false;
        };
        let mut before = self.works.iter().take(self.sent);
        let free = match request.fence {
            Fence::None => true,
            Fence::Reads => self.reads_in_flight() == 0,
            Fence::All => before.all(|w| w.progress == Progress::Acknowledged),
        };
        free && (!request.operation.is_fetching() || self.reads_in_flight() < self.max_reads)
    }

    /// The oldest read that the target has not answered in full.
    fn to_fetch(&self) -> Option<usize> {
        self.works.iter().take(self.sent).position(|w| {
            let total = w.request.as_ref().map_or(0, |r| r.operation.bytes());
            matches!(w.progress, Progress::Reading { fetched, .. } if fetched < total)
        })
    }

    fn may_complete(&self) -> bool {
        self.works.front().is_some_and(|w| {
            self.state == State::Error || matches!(w.progress, Progress::Acknowledged | Progress::Failed(..))
        })
    }

    /// What can happen next.
    fn options(&self) -> [bool; 5] {
        let mut options = [false; 5];
        options[SEND] = self.may_send();
        options[LAND] = !self.landings.is_empty();
        options[FETCH] = self.state != State::Error && self.to_fetch().is_some();
        options[ANSWER] = !self.answers.is_empty();
        options[COMPLETE] = self.may_complete();
        options
    }
}

impl<M: Memory> Fabric<M> {
    /// Does one thing that can happen next, and tells what; None where there is nothing to do.
    pub fn step(&mut self) -> Option<Step> {
        while !self.active.is_empty() {
            let eager = self.config.delivery == Delivery::Eager;
            let i = if eager { 0 } else { self.rng.below(self.active.len()) };
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
        let mut position = 0;
        let mut written = None;
        let done = match what {
            LAND => self.land(index).map(|(landing, place)| {
                (position, written) = (landing, place);
                StepKind::Landed
            }),
            ANSWER => self.answer(index).map(|(landing, place)| {
                (position, written) = (landing, place);
                StepKind::Answered
            }),
            COMPLETE => {
                let (at, kind) = self.finish(index);
                position = at;
                Ok(kind)
            }
            _ => {
                let qp = &self.queue_pairs[index];
                let at = if what == SEND {
                    qp.sent
                } else {
                    qp.to_fetch().unwrap_or(0)
                };
                position = qp.works.get(at).map_or(0, |w| w.position);
                let done = if self.loses(index, at) {
                    self.lose(index, at)
                } else if what == SEND {
                    self.send(index, at).map(|()| StepKind::Arrived)
                } else {
                    self.fetch_for(index, at).map(|()| StepKind::Fetched)
                };
                done.map_err(|fault| (at, fault))
            }
            .or_else(|(at, fault)| {
                let qp = &mut self.queue_pairs[index];
                if let Some(work) = qp.works.get_mut(at) {
                    let (syndrome, vendor) = fault.syndrome();
                    work.progress = Progress::Failed(syndrome, vendor);
                }
                let violation = qp.violation(position as u16, fault);
                self.report(violation);
                Ok::<_, Fault>(StepKind::Failed)
            }),
        };
        let kind = done.unwrap_or_else(|fault| {
            // Memory that a key covered is gone while bytes were on their way.
            let qp = &mut self.queue_pairs[index];
            qp.state = State::Error;
            let violation = qp.violation(position as u16, fault);
            self.report(violation);
            StepKind::Failed
        });
        Step {
            queue_pair,
            position,
            kind,
            written,
        }
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

    /// The next packet of entry `at` arrives at the target.
    fn send(&mut self, index: usize, at: usize) -> Result<(), Fault> {
        let Some((position, arrival)) = self.arrive(index, at)? else {
            return Ok(());
        };
        let (progress, landing, answer) = match arrival {
            Arrival::Packet(landing, progress) => (progress, Some(landing), None),
            Arrival::Request(progress) => (progress, None, None),
            Arrival::Change { place, change, back } => {
                self.land_before(index, position)?;
                let value = self.memory.change(place, change.bytes, &|word| change.apply(word))?;
                let bytes = match (change.bytes, self.config.native_atomics) {
                    (4, _) => (value as u32).to_be_bytes().to_vec(),
                    (_, true) => value.to_ne_bytes().to_vec(),
                    (_, false) => value.to_be_bytes().to_vec(),
                };
                let (place, relaxed) = back;
                let answer = Landing {
                    position,
                    place,
                    bytes,
                    relaxed,
                };
                (Progress::Answered, None, Some(answer))
            }
        };
        let qp = &mut self.queue_pairs[index];
        qp.landings.extend(landing);
        qp.answers.extend(answer);
        if !matches!(progress, Progress::Sending(_)) {
            qp.sent += 1;
        }
        if let Some(work) = qp.works.get_mut(at) {
            (work.progress, work.tries) = (progress, 0);
        }
        Ok(())
    }

    /// Checks keys and permissions, and says what the next packet of entry `at` does. None where there is no such packet.
    fn arrive(&self, index: usize, at: usize) -> Result<Option<(u64, Arrival)>, Fault> {
        let qp = &self.queue_pairs[index];
        let (Some(work), Some(target)) = (qp.works.get(at), qp.target.and_then(|t| self.queue_pairs.get(t))) else {
            return Ok(None);
        };
        let (Some(request), &Progress::Sending(offset)) = (&work.request, &work.progress) else {
            return Ok(None);
        };
        let (here, there) = (&self.adapters[qp.id.adapter], &self.adapters[target.id.adapter]);
        let position = work.position;
        let arrival = match &request.operation {
            Operation::Nop => Arrival::Request(Progress::Acknowledged),
            Operation::Send { .. } | Operation::Write { immediate: Some(_), .. } => {
                return Err(Fault::ReceiverNotReady);
            }
            Operation::Write { to, data, .. } => {
                let total = request.operation.bytes();
                if total == 0 {
                    // Without bytes, no key is looked at.
                    return Ok(Some((position, Arrival::Request(Progress::Acknowledged))));
                }
                if !target.permissions.write {
                    return Err(Fault::TargetRefuses { what: "writes" });
                }
                let packet = (total - offset).min(u64::from(self.config.mtu));
                if offset == 0 && packet < total {
                    there.remote(target.domain, *to, total, Want::RemoteWrite)?;
                }
                let to = Target {
                    address: to.address.wrapping_add(offset),
                    ..*to
                };
                let bytes = gather(&self.memory, here, qp.domain, data, offset, packet)?;
                let (place, relaxed) = there.remote(target.domain, to, packet, Want::RemoteWrite)?;
                let landing = Landing {
                    position,
                    place,
                    bytes,
                    relaxed,
                };
                let end = offset + packet == total;
                let progress = if end {
                    Progress::Acknowledged
                } else {
                    Progress::Sending(offset + packet)
                };
                Arrival::Packet(landing, progress)
            }
            Operation::Read { from, to } => {
                if !target.permissions.read {
                    return Err(Fault::TargetRefuses { what: "reads" });
                }
                for pointer in to {
                    here.local(qp.domain, *pointer, Want::LocalWrite)?;
                }
                there.remote(target.domain, *from, request.operation.bytes(), Want::RemoteRead)?;
                Arrival::Request(Progress::Reading { fetched: 0, landed: 0 })
            }
            Operation::Atomic { to, change, old } => {
                if !target.permissions.atomic {
                    return Err(Fault::TargetRefuses { what: "atomics" });
                }
                let back = here.local(qp.domain, *old, Want::LocalWrite)?;
                let (place, _) = there.remote(target.domain, *to, change.bytes as u64, Want::RemoteAtomic)?;
                if !to.address.is_multiple_of(change.bytes as u64) {
                    return Err(Fault::Misaligned {
                        address: to.address,
                        bytes: change.bytes,
                    });
                }
                Arrival::Change {
                    place,
                    change: *change,
                    back,
                }
            }
        };
        Ok(Some((position, arrival)))
    }

    /// The target reads the next bytes of the read at `at`, and they come back.
    fn fetch_for(&mut self, index: usize, at: usize) -> Result<(), Fault> {
        let position = self.queue_pairs[index].works.get(at).map_or(0, |w| w.position);
        self.land_before(index, position)?;
        let qp = &self.queue_pairs[index];
        let (Some(work), Some(target)) = (qp.works.get(at), qp.target.and_then(|t| self.queue_pairs.get(t))) else {
            return Ok(());
        };
        let (Some(request), &Progress::Reading { fetched, landed }) = (&work.request, &work.progress) else {
            return Ok(());
        };
        let Operation::Read { from, to } = &request.operation else {
            return Ok(());
        };
        let packet = (request.operation.bytes() - fetched).min(u64::from(self.config.mtu));
        let from = Target {
            address: from.address.wrapping_add(fetched),
            ..*from
        };
        let there = &self.adapters[target.id.adapter];
        let (place, _) = there.remote(target.domain, from, packet, Want::RemoteRead)?;
        let mut bytes = vec![0; packet as usize];
        self.memory.read(place, &mut bytes)?;
        let mut answers = Vec::new();
        for part in Qp::spread(to, fetched, packet) {
            let (place, relaxed) = self.adapters[qp.id.adapter].local(qp.domain, part, Want::LocalWrite)?;
            let rest = bytes.split_off(part.bytes as usize);
            answers.push(Landing {
                position,
                place,
                bytes: std::mem::replace(&mut bytes, rest),
                relaxed,
            });
        }
        let qp = &mut self.queue_pairs[index];
        qp.answers.extend(answers);
        if let Some(work) = qp.works.get_mut(at) {
            work.tries = 0;
            work.progress = Progress::Reading {
                fetched: fetched + packet,
                landed,
            };
        }
        Ok(())
    }

    /// Writes of this queue pair that arrived before `position` reach memory.
    fn land_before(&mut self, index: usize, position: u64) -> Result<(), Fault> {
        let qp = &mut self.queue_pairs[index];
        while let Some(landing) = qp.landings.pop_front_if(|l| l.position < position) {
            self.memory.write(landing.place, &landing.bytes)?;
        }
        Ok(())
    }

    fn land(&mut self, index: usize) -> Result<(u64, Option<(Place, u64)>), Fault> {
        let i = self.pick(index, |qp| &qp.landings);
        let Some(landing) = self.queue_pairs[index].landings.remove(i) else {
            return Ok((0, None));
        };
        self.memory.write(landing.place, &landing.bytes)?;
        Ok((landing.position, Some((landing.place, landing.bytes.len() as u64))))
    }

    fn answer(&mut self, index: usize) -> Result<(u64, Option<(Place, u64)>), Fault> {
        let i = self.pick(index, |qp| &qp.answers);
        let qp = &mut self.queue_pairs[index];
        let Some(answer) = qp.answers.remove(i) else {
            return Ok((0, None));
        };
        self.memory.write(answer.place, &answer.bytes)?;
        let bytes = answer.bytes.len() as u64;
        if let Some(work) = qp.works.iter_mut().find(|w| w.position == answer.position) {
            let total = work.request.as_ref().map_or(0, |r| r.operation.bytes());
            work.progress = match work.progress {
                Progress::Reading { fetched, landed } if landed + bytes < total => Progress::Reading {
                    fetched,
                    landed: landed + bytes,
                },
                Progress::Reading { .. } | Progress::Answered => Progress::Acknowledged,
                ref other => other.clone(),
            };
        }
        Ok((answer.position, Some((answer.place, bytes))))
    }

    /// Which of the bytes that are on their way lands: the oldest, or a relaxed one.
    fn pick(&mut self, index: usize, of: fn(&Qp) -> &std::collections::VecDeque<Landing>) -> usize {
        if self.config.delivery == Delivery::Eager {
            return 0;
        }
        let queue = of(&self.queue_pairs[index]);
        let relaxed = queue.iter().skip(1).filter(|l| l.relaxed).count();
        if relaxed == 0 {
            return 0;
        }
        let draw = self.rng.below(relaxed + 1);
        let mut others = of(&self.queue_pairs[index])
            .iter()
            .enumerate()
            .skip(1)
            .filter(|(_, l)| l.relaxed);
        draw.checked_sub(1).and_then(|n| others.nth(n)).map_or(0, |(i, _)| i)
    }

    /// The oldest entry is done: reports it.
    fn finish(&mut self, index: usize) -> (u64, StepKind) {
        let qp = &mut self.queue_pairs[index];
        let Some(work) = qp.works.pop_front() else {
            return (0, StepKind::Completed);
        };
        qp.sent = qp.sent.saturating_sub(1);
        let (position, end) = (work.position, work.position + u64::from(work.blocks));
        let mut error = match work.progress {
            _ if qp.state == State::Error => Some((syndrome::FLUSHED, 0)),
            Progress::Failed(syndrome, vendor) => Some((syndrome, vendor)),
            _ => None,
        };
        let changed = (0..work.copy.len() / UNIT).find(|&unit| {
            let mut bytes = [0; UNIT];
            let read = self.memory.read(qp.unit(position, unit), &mut bytes);
            read.is_err() || bytes != work.copy[unit * UNIT..][..UNIT]
        });
        if let (None, Some(unit)) = (error, changed) {
            let fault = Fault::Changed { unit };
            error = Some(fault.syndrome());
            let violation = qp.violation(position as u16, fault);
            self.report(violation);
        }
        let qp = &mut self.queue_pairs[index];
        if error.is_some() {
            qp.state = State::Error;
            qp.answers.retain(|answer| answer.position != position);
        }
        let signalled = work.request.as_ref().is_some_and(|r| r.signalled);
        if signalled || error.is_some() {
            if self.config.watch {
                self.poison(index, end);
            }
            self.queue_pairs[index].reported = end;
            let report = Report {
                position,
                opcode: work.opcode,
                bytes: work.request.as_ref().map_or(0, |r| r.operation.bytes()),
                error,
            };
            self.complete(index, &report);
        }
        let kind = if error.is_some() {
            StepKind::Failed
        } else {
            StepKind::Completed
        };
        (position, kind)
    }

    /// Makes the blocks before `end` unreadable, which software may write again from now on.
    fn poison(&mut self, index: usize, end: u64) {
        let qp = &mut self.queue_pairs[index];
        let block = [qp.poison; 4].concat();
        for position in qp.poisoned..end {
            // Whoever unmapped the queue will not read it either.
            let _ = self.memory.write(qp.ring.slot(position), &block);
        }
        qp.poisoned = end;
    }
}

/// `bytes` of the data of a request, from `offset` on.
fn gather<M: Memory>(
    memory: &M,
    here: &AdapterState,
    domain: u32,
    data: &[Piece],
    mut offset: u64,
    bytes: u64,
) -> Result<Vec<u8>, Fault> {
    let mut all = vec![0; bytes as usize];
    let mut filled = 0;
    for piece in data {
        if offset >= piece.len() {
            offset -= piece.len();
            continue;
        }
        let take = (piece.len() - offset).min((all.len() - filled) as u64) as usize;
        let into = &mut all[filled..filled + take];
        match piece {
            Piece::Inline(inline) => into.copy_from_slice(&inline[offset as usize..][..take]),
            Piece::Pointer(pointer) => {
                let part = Pointer {
                    address: pointer.address.wrapping_add(offset),
                    bytes: take as u32,
                    ..*pointer
                };
                let (place, _) = here.local(domain, part, Want::LocalRead)?;
                memory.read(place, into)?;
            }
        }
        (offset, filled) = (0, filled + take);
    }
    Ok(all)
}
