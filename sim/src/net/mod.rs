//! The network: when a put, a signal or a get takes effect at another PE.
//!
//! Lanes hand over whole operations with their origin and never touch a peer's heap themselves. Each operation draws how
//! long it is held back, in simulated time, within what the ordering contract allows:
//!
//! | rule | how |
//! |---|---|
//! | operations are unordered | each has a time of its own, and so has each piece of a longer put |
//! | fence | the lane's later ones to a PE take effect behind what its PE has issued to it in the context so far |
//! | quiet | what the PE has issued in the context takes effect now; over a NIC, ahead of whatever it issues to that PE later |
//! | flush | sources are read now |
//! | put_signal | the signal takes effect behind the pieces of its own call |
//! | a kernel's end | everything takes effect before the stream goes on |
//! | words of the library | updates of one word keep their order |
//!
//! | file | what it holds |
//! |---|---|
//! | `op` | an operation, who issued it, what it does |
//! | `links` | what is pending |
//! | `effects` | memory as operations change it |
//! | `style` | how long operations are held back |
//! | `model` | times by latency and bandwidth, instead of draws |
//! | `path`, `faults` | what the test asks for |

mod effects;
mod faults;
mod links;
mod model;
mod op;
mod path;
mod style;

pub(crate) use effects::Effects;
pub(crate) use faults::Rung;
pub use faults::{Delay, Fault, Link, When};
pub use model::{LinkModel, Model};
pub(crate) use op::{Fences, Local, Origin, Remote, Team};
pub use path::{NoPath, Path};

use crate::block::Block;
use crate::choices::{Choices, Sequence};
use crate::clock::Clock;
use crate::config::{Config, SimError};
use crate::rng::{Rng, mix};
use crate::timeline::{Landing, Timeline};
use faults::{Fate, Faults, flip};
use links::{Behind, Due, Links, NEVER, Pending};
use model::Ports;
use op::{Effect, Op};
use shmem::hook::{At, Atomic, SignalUpdate, Space};
use shmem::state::SystemArea;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::rc::Rc;
use style::{Style, cuts, round_ns};

/// Labels of the random sequences: those of launches begin with smaller ones.
const DELAYS: u64 = 2;
const STYLE: u64 = 3;
const FAULTS: u64 = 4;
/// Links whose operations a report tells of; of others only the number.
const LINKS_TOLD: usize = 32;

/// Carries operations between PEs.
pub(crate) struct Network {
    effects: Effects,
    clock: Rc<Clock>,
    choices: Rc<Choices>,
    /// By issuing PE.
    rngs: Box<[Rng]>,
    style: Style,
    /// Between nodes.
    path: Path,
    /// PEs of a node.
    node_pes: u32,
    /// Offsets below are the library's.
    system_bytes: u64,
    /// Simulated time in which all lanes run once.
    round_ns: Cell<u64>,
    faults: Faults,
    /// Operations issued so far.
    issued: Cell<u64>,
    links: RefCell<Links>,
    /// When the next pending operation takes effect.
    next_ns: Cell<u64>,
    /// Pending operations that read or write shared memory.
    on_shared: Cell<usize>,
    timeline: Option<Rc<Timeline>>,
    model: Option<Ports>,
    /// Lanes that go on at a time, and how many there have been.
    sleepers: RefCell<BTreeMap<(u64, u64), Sleeper>>,
    slept: Cell<u64>,
}

/// A lane that goes on at a time: its block, and its rank there.
struct Sleeper {
    block: *const Block,
    rank: u32,
}

impl Network {
    pub(crate) fn new(
        config: &Config,
        effects: Effects,
        clock: &Rc<Clock>,
        choices: &Rc<Choices>,
        timeline: Option<Rc<Timeline>>,
    ) -> Result<Self, SimError> {
        let (path, node_pes) = config.path_and_node()?;
        Ok(Self {
            effects,
            clock: Rc::clone(clock),
            choices: Rc::clone(choices),
            rngs: (0..config.pes)
                .map(|pe| Rng::new(config.seed, &[DELAYS, pe.into()]))
                .collect(),
            style: Style::new(&Rng::new(config.seed, &[STYLE]), config.pes),
            path,
            node_pes,
            system_bytes: SystemArea::new(config.pes).bytes,
            round_ns: Cell::new(round_ns(0)),
            faults: Faults::new(config.faults.clone(), Rng::new(config.seed, &[FAULTS])),
            issued: Cell::new(0),
            links: RefCell::default(),
            next_ns: Cell::new(NEVER),
            on_shared: Cell::new(0),
            timeline,
            model: config.model.map(Ports::new),
            sleepers: RefCell::default(),
            slept: Cell::new(0),
        })
    }

    /// So many lanes run from now on.
    pub(crate) fn set_lanes(&self, lanes: u32) {
        self.round_ns.set(round_ns(lanes));
    }

    /// Whether a NIC carries operations from one PE to another.
    pub(crate) fn crosses(&self, from: u32, to: u32) -> bool {
        self.path(from, to) != Path::LoadStore
    }

    fn path(&self, from: u32, to: u32) -> Path {
        if from / self.node_pes == to / self.node_pes {
            Path::LoadStore
        } else {
            self.path
        }
    }
}

/// Issue.
impl Network {
    /// Copies local bytes to a PE, in elements of so many bytes. The source may be read until `flush` or `quiet` where
    /// `nbi`.
    pub(crate) fn put(
        &self,
        origin: Origin<'_>,
        to: Remote,
        source: Local,
        element: u32,
        nbi: bool,
        team: Option<Team>,
    ) {
        let op = origin.op();
        let draw = self.choose(&op);
        let element = element.max(1) as usize;
        let cuts = draw.map_or_else(Vec::new, |draw| cuts(draw, source.bytes / element));
        let ends = cuts.iter().map(|cut| cut * element).chain([source.bytes]);
        let (mut start, mut longest, mut piece) = (0, 0, 0);
        // A lane's own variables live as long as the call.
        let held = nbi && source.space != Space::Local;
        for end in ends {
            let part = Local {
                // SAFETY: inside the source.
                start: unsafe { source.start.add(start) },
                bytes: end - start,
                ..source
            };
            let to = Remote {
                offset: to.offset + start as u64,
                ..to
            };
            let effect = if held {
                Effect::Copy(part)
            } else {
                Effect::Write(self.effects.read_source(&op, part))
            };
            let draw = draw.map(|draw| draw ^ mix(piece));
            longest = longest.max(self.issue(&origin, op.clone(), to, effect, team, draw));
            (start, piece) = (end, piece + 1);
        }
        self.note(&op, "put", to.pe, piece, longest);
    }

    /// Copies a PE's bytes here; they are in place at return, or after `quiet` where `nbi`.
    pub(crate) fn get(&self, origin: Origin<'_>, from: Remote, destination: Local, nbi: bool) {
        let op = origin.op();
        if nbi && destination.space != Space::Local {
            self.issue_one(&origin, &op, from, Effect::Fetch(destination));
        } else {
            self.come_behind(&origin, from.pe, 0);
            self.at_once(&origin, &op, from, "get", destination.bytes as u64);
            self.effects.fetch(&op, from, destination);
        }
    }

    /// Writes one element.
    pub(crate) fn p(&self, origin: Origin<'_>, to: Remote, value: u128, bytes: u32) {
        self.issue_one(&origin, &origin.op(), to, Effect::Store(value, bytes));
    }

    /// Reads one element.
    pub(crate) fn g(&self, origin: Origin<'_>, from: Remote, bytes: u32) -> u128 {
        self.come_behind(&origin, from.pe, 0);
        let op = origin.op();
        self.at_once(&origin, &op, from, "g", bytes.into());
        self.effects.load(&op, from, bytes)
    }

    /// Updates a signal or counter, behind what the lanes of a `put_signal` have put.
    pub(crate) fn signal(&self, origin: Origin<'_>, to: u32, update: SignalUpdate, team: Option<Team>) {
        let op = origin.op();
        let draw = self.choose(&op);
        let to = Remote {
            pe: to,
            offset: update.offset,
        };
        let ns = self.issue(&origin, op.clone(), to, Effect::Signal(update), team, draw);
        self.note(&op, "signal", to.pe, 1, ns);
    }

    /// Atomic access to a word of 4 or 8 bytes; returns the old value where `atomic.fetches`.
    pub(crate) fn atomic(&self, origin: Origin<'_>, to: Remote, bytes: u32, atomic: &Atomic) -> u64 {
        if !atomic.fetches {
            self.issue_one(&origin, &origin.op(), to, Effect::Atomic(*atomic, bytes));
            return 0;
        }
        self.come_behind(&origin, to.pe, origin.lane.fences.get(origin.ctx));
        let op = origin.op();
        self.at_once(&origin, &op, to, "atomic", bytes.into());
        self.effects.atomic(&op, to, bytes, atomic)
    }

    /// Tells of an operation that is done at once.
    fn at_once(&self, origin: &Origin<'_>, op: &Op, at: Remote, name: &'static str, bytes: u64) {
        if let Some(timeline) = &self.timeline {
            let number = self.issued.replace(self.issued.get() + 1);
            timeline.issued(number, origin.lane);
            self.note_landing(op, number, at, name, bytes);
        }
    }

    fn note_landing(&self, op: &Op, number: u64, to: Remote, name: &'static str, bytes: u64) {
        if let Some(timeline) = &self.timeline {
            let Remote { pe, .. } = to;
            let (from, at, block) = (op.pe, op.at, op.block);
            timeline.landed(
                number,
                &Landing {
                    name,
                    pe,
                    from,
                    at,
                    block,
                    bytes,
                },
            );
        }
    }

    fn issue_one(&self, origin: &Origin<'_>, op: &Op, to: Remote, effect: Effect) {
        let (draw, name) = (self.choose(op), effect.name());
        let ns = self.issue(origin, op.clone(), to, effect, None, draw);
        self.note(op, name, to.pe, 1, ns);
    }

    fn choose(&self, op: &Op) -> Option<u64> {
        self.rngs[op.pe as usize].choose(&self.choices, Sequence::Operations(op.pe))
    }

    fn note(&self, op: &Op, what: &str, to: u32, pieces: u64, ns: u64) {
        if pieces > 1 || ns > 0 {
            self.choices.note(|| {
                let pieces = if pieces > 1 {
                    format!(" in {pieces} pieces,")
                } else {
                    String::new()
                };
                format!(
                    "{what} at {} from PE {} to PE {to}:{pieces} held back for {ns} ns",
                    op.at, op.pe
                )
            });
        }
    }

    /// Returns how long it is held back. The draw is None for none at all.
    fn issue(
        &self,
        origin: &Origin<'_>,
        op: Op,
        to: Remote,
        mut effect: Effect,
        team: Option<Team>,
        draw: Option<u64>,
    ) -> u64 {
        let number = self.issued.replace(self.issued.get() + 1);
        if let Some(timeline) = &self.timeline {
            timeline.issued(number, origin.lane);
        }
        let (now_ns, is_signal) = (self.clock.now_ns(), matches!(effect, Effect::Signal(_)));
        let delay = if let Some(ports) = &self.model {
            style::Delay {
                ns: self.travels(ports, &op, to.pe, &effect) - now_ns,
                tie: 0,
            }
        } else {
            draw.map_or_else(style::Delay::default, |draw| {
                let way = (op.pe, to.pe);
                self.style
                    .delay(draw, now_ns, self.round_ns.get(), way, effect.moves_data())
            })
        };
        let mut due = Due {
            ns: now_ns + delay.ns,
            tie: delay.tie,
            number,
        };
        if self.faults.any() {
            let hit = self.faults.take_hit();
            if matches!(hit.fate, Fate::Error | Fate::Reported) {
                if hit.fate == Fate::Error {
                    let text = format!(
                        "the network could not complete the {} at {} to PE {}",
                        effect.name(),
                        op.at,
                        to.pe
                    );
                    self.faults.add_error(op.pe, op.ctx, to.pe, text);
                }
                return 0;
            }
            if let Some(draw) = hit.flip {
                effect = self.damage(&op, effect, draw);
            }
            due.ns = if hit.fate == Fate::Frozen {
                NEVER
            } else {
                due.ns + hit.delay_ns
            };
        }
        let mut links = self.links.borrow_mut();
        let link = links.link(op.pe, op.ctx, to.pe);
        let mut behind = Behind::default();
        match self.path(op.pe, to.pe) {
            Path::QueuePairs => links.behind_all(link, &mut behind),
            _ => links.behind_fence(link, origin.lane.fences.get(op.ctx), &mut behind),
        }
        if self.path(op.pe, to.pe).only_acknowledges() {
            links.behind_acknowledged(link, &mut behind);
        }
        if is_signal {
            if let Some(team) = team {
                links.behind_team(link, team, &mut behind);
            }
            if to.offset < self.system_bytes {
                links.behind_word(link, to.offset, &mut behind);
            }
        }
        if let Some(latest) = behind.latest
            && (latest.ns, latest.tie) > (due.ns, due.tie)
        {
            (due.ns, due.tie) = (latest.ns, latest.tie);
        } else if behind.latest.is_none() && due.ns <= now_ns {
            drop(links);
            self.take_effect(&op, number, to, effect);
            return 0;
        }
        self.on_shared
            .set(self.on_shared.get() + usize::from(shared_memory(&effect).is_some()));
        let team = team.filter(|_| !is_signal);
        links.push(link, (op, to, effect), due, team, behind.across);
        drop(links);
        self.note_next();
        delay.ns
    }

    fn damage(&self, op: &Op, effect: Effect, draw: u64) -> Effect {
        let effect = match effect {
            Effect::Copy(source) => Effect::Write(self.effects.read_source(op, source)),
            other => other,
        };
        match effect {
            Effect::Write(mut bytes) => {
                flip(&mut bytes, draw);
                Effect::Write(bytes)
            }
            Effect::Store(value, bytes) => {
                let mut all = value.to_le_bytes();
                flip(&mut all[..bytes as usize], draw);
                Effect::Store(u128::from_le_bytes(all), bytes)
            }
            other => other,
        }
    }

    /// Before an operation that acts at once: what it comes behind takes effect.
    fn come_behind(&self, origin: &Origin<'_>, to: u32, fence: u64) {
        let pe = origin.pe();
        let mut links = self.links.borrow_mut();
        if links.coming() == 0 {
            return;
        }
        let link = links.link(pe, origin.ctx, to);
        let mut needed = Vec::new();
        match self.path(pe, to) {
            Path::QueuePairs => needed.push((link, u64::MAX)),
            _ => needed.push((link, fence)),
        }
        if self.path(pe, to).only_acknowledges() {
            let mut behind = Behind::default();
            links.behind_acknowledged(link, &mut behind);
            needed.extend(behind.across);
            needed.push((link, links.acknowledged(link)));
        }
        drop(links);
        for (link, number) in needed {
            self.force(link, number);
        }
    }

    /// Lets what a link has of numbers below take effect.
    fn force(&self, link: usize, number: u64) {
        let older = self.links.borrow_mut().take_older(&[link], number);
        for pending in older.into_iter().flatten() {
            for &(other, number) in &pending.across {
                self.force(other, number);
            }
            self.land(*pending);
        }
        self.note_next();
    }
}

/// Order and completion.
impl Network {
    /// Later operations of the lane take effect behind the earlier ones of its PE.
    pub(crate) fn fence(&self, origin: Origin<'_>) {
        origin.lane.fences.set(origin.ctx, self.issued.get());
    }

    /// The PE's earlier operations in the context are done. False where some of them never will be.
    pub(crate) fn quiet(&self, origin: Origin<'_>) -> bool {
        let mut links = self.links.borrow_mut();
        let mut visible = Vec::new();
        for (link, target) in links.of_context(origin.pe(), origin.ctx) {
            if self.path(origin.pe(), target).only_acknowledges() {
                links.acknowledge(link, self.issued.get());
            } else {
                visible.push(link);
            }
        }
        let older = links.take_older(&visible, u64::MAX);
        drop(links);
        // What a NIC reads or writes on this side is done when it is acknowledged.
        self.flush(origin);
        let done = older.is_some();
        older.into_iter().flatten().for_each(|pending| self.land(*pending));
        self.note_next();
        done
    }

    /// The PE's sources in the context may be written again.
    pub(crate) fn flush(&self, origin: Origin<'_>) {
        let mut links = self.links.borrow_mut();
        if links.coming() == 0 {
            return;
        }
        for (_, pending) in links.pending_of(origin.pe()) {
            if pending.op.ctx == origin.ctx {
                self.read_now(pending);
            }
        }
    }

    fn read_now(&self, pending: &mut Pending) {
        if let Effect::Copy(source) = pending.effect {
            self.on_shared
                .set(self.on_shared.get() - usize::from(source.space == Space::Shared));
            pending.effect = Effect::Write(self.effects.read_source(&pending.op, source));
        }
    }

    /// A block ends, and its shared memory goes: what is left to read there is read, what is left to write is written.
    pub(crate) fn block_ends(&self, pe: u32, block: usize) {
        if self.on_shared.get() == 0 {
            return;
        }
        let mut fetches = Vec::new();
        for (link, pending) in self.links.borrow_mut().pending_of(pe) {
            match pending.effect {
                Effect::Copy(source) if source.space == Space::Shared && source.block == block => {
                    self.read_now(pending);
                }
                Effect::Fetch(to) if to.space == Space::Shared && to.block == block => {
                    fetches.push((link, pending.due.number + 1));
                }
                _ => {}
            }
        }
        for (link, number) in fetches {
            self.force(link, number);
        }
    }

    /// How many operations were issued so far.
    pub(crate) fn issued(&self) -> u64 {
        self.issued.get()
    }

    /// Whether the first so many operations have taken effect where they are of this PE.
    pub(crate) fn settled(&self, pe: u32, issued: u64) -> bool {
        self.links.borrow().settled(pe, issued)
    }
}

/// Taking effect.
impl Network {
    /// Lets operations take effect whose time has come. Cheap where there are none.
    pub(crate) fn deliver(&self) {
        while self.next_ns.get() <= self.clock.now_ns() && self.next_ns.get() != NEVER {
            let due = self.links.borrow_mut().take_due(self.clock.now_ns());
            match due {
                Some(pending) => self.land(*pending),
                None => self.wake_sleeper(),
            }
            self.note_next();
        }
    }

    /// Nothing else happens: goes on to the time of the next operation. False where there is none.
    pub(crate) fn skip(&self) -> bool {
        let next_ns = self.next_ns.get();
        if next_ns == NEVER {
            return false;
        }
        self.clock.reach_ns(next_ns);
        self.deliver();
        true
    }

    fn land(&self, pending: Pending) {
        let Pending {
            op, to, effect, due, ..
        } = pending;
        self.on_shared
            .set(self.on_shared.get() - usize::from(shared_memory(&effect).is_some()));
        self.take_effect(&op, due.number, to, effect);
    }

    fn take_effect(&self, op: &Op, number: u64, to: Remote, effect: Effect) {
        self.note_landing(op, number, to, effect.name(), effect.bytes());
        match effect {
            Effect::Write(bytes) => self.effects.write(op, to, &bytes),
            Effect::Copy(source) => {
                let bytes = self.effects.read_source(op, source);
                self.effects.write(op, to, &bytes);
            }
            Effect::Store(value, bytes) => self.effects.store(op, to, value, bytes),
            Effect::Signal(update) => self.effects.signal(op, to.pe, update),
            Effect::Atomic(atomic, bytes) => {
                self.effects.atomic(op, to, bytes, &atomic);
            }
            Effect::Fetch(destination) => self.effects.fetch(op, to, destination),
        }
    }
}

/// Times of the model.
impl Network {
    fn across(&self, a: u32, b: u32) -> bool {
        a / self.node_pes != b / self.node_pes
    }

    /// When an operation that is issued now lands.
    fn travels(&self, ports: &Ports, op: &Op, to: u32, effect: &Effect) -> u64 {
        let (across, now_ns, call) = (self.across(op.pe, to), self.clock.now_ns(), call(op.block, op.at));
        match effect {
            // Asked for first, and sent by the other.
            Effect::Fetch(local) => {
                let asked = now_ns + ports.latency_ns(across);
                ports.landing_ns(asked, (to, op.pe), across, local.bytes as u64, call)
            }
            _ => ports.landing_ns(now_ns, (op.pe, to), across, effect.bytes(), call),
        }
    }

    /// When what acts on a PE and answers gets there, behind what it must not overtake: now, without a model.
    pub(crate) fn asks_ns(&self, origin: &Origin<'_>, to: u32, fence: u64) -> u64 {
        let now_ns = self.clock.now_ns();
        let pe = origin.pe();
        let Some(ports) = self.model.as_ref().filter(|_| to != pe) else {
            return now_ns;
        };
        let mut links = self.links.borrow_mut();
        let link = links.link(pe, origin.ctx, to);
        let mut behind = Behind::default();
        match self.path(pe, to) {
            Path::QueuePairs => links.behind_all(link, &mut behind),
            _ => links.behind_fence(link, fence, &mut behind),
        }
        if self.path(pe, to).only_acknowledges() {
            links.behind_acknowledged(link, &mut behind);
        }
        let earliest = now_ns + ports.latency_ns(self.across(pe, to));
        behind.latest.map_or(earliest, |due| earliest.max(due.ns))
    }

    /// When the answer of so many bytes is back.
    pub(crate) fn answers_ns(&self, origin: &Origin<'_>, from: u32, bytes: u64) -> u64 {
        let (now_ns, pe) = (self.clock.now_ns(), origin.pe());
        self.model.as_ref().map_or(now_ns, |ports| {
            let call = call(origin.lane.view.block, origin.at);
            ports.landing_ns(now_ns, (from, pe), self.across(pe, from), bytes, call)
        })
    }

    /// When the PE knows that what it has issued in the context has landed.
    pub(crate) fn done_ns(&self, origin: &Origin<'_>) -> u64 {
        let now_ns = self.clock.now_ns();
        let Some(ports) = &self.model else { return now_ns };
        let (links, pe) = (self.links.borrow(), origin.pe());
        let known = links.of_context(pe, origin.ctx).into_iter().map(|(link, target)| {
            let mut behind = Behind::default();
            links.behind_all(link, &mut behind);
            let landed = behind.latest.map_or(now_ns, |due| due.ns);
            landed.saturating_add(ports.latency_ns(self.across(pe, target)))
        });
        // What a frozen link holds is waited for elsewhere.
        known.filter(|&ns| ns != NEVER).max().unwrap_or(now_ns)
    }

    /// A lane goes on at a time.
    pub(crate) fn sleep(&self, block: &Block, rank: u32, ns: u64) {
        let number = self.slept.replace(self.slept.get() + 1);
        let block = std::ptr::from_ref(block);
        self.sleepers.borrow_mut().insert((ns, number), Sleeper { block, rank });
        self.note_next();
    }

    fn wake_sleeper(&self) {
        let first = self.sleepers.borrow_mut().pop_first();
        if let Some((_, Sleeper { block, rank })) = first {
            // SAFETY: a block lives as long as its lanes, and this one waits for nothing but this.
            unsafe { &*block }.wake(rank / 32, 1 << (rank % 32));
        }
    }

    fn note_next(&self) {
        let sleeper = self
            .sleepers
            .borrow()
            .first_key_value()
            .map_or(NEVER, |((ns, _), _)| *ns);
        self.next_ns.set(self.links.borrow().next_ns().min(sleeper));
    }
}

/// Parts of one call count as one message.
fn call(block: [u32; 3], at: At) -> model::Call {
    let [x, y, z] = block.map(|n| n as usize);
    (x ^ y << 20 ^ z << 40, std::ptr::from_ref(at).addr())
}

/// Faults.
impl Network {
    /// Whether anything is to break.
    pub(crate) fn breaks(&self) -> bool {
        self.faults.any()
    }

    /// Counts an operation before it is issued. Its PE dies of it where a text is returned.
    pub(crate) fn admit(&self, from: u32, to: u32) -> Option<String> {
        let hit = self.faults.count(from, to);
        (hit.fate == Fate::Death).then(|| format!("killed at its operation {}", hit.number))
    }

    /// What becomes of the doorbell that was admitted last.
    pub(crate) fn rung(&self) -> Rung {
        self.faults.rung()
    }

    /// Whether what acts at once on a PE has to wait for ever.
    pub(crate) fn frozen(&self, from: u32, to: u32) -> bool {
        self.faults.frozen(from, to)
    }

    /// An error completion that the PE has not met: which PE the operation was for, and a text.
    pub(crate) fn take_error(&self, pe: u32, ctx: Option<u32>) -> Option<(u32, String)> {
        self.faults.take_error(pe, ctx)
    }

    /// Tells what is in flight, for reports.
    pub(crate) fn report(&self) -> String {
        let mut text = String::new();
        let links = self.links.borrow();
        let mut busy: Vec<_> = links.counts().collect();
        // Frozen ones are what nothing goes on for.
        busy.sort_by_key(|(_, _, first, _)| first.due.ns != NEVER);
        let more = busy.len().saturating_sub(LINKS_TOLD);
        for (from, to, first, count) in busy.into_iter().take(LINKS_TOLD) {
            let (what, at) = (first.effect.name(), first.op.at);
            let frozen = if first.due.ns == NEVER {
                "the link is frozen: "
            } else {
                ""
            };
            let _ = writeln!(
                text,
                "network, PE {from} to PE {to}: {frozen}{count} operations have not taken effect, the first is the {what} at \
                 {at}, block {}, thread {} of kernel {}",
                crate::failure::triple(first.op.block),
                crate::failure::triple(first.op.thread),
                first.op.kernel
            );
        }
        if more > 0 {
            let _ = writeln!(text, "network: operations on {more} links more have not taken effect");
        }
        text
    }
}

fn shared_memory(effect: &Effect) -> Option<&Local> {
    match effect {
        Effect::Copy(local) | Effect::Fetch(local) if local.space == Space::Shared => Some(local),
        _ => None,
    }
}
