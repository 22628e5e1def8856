//! The happens-before checker: finds accesses that race by the ordering contract, whatever the network did in this run.
//!
//! | file | what it holds |
//! |---|---|
//! | `clock` | sets of events, and of operations that have taken effect |
//! | `ends`, `hosts` | launches that have ended, and what hosts do between them |
//! | `order` | what a lane knows, and how its calls change that |
//! | `access` | one access as it is remembered, and which two may race |
//! | `shadow`, `history` | the last accesses of every byte |
//! | `explain` | which order is missing, and the call that would add it |
//! | `finding` | how it reads |
//!
//! A put-like operation is an event of its own. That its issuer, and whoever hears from it, knows of its *issue* says
//! nothing about its *effect*: that is known after a fence to the same PE, a quiet, or from its own signal. So a missing
//! fence is found even in a run in which everything arrived in time.

mod access;
mod clock;
mod ends;
mod explain;
mod finding;
mod history;
mod hosts;
mod order;
mod shadow;

use crate::failure::Failure;
use access::{Access, What, conflict};
pub(crate) use clock::{Channel, Clock, LaneId, Run};
use clock::{Done, Set};
pub(crate) use ends::LaunchId;
pub use finding::{Bug, BugKind, Party};
use history::History;
use hosts::Tail;
pub(crate) use hosts::{HostAccess, HostEvent};
pub(crate) use order::Order;
use shadow::Cell as Entry;
use shmem::hook::{self, At, Space, Strength};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// Observations that a block is remembered by.
const OBSERVED: usize = 64;
/// Those of a block that has ended: operations on their way may still turn out to race with it.
const OBSERVED_LAST: usize = 8;

/// What the checker knows of a block.
struct BlockInfo {
    pe: u32,
    kernel: &'static str,
    index: [u32; 3],
    dim: [u32; 3],
    /// None: it is the host of its PE.
    launch: Option<LaunchId>,
    /// What its lanes have read that tells of others, the newest last.
    observed: VecDeque<Observed>,
    /// A lane that has looked at a word of its PE which nobody had written yet, and has not seen it written since.
    looked: Option<(LaneId, At)>,
    /// Counters it has waited for.
    counters: Vec<u64>,
}

impl BlockInfo {
    fn new(pe: u32, launch: Option<LaunchId>, kernel: &'static str, index: [u32; 3], dim: [u32; 3]) -> Self {
        Self {
            pe,
            kernel,
            index,
            dim,
            launch,
            observed: VecDeque::new(),
            looked: None,
            counters: Vec::new(),
        }
    }

    /// It has ended: operations on their way may still turn out to race with it.
    fn forget_most(&mut self) {
        let kept = self.observed.len().saturating_sub(OBSERVED_LAST);
        self.observed = self.observed.split_off(kept);
    }
}

/// A word that has been read, which tells of others.
#[derive(Clone)]
struct Observed {
    /// Its last write.
    by: Rc<Access>,
    /// By whom, and where.
    reader: LaneId,
    at: At,
    acquired: bool,
    /// By a fetching atomic.
    atomic: bool,
}

/// An operation from its issue to its effects.
pub(crate) struct Op {
    access: Rc<Access>,
    /// What a fence of its lane puts ahead of it, in its channel.
    fence: Option<order::Fence>,
    record: Cell<u32>,
    /// As `access`, for what it reads where it is issued.
    source: Option<Rc<Access>>,
    source_record: Cell<u32>,
}

/// How an operation may be seen: what it is, and what its issue does to its lane's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Issue {
    Put {
        nbi: bool,
    },
    PutSignal,
    P {
        /// Its lane has read the word by g.
        again: bool,
    },
    /// Data and flag in one store.
    Packet,
    /// A PE tells another that it is at a sync or barrier.
    Sync {
        relaxed: bool,
    },
    SignalSet {
        relaxed: bool,
    },
    SignalAdd {
        relaxed: bool,
    },
    /// The signal of a put_signal, once all members have issued their data.
    TailSet,
    TailAdd,
    Atomic {
        strength: Strength,
        fetches: bool,
        /// Whether a NIC does it.
        network: bool,
    },
    Get {
        nbi: bool,
    },
    G,
}

/// What a lane does to memory that it reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Load,
    Store,
    /// It writes what is there already: threads that do so side by side are no conflict.
    SameStore,
}

/// Who looks at a remembered access.
enum View<'a> {
    /// A lane; whether it stores what is there already.
    Lane(&'a Order, bool),
    /// An operation; likewise.
    Op(&'a Op, bool),
}

#[derive(Default)]
struct Inner {
    history: History,
    /// Those of hosts first, one for each PE.
    blocks: Vec<BlockInfo>,
    /// By PE.
    hosts: Vec<RefCell<Order>>,
    tails: Vec<Tail>,
}

/// Where in the heaps an address lies.
pub(crate) type Place = dyn Fn(u64) -> Option<(u32, u64)>;

pub(crate) struct Checker {
    inner: RefCell<Inner>,
    /// The world's, which a finding fails.
    failure: Rc<OnceCell<Failure>>,
    seed: u64,
    place: Box<Place>,
}

impl Checker {
    pub(crate) fn new(seed: u64, pes: u32, failure: &Rc<OnceCell<Failure>>, place: Box<Place>) -> Self {
        let mut inner = Inner::default();
        inner.add_hosts(pes);
        Self {
            inner: RefCell::new(inner),
            failure: Rc::clone(failure),
            seed,
            place,
        }
    }

    /// Fails the world with the first bug.
    fn report(&self, bug: Box<Bug>) {
        let _ = self.failure.set(Failure::Bug(bug));
    }

    /// A block of a launch begins. Returns its number.
    pub(crate) fn begin(&self, pe: u32, launch: LaunchId, kernel: &'static str, index: [u32; 3], dim: [u32; 3]) -> u32 {
        let inner = &mut *self.inner.borrow_mut();
        inner.blocks.push(BlockInfo::new(pe, Some(launch), kernel, index, dim));
        inner.blocks.len() as u32 - 1
    }

    /// Memory that holds nothing any more.
    pub(crate) fn forget(&self, address: u64, bytes: u64) {
        self.inner.borrow_mut().history.shadow.forget(address, bytes);
    }

    /// A load or store of a lane.
    pub(crate) fn access(&self, order: &mut Order, access: &hook::Access, kind: Kind, at: At) {
        if access.space == Space::Local {
            return;
        }
        let write = kind != Kind::Load;
        let what = match (access.strength, write) {
            (Strength::Weak, false) => What::Load,
            (Strength::Weak, true) => What::Store,
            (_, false) => What::StrongLoad,
            (_, true) => What::StrongStore,
        };
        let inner = &mut *self.inner.borrow_mut();
        let record = inner.history.cached(order, what, at);
        let made = if record == 0 {
            let mut made = plain(order, what, at);
            if matches!(access.strength, Strength::Release | Strength::AcqRel) && write {
                made.release = Some(order.release());
            } else if write && what == What::StrongStore {
                made.release.clone_from(&order.fenced_memory);
                // What it tells of comes before it.
                order.epoch += 1;
                made.epoch = order.epoch;
            }
            Rc::new(made)
        } else {
            Rc::clone(inner.history.get(record))
        };
        let view = View::Lane(order, kind == Kind::SameStore);
        if !self.touch(inner, &view, &made, access.address, access.bytes.into()) {
            return;
        }
        let record = inner.history.remember(order, &made, record);
        if write {
            inner.history.wrote(record, access.address, access.bytes.into());
        } else if what == What::Load {
            inner.history.read(record, access.address, access.bytes.into());
        } else {
            let acquires = matches!(access.strength, Strength::Acquire | Strength::AcqRel);
            inner.observe(
                order,
                access.address,
                at,
                acquires,
                access.space == Space::Symmetric,
                false,
            );
        }
    }

    /// A read-modify-write of a lane on memory that it reaches.
    pub(crate) fn atomic(&self, order: &mut Order, access: &hook::Access, at: At) {
        if access.space == Space::Local {
            return;
        }
        let inner = &mut *self.inner.borrow_mut();
        let (acquires, releases) = halves(access.strength);
        let mut made = plain(order, What::Atomic, at);
        let bytes = access.bytes.into();
        if !self.touch(inner, &View::Lane(order, false), &made, access.address, bytes) {
            return;
        }
        let before = inner.history.last_write(access.address).map(Rc::clone);
        inner.observe(order, access.address, at, acquires, true, true);
        order.epoch += 1;
        made.epoch = order.epoch;
        made.release = if releases {
            Some(order.release())
        } else {
            order.fenced_memory.clone()
        };
        if let Some(before) = before {
            made.release = continued(made.release, before.release.clone());
            made.adders = Some(Access::adders(&Rc::new(made.clone()), &before));
        }
        let record = inner.history.add(Rc::new(made));
        inner.history.wrote(record, access.address, bytes);
    }

    /// Threads meet and order memory among them.
    pub(crate) fn sync<'a>(members: impl Iterator<Item = &'a RefCell<Order>> + Clone) {
        let mut clock = Clock::default();
        let mut first = true;
        let mut last: Option<Clock> = None;
        let mut epoch = 0;
        let mut relaxed: Option<Clock> = None;
        let mut quiets: Vec<(Channel, Set, Vec<Run>)> = Vec::new();
        for member in members.clone() {
            let mut order = member.borrow_mut();
            epoch = epoch.max(order.epoch);
            let known = last.as_ref().is_some_and(|l| l.same(&order.clock));
            if first {
                clock = order.clock.clone();
                first = false;
                last = Some(order.clock.clone());
            } else if !known {
                clock.join(&order.clock);
                last = Some(order.clock.clone());
            }
            if order.has_quiets() {
                let me = order.me;
                for q in order.take_quiets() {
                    let own = Run::of(me, 0, q.own);
                    match quiets
                        .iter_mut()
                        .find(|(c, seen, _)| *c == q.channel && seen.same(&q.seen))
                    {
                        Some((_, _, runs)) => runs.push(own),
                        None => quiets.push((q.channel, q.seen, vec![own])),
                    }
                }
            }
            if !order.relaxed_is_empty() {
                relaxed.get_or_insert_default().join(&order.relaxed);
            }
        }
        let runs = members.clone().map(|m| Run::of(m.borrow().me, 0, epoch)).collect();
        clock.seen = clock.seen.join(&Set::from_runs(runs));
        for (channel, seen, own) in quiets {
            let set = Set::from_runs(own).join(&seen);
            clock.done.add(channel, &set);
        }
        for member in members {
            let mut order = member.borrow_mut();
            order.epoch = epoch + 1;
            order.clock = clock.clone();
            if let Some(relaxed) = &relaxed {
                order.relaxed = relaxed.clone();
            }
        }
    }

    /// A lane issues an operation on a PE.
    pub(crate) fn issue(&self, order: &mut Order, issue: Issue, ctx: u32, pe: u32, at: At) -> Rc<Op> {
        let inner = self.inner.borrow();
        let mine = inner.blocks[order.me.block as usize].pe;
        let channel = Channel { ctx, pe };
        let what = match issue {
            Issue::Put { .. } => What::Put,
            Issue::PutSignal => What::PutSignal,
            Issue::P { .. } => What::P,
            Issue::Packet => What::Packet,
            Issue::Sync { .. } => What::Sync,
            Issue::SignalSet { .. } | Issue::TailSet => What::SignalSet,
            Issue::SignalAdd { .. } | Issue::TailAdd => What::SignalAdd,
            Issue::Atomic { .. } => What::Atomic,
            Issue::Get { .. } => What::Get,
            Issue::G => What::G,
        };
        order.settle();
        let mut made = plain(order, what, at);
        let mut source = None;
        let known_fence = |order: &Order| order.fenced(channel, |block| inner.blocks[block as usize].pe == mine);
        match issue {
            Issue::Get { nbi: false } | Issue::G => {}
            Issue::Get { nbi: true } => {
                let fetched = Channel::fetched(ctx);
                (made.after, made.epoch) = order.issue(fetched);
                made.channel = Some(fetched);
                let mut landing = plain(order, What::Fetched, at);
                (landing.after, landing.epoch, landing.channel) = (made.after, made.epoch, made.channel);
                source = Some(Rc::new(landing));
            }
            _ => {
                let released = match issue {
                    Issue::SignalSet { relaxed: false }
                    | Issue::Sync { relaxed: false }
                    | Issue::SignalAdd { relaxed: false }
                    | Issue::TailSet
                    | Issue::TailAdd
                    | Issue::Atomic {
                        strength: Strength::Release | Strength::AcqRel,
                        ..
                    } => Some(order.release()),
                    _ => None,
                };
                (made.after, made.epoch) = order.issue(channel);
                // Whoever has the old value knows that the word has changed.
                let fetches = matches!(issue, Issue::Atomic { fetches: true, .. });
                made.network = matches!(issue, Issue::Atomic { network: true, .. });
                made.again = issue == (Issue::P { again: true });
                made.channel = (!fetches).then_some(channel);
                let mut release = known_fence(order);
                if let Some(clock) = &order.fenced_memory {
                    release.get_or_insert_default().join(clock);
                }
                if let Some(released) = released {
                    release.get_or_insert_default().join(&released);
                }
                // What is done is so for everybody, and so is what has ended.
                if !order.clock.ends.is_empty() {
                    release.get_or_insert_default().ends.join(&order.clock.ends);
                }
                if !order.clock.done.same(&Done::default()) {
                    release.get_or_insert_default().done.join(&order.clock.done);
                }
                made.release = release;
                if let Issue::SignalSet { .. } | Issue::Packet = issue
                    && !order.relaxed_is_empty()
                {
                    let mut heard = order.clock.done.clone();
                    heard.join(&order.relaxed.done);
                    made.heard = Some(heard);
                }
                if issue == (Issue::Put { nbi: true }) {
                    let mut read = plain(order, What::Source, at);
                    read.epoch = made.epoch;
                    read.channel = Some(Channel::sources(ctx));
                    source = Some(Rc::new(read));
                }
                if issue == Issue::PutSignal {
                    order.part = (made.after, made.epoch);
                }
            }
        }
        if source.is_none() {
            // What a blocking form reads or writes on this side is over at its return.
            let side = if matches!(issue, Issue::Get { .. }) {
                What::Store
            } else {
                What::Load
            };
            let mut local = plain(order, side, at);
            local.epoch = made.epoch;
            source = Some(Rc::new(local));
        }
        let fence = order.fences.iter().find(|fence| fence.ctx == ctx).cloned();
        Rc::new(Op {
            access: Rc::new(made),
            fence,
            record: Cell::new(0),
            source,
            source_record: Cell::new(0),
        })
    }

    /// The signal of a put_signal also tells of the data that the members have issued.
    pub(crate) fn tail(op: Rc<Op>, channel: Channel, data: Vec<Run>) -> Rc<Op> {
        let mut op = Rc::into_inner(op).expect("an operation that has just been issued");
        let access = Rc::get_mut(&mut op.access).expect("an operation that has just been issued");
        access.tail = true;
        let release = access.release.get_or_insert_default();
        release.done.add(channel, &Set::from_runs(data));
        Rc::new(op)
    }

    /// Notes that a put_signal's data is told of by this counter.
    pub(crate) fn counted(op: Rc<Op>, counter: u64) -> Rc<Op> {
        let mut op = Rc::into_inner(op).expect("an operation that has just been issued");
        Rc::get_mut(&mut op.access)
            .expect("an operation that has just been issued")
            .counter = Some(counter);
        Rc::new(op)
    }

    /// An operation writes memory of its target; `same`: what is there already.
    pub(crate) fn lands(&self, op: &Op, address: u64, bytes: u64, same: bool) {
        let inner = &mut *self.inner.borrow_mut();
        if !self.touch(inner, &View::Op(op, same), &op.access, address, bytes) {
            return;
        }
        if matches!(op.access.what, What::SignalAdd | What::Atomic) {
            // The word tells of everyone who has added to it.
            if let Some(before) = inner.history.last_write(address).map(Rc::clone) {
                let made = Access {
                    release: continued(op.access.release.clone(), before.release.clone()),
                    adders: Some(Access::adders(&op.access, &before)),
                    clock: op.access.clock.clone(),
                    over: op.access.over.clone(),
                    heard: op.access.heard.clone(),
                    ..*op.access
                };
                let record = inner.history.add(Rc::new(made));
                inner.history.wrote(record, address, bytes);
                return;
            }
        }
        let record = inner.history.record(&op.access, &op.record);
        inner.history.wrote(record, address, bytes);
    }

    /// An operation reads memory of its target.
    pub(crate) fn fetches(&self, op: &Op, address: u64, bytes: u64) {
        let inner = &mut *self.inner.borrow_mut();
        if !self.touch(inner, &View::Op(op, false), &op.access, address, bytes) {
            return;
        }
        if op.access.what != What::G {
            let record = inner.history.record(&op.access, &op.record);
            inner.history.read(record, address, bytes);
        }
    }

    /// An operation reads (put) or writes (get) memory where it was issued, which lies in `space`.
    pub(crate) fn local(&self, op: &Op, space: Space, address: u64, bytes: u64) {
        let Some(local) = op.source.as_ref().filter(|_| space != Space::Local) else {
            return;
        };
        let inner = &mut *self.inner.borrow_mut();
        if !self.touch(inner, &View::Op(op, false), local, address, bytes) {
            return;
        }
        let record = inner.history.record(local, &op.source_record);
        if local.what.writes() {
            inner.history.wrote(record, address, bytes);
        } else {
            inner.history.read(record, address, bytes);
        }
    }

    /// A fetching atomic has its value: it may acquire.
    pub(crate) fn observed(&self, order: &mut Order, op: &Op, address: u64, acquires: bool) {
        self.inner
            .borrow_mut()
            .observe(order, address, op.access.at, acquires, true, true);
    }

    /// Memory that has been allocated and not written.
    pub(crate) fn fresh(&self, address: u64, bytes: u64) {
        self.inner.borrow_mut().history.fresh(address, bytes);
    }

    /// Members of a tile are in different calls.
    pub(crate) fn divergent(&self, one: (LaneId, &'static str, At), other: (LaneId, &'static str, At)) {
        let inner = self.inner.borrow();
        self.report(Box::new(Bug {
            kind: BugKind::DivergentCall,
            what: "threads of one tile meet in different calls: every member makes the same call".to_owned(),
            calls: [one, other].map(|(lane, call, at)| inner.party(lane, call, at)).into(),
            memory: String::new(),
            fix: "move the call out of the branch, or use a tile that holds only the threads of the branch".to_owned(),
            seed: self.seed,
        }));
    }

    /// Looks for accesses of these bytes that are in no order with this one; reports the first. True where there is none.
    fn touch(&self, inner: &mut Inner, view: &View<'_>, made: &Access, address: u64, bytes: u64) -> bool {
        let Inner { history, blocks, .. } = inner;
        let mut racing: Option<(Rc<Access>, u64)> = None;
        let records = &history.records;
        let chains = &history.chains;
        let check = |cell: Entry, at: u64| {
            if cell.write != 0 {
                let old = records.get(cell.write);
                if old.what != What::Fresh {
                    made.over.set(true);
                }
                if conflict(old, made) && !ordered(blocks, old, view, made) {
                    racing = Some((Rc::clone(old), at));
                    return Err(());
                }
            }
            if made.what.writes() {
                for record in chains.walk(cell.reads) {
                    let old = records.get(record);
                    if conflict(old, made) && !ordered(blocks, old, view, made) {
                        racing = Some((Rc::clone(old), at));
                        return Err(());
                    }
                }
            }
            Ok(cell)
        };
        if history.shadow.update(address, bytes, check).is_ok() {
            return true;
        }
        let (old, at) = racing.expect("the check has failed");
        self.report(Box::new(explain::explain(self, inner, &old, made, at)));
        false
    }
}

impl Inner {
    /// A lane has seen the last write of a word.
    fn observe(&mut self, order: &mut Order, address: u64, at: At, acquires: bool, symmetric: bool, atomic: bool) {
        let info = &mut self.blocks[order.me.block as usize];
        let Some(seen) = self.history.last_write(address).map(Rc::clone) else {
            if symmetric && !atomic {
                info.looked = Some((order.me, at));
            }
            return;
        };
        if info.looked == Some((order.me, at)) {
            info.looked = None;
        }
        if acquires || symmetric {
            let news = info.observed.back().is_none_or(|last| {
                !Rc::ptr_eq(&last.by, &seen) || !std::ptr::eq(last.at, at) || last.acquired != acquires
            });
            if news {
                if info.observed.len() == OBSERVED {
                    info.observed.pop_front();
                }
                info.observed.push_back(Observed {
                    by: Rc::clone(&seen),
                    reader: order.me,
                    at,
                    acquired: acquires,
                    atomic,
                });
            }
        }
        if seen.what == What::SignalAdd && !info.counters.contains(&address) {
            info.counters.push(address);
        }
        let mut learnt = seen.release.clone().unwrap_or_default();
        if let Some(channel) = seen.channel {
            learnt.done.add(
                channel,
                &Set::from_runs(vec![Run::of(seen.lane, seen.after, seen.epoch)]),
            );
        }
        if acquires {
            order.clock.join(&learnt);
            order.epoch += 1;
        } else {
            order.relaxed.join(&learnt);
            if let Some(heard) = &seen.heard {
                order.relaxed.done.join(heard);
            }
        }
    }

    fn party(&self, lane: LaneId, call: &'static str, at: At) -> Party {
        let info = &self.blocks[lane.block as usize];
        Party {
            call,
            at,
            kernel: info.kernel,
            pe: info.pe,
            block: info.index,
            thread: crate::kernel::unrank(lane.thread.into(), info.dim),
        }
    }
}

/// An access of a lane that is over when the lane goes on.
fn plain(order: &Order, what: What, at: At) -> Access {
    Access {
        lane: order.me,
        epoch: order.epoch,
        after: 0,
        what,
        at,
        channel: None,
        clock: order.clock.clone(),
        release: None,
        heard: None,
        counter: None,
        network: false,
        again: false,
        tail: false,
        over: Cell::new(false),
        adders: None,
    }
}

fn halves(strength: Strength) -> (bool, bool) {
    (
        matches!(strength, Strength::Acquire | Strength::AcqRel),
        matches!(strength, Strength::Release | Strength::AcqRel),
    )
}

/// A read-modify-write goes on telling what the word told before.
fn continued(own: Option<Clock>, before: Option<Clock>) -> Option<Clock> {
    match (own, before) {
        (Some(mut own), Some(before)) => {
            own.join(&before);
            Some(own)
        }
        (own, before) => own.or(before),
    }
}

/// Whether a remembered access is known to be over before this one.
fn ordered(blocks: &[BlockInfo], old: &Access, view: &View<'_>, made: &Access) -> bool {
    let later = &blocks[made.lane.block as usize];
    if old.what == What::Fresh {
        return made.what.writes();
    }
    let knows = match view {
        View::Lane(order, _) => &order.clock.ends,
        View::Op(..) => &made.clock.ends,
    };
    if blocks[old.lane.block as usize]
        .launch
        .is_some_and(|launch| knows.contains(launch))
    {
        return true;
    }
    match (view, old.channel) {
        (View::Lane(order, same), None) => (*same && old.what == What::Store) || order.seen(old.lane, old.epoch),
        (View::Lane(order, _), Some(channel)) => order.done(channel, old.lane, old.epoch),
        (View::Op(_, same), None) => {
            (*same && old.what == What::Store)
                // It may take effect long after its issue.
                // What it reads itself has its own epoch, and is read before it writes.
                || (old.lane == made.lane && old.epoch <= made.epoch)
                || made.clock.seen.contains(old.lane, old.epoch)
        }
        (View::Op(op, same), Some(channel)) => {
            (*same && old.what == What::Put)
                || made.clock.done.contains(channel, old.lane, old.epoch)
                || made
                    .heard
                    .as_ref()
                    .is_some_and(|heard| heard.contains(channel, old.lane, old.epoch))
                || (made.channel == Some(channel)
                    && op.fence.as_ref().is_some_and(|fence| {
                        blocks[old.lane.block as usize].pe == later.pe
                            && (fence.seen.contains(old.lane, old.epoch)
                                || (old.lane == made.lane && old.epoch <= fence.own))
                    }))
        }
    }
}
