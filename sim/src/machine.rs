//! What a lane's calls do: the simulator's side of the intrinsics' hook.

use crate::block::{Block, bits};
use crate::check::{self, Channel, Checker, Issue, Kind, Order, Run};
use crate::choices::Sequence;
use crate::cut::Part;
use crate::lane::{Lane, SYNC, Wait};
use crate::memory;
use crate::net::{Local, Origin, Remote, Team};
use crate::queue::Paused;
use crate::timeline::{Detail, Span};
use shmem::fault::FaultKind;
use shmem::hook::{
    Access, At, Atomic, CollectiveCall, Group, Machine, Peer, Reach, Scope, SignalOp, SignalUpdate, Strength, Transfer,
    Watch,
};
use shmem::state::{FaultRecord, SystemArea};
use std::ops::Range;
use std::rc::Rc;

/// Dynamic shared memory is one array more, of an identity that `shared!` gives none.
const DYNAMIC: u64 = u64::MAX;

impl Lane {
    fn origin<'a>(&'a self, ctx: u32, at: At, checked: Option<&'a Rc<check::Op>>) -> Origin<'a> {
        Origin {
            lane: self,
            ctx,
            at,
            checked,
        }
    }

    /// Lets the checker look at a call; ends the lane where it finds that the program is wrong.
    fn check(&self, look: impl FnOnce(&Checker, &mut Order)) {
        let world = self.world();
        if let Some(check) = &world.check
            && !self.must_not_wait()
        {
            look(check, &mut self.order.borrow_mut());
            self.end_if_failed();
        }
    }

    /// Notes a part of a call; whether it is to do nothing.
    fn leaves_out(&self, part: Part, at: At) -> bool {
        self.world().cut.as_ref().is_some_and(|cut| {
            cut.pass(part, at);
            cut.leaves_out(at)
        })
    }

    /// Notes an operation on data, which is never left out.
    fn moves_data(&self, at: At) {
        if let Some(cut) = &self.world().cut {
            cut.pass(Part::Data, at);
        }
    }

    /// Memory that nobody has written yet.
    fn fresh(&self, start: u64, bytes: usize) {
        if let Some(check) = &self.world().check {
            check.fresh(start, bytes as u64);
        }
    }

    /// A lane whose call has shown a bug goes no further.
    pub(crate) fn end_if_failed(&self) {
        if self.world().failure().is_some() && !self.must_not_wait() {
            self.leave();
        }
    }

    /// What the checker has to know of an operation that is issued now.
    fn issue(&self, issue: Issue, peer: Peer, at: At) -> Option<Rc<check::Op>> {
        let check = self.world().check.as_ref()?;
        Some(check.issue(&mut self.order.borrow_mut(), issue, peer.ctx, peer.pe, at))
    }

    /// Memory of a PE, which must exist and lie inside its heap.
    fn remote(&self, pe: u32, offset: u64, bytes: u64, at: At) -> Remote {
        let (pes, heap) = (self.world().pes(), self.world().memory.heaps.bytes());
        if pe >= pes {
            self.fault_at(FaultKind::Pe, pe.into(), pes.into(), at);
        }
        match offset.checked_add(bytes) {
            Some(end) if end <= heap => {
                if self.world().state(self.block().home.pe).peer_base[pe as usize] == 0
                    && self.world().adapters.is_some()
                {
                    self.misuse(
                        at,
                        format!("this call knows no way to PE {pe}, which load and store does not reach"),
                    );
                }
                self.admit(pe, at);
                Remote { pe, offset }
            }
            end => self.fault_at(FaultKind::Range, offset, end.unwrap_or(u64::MAX), at),
        }
    }

    #[cold]
    fn fault_at(&self, kind: FaultKind, a: u64, b: u64, at: At) -> ! {
        let (block, thread) = (self.view.block, self.view.thread);
        let mut record = FaultRecord {
            ready: 1,
            kind: kind as u32,
            block,
            thread,
            a,
            b,
            ..FaultRecord::EMPTY
        };
        record.locate(at);
        self.fault(&record)
    }

    /// A block's shared array of this identity.
    fn array(&self, block: &Block, id: u64, bytes: usize, at: At) -> *mut u8 {
        block
            .shared
            .array(id, bytes, |start| self.fresh(start, bytes))
            .unwrap_or_else(|first| {
                let message =
                    format!("a shared array of {first} bytes is asked for again with {bytes}: one array has one size");
                self.misuse(at, message)
            })
    }

    /// Goes on, where the lane was the last to come to a barrier of the block or wider; waits for it else.
    fn wait_unless(&self, opened: bool, at: At) {
        if !opened {
            self.suspend();
        } else if self.block().live() > 1 {
            self.maybe_give_way();
        } else {
            self.count_call(at);
        }
    }

    /// Its member's part of this side of a transfer.
    fn local(&self, transfer: &Transfer, mine: &Range<u64>) -> Local {
        Local {
            start: (transfer.local + mine.start) as *mut u8,
            bytes: (mine.end - mine.start) as usize,
            space: transfer.local_space,
            block: std::ptr::from_ref(self.block()).addr(),
        }
    }

    /// A signal, behind what the lanes of its `put_signal` have put.
    fn signal_behind(
        &self,
        update: SignalUpdate,
        to: Peer,
        team: Option<Team>,
        checked: Option<&Rc<check::Op>>,
        at: At,
    ) {
        self.count_call(at);
        let origin = self.origin(to.ctx, at, checked);
        let to = self.remote(to.pe, update.offset, 8, at);
        self.world().net.signal(origin, to.pe, update, team);
        self.end_if_failed();
    }

    /// A request that is answered gets to its PE, where a model says when.
    fn asks(&self, origin: &Origin<'_>, to: u32, fence: u64) {
        self.sleep_until(self.world().net.asks_ns(origin, to, fence), origin.at);
    }

    /// The answer comes back.
    fn gets_answer(&self, origin: &Origin<'_>, from: u32, bytes: u64) {
        self.sleep_until(self.world().net.answers_ns(origin, from, bytes), origin.at);
    }

    /// Waits for a time of the model.
    fn sleep_until(&self, ns: u64, at: At) {
        while self.world().time_ns() < ns && !self.must_not_wait() {
            self.wait.set(Wait::Memory(Watch::CLOSURE));
            self.at.set(Some(at));
            self.world().net.sleep(self.block(), self.rank, ns);
            self.suspend();
        }
    }

    /// The slice of an operation in a timeline.
    pub(crate) fn reach_span(&self, name: &'static str, leads: bool, pe: u32, bytes: u64, at: At) -> Span<'_> {
        self.span(name, leads, at, Detail::Reach { pe, bytes })
    }

    #[cold]
    pub(crate) fn misuse(&self, at: At, message: String) -> ! {
        self.fail_at(at, message);
        self.leave()
    }

    /// The sync of a call that every member makes.
    fn sync_in(&self, call: &'static str, group: Group, at: At) {
        self.call.set(call);
        self.sync_lanes(group, at);
        self.call.set(SYNC);
    }

    /// Waits until every member has come.
    fn sync_lanes(&self, group: Group, at: At) {
        if self.must_not_wait() {
            return;
        }
        let _span = match group {
            Group::Thread => None,
            _ => Some(self.span_of(sync_name(group), group, at)),
        };
        match group {
            Group::Thread => {}
            Group::Warp(mask) => self.meet(mask, None, at),
            Group::Block => {
                let block = self.block();
                self.wait.set(Wait::Barrier);
                self.at.set(Some(at));
                self.wait_unless(block.arrive(self.rank), at);
            }
            Group::Warps { first, count } => {
                let (block, warp) = (self.block(), self.rank / 32);
                if !(first..first + count).contains(&warp) || first + count > block.warps.len() as u32 {
                    let message =
                        format!("warp {warp} calls for {count} warps from {first} on, which it is not one of");
                    self.misuse(at, message);
                }
                self.wait.set(Wait::Warps { first, count });
                self.at.set(Some(at));
                self.wait_unless(block.arrive_at_warps(self.rank, first, count), at);
            }
            Group::Cluster => {
                self.wait.set(Wait::Cluster);
                self.at.set(Some(at));
                self.wait_unless(self.block().arrive_at_cluster(self.rank), at);
            }
            Group::Grid => {
                self.wait.set(Wait::Grid);
                self.at.set(Some(at));
                self.wait_unless(self.block().arrive_at_grid(self.rank), at);
            }
        }
    }

    /// What each lane of a tile has put in the put_signal under way.
    fn parts(&self, group: Group) -> Vec<Run> {
        let part = |lane: &Lane| lane.order.borrow().last_part();
        let block = self.block();
        let threads = |threads: Range<u32>| {
            let all = block.lanes.len() as u32;
            block.lanes[threads.start.min(all) as usize..threads.end.min(all) as usize].iter()
        };
        let warp = self.rank / 32 * 32;
        match group {
            Group::Thread => vec![part(self)],
            Group::Warp(mask) => bits(mask & block.warps[warp as usize / 32].exists)
                .map(|bit| part(&block.lanes[(warp + bit) as usize]))
                .collect(),
            Group::Warps { first, count } => threads(32 * first..32 * (first + count)).map(part).collect(),
            Group::Block => block.lanes.iter().map(part).collect(),
            Group::Cluster => block
                .cluster
                .blocks()
                .iter()
                .flat_map(|block| block.lanes.iter().map(part))
                .collect(),
            Group::Grid => block
                .grid
                .blocks()
                .iter()
                .flat_map(|block| block.lanes.iter().map(part))
                .collect(),
        }
    }

    /// Waits for the lanes of the warp in `mask`.
    fn meet(&self, mask: u32, exchange: Option<(u64, *mut [u64; 32])>, at: At) {
        let (block, warp, lane) = (self.block(), self.rank / 32, self.rank % 32);
        if mask & 1 << lane == 0 {
            self.misuse(
                at,
                format!("lane {lane} calls for the lanes {mask:#x}, which it is not one of"),
            );
        }
        let mask = mask & block.warps[warp as usize].exists;
        self.wait.set(if exchange.is_some() {
            Wait::Exchange(mask)
        } else {
            Wait::Sync(mask)
        });
        self.at.set(Some(at));
        block.warps[warp as usize].come(lane, mask, exchange);
        let met = block.meet(warp, mask, 1 << lane);
        if exchange.is_some() {
            self.check_same_call(met, at);
        }
        if met == 0 {
            self.suspend();
        } else if met == 1 << lane {
            self.count_call(at);
        } else {
            self.maybe_give_way();
        }
    }

    /// Lanes exchange in one instruction: a shuffle and a vote, or two shuffles of two branches, do not meet on a GPU.
    fn check_same_call(&self, met: u32, at: At) {
        let block = self.block();
        let others = (0..32).filter(|lane| met & 1 << lane != 0);
        for lane in others {
            let other = block.lanes[(self.rank / 32 * 32 + lane) as usize].at.get();
            if let Some(there) = other.filter(|there| **there != *at) {
                self.misuse(
                    at,
                    format!(
                        "lane {} is here and lane {lane} at {there}: lanes that shuffle or vote together make the same call, \
                         so put it outside the branch, or name only the lanes of the branch (SubWarp)",
                        self.rank % 32
                    ),
                );
            }
        }
    }

    /// A loop of calls that don't wait gives way now and then, so that others run and the time limit is seen.
    fn count_call(&self, at: At) {
        let calls = self.calls.get() + 1;
        self.calls.set(calls % CALLS);
        if calls == CALLS && !self.must_not_wait() {
            self.at.set(Some(at));
            self.block().wake(self.rank / 32, 1 << (self.rank % 32));
            self.suspend();
        }
    }

    /// Others may go first here.
    fn pass(&self, at: At) {
        if !self.must_not_wait() {
            self.at.set(Some(at));
            self.maybe_give_way();
        }
    }

    /// The last to arrive mostly goes on at once; sometimes the others go first, so that no program counts on either.
    fn maybe_give_way(&self) {
        let block = self.block();
        if block
            .queue
            .choose(Sequence::Lanes)
            .is_some_and(|draw| draw.is_multiple_of(4))
        {
            let (pe, rank) = (block.home.pe, block.home.rank);
            block
                .queue
                .note(|| format!("thread {} of block {rank} on PE {pe} gives way", self.rank));
            block.wake(self.rank / 32, 1 << (self.rank % 32));
            self.suspend();
        }
    }
}

/// What a sync is called in a timeline.
fn sync_name(group: Group) -> &'static str {
    match group {
        Group::Thread => "sync",
        Group::Warp(_) => "sync of lanes",
        Group::Warps { .. } => "sync of warps",
        Group::Block => "sync of the block",
        Group::Cluster => "sync of the cluster",
        Group::Grid => "sync of the grid",
    }
}

/// Calls of a lane that don't wait, between two times that it gives way.
pub(crate) const CALLS: u32 = 1 << 14;

/// A member's part of the bytes of a transfer: whole elements, one run each. The contract does not say which, so it is the
/// seed that does: no program may count on a member moving what it has written itself.
fn share(transfer: &Transfer, seed: u64) -> Range<u64> {
    let (element, size) = (u64::from(transfer.element.max(1)), u64::from(transfer.size.max(1)));
    let per_member = (transfer.bytes / element).div_ceil(size);
    // The same for all members of a call.
    let turned = (seed ^ transfer.remote ^ transfer.bytes).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let rank = (u64::from(transfer.rank) + turned) % size;
    let at = |rank: u64| (rank * per_member * element).min(transfer.bytes);
    at(rank)..at(rank + 1)
}

impl Machine for Lane {
    fn sync(&self, group: Group, at: At) {
        if !self.leaves_out(Part::Sync, at) {
            self.sync_lanes(group, at);
        }
    }

    fn exchange(&self, mask: u32, value: u64, at: At) -> [u64; 32] {
        let mut result = [0; 32];
        if self.leaves_out(Part::Value, at) {
            return [value; 32];
        }
        if !self.must_not_wait() {
            self.meet(mask, Some((value, &raw mut result)), at);
        }
        result
    }

    fn load(&self, access: Access, at: At) -> u128 {
        self.count_call(at);
        let at = match self.watched.get() {
            Some((start, end, at)) if (start..end).contains(&access.address) => at,
            _ => at,
        };
        if !self.leaves_out(Part::Value, at) {
            self.check(|check, order| check.access(order, &access, Kind::Load, at));
        }
        // SAFETY: whoever calls the intrinsics promises a live, aligned word.
        unsafe { memory::load(access.address, access.bytes) }
    }

    fn store(&self, access: Access, value: u128, at: At) {
        if self.leaves_out(Part::Value, at) {
            return;
        }
        if let Some(adapters) = &self.world().adapters
            && adapters.loses(self.block().home.pe, access.address)
        {
            return;
        }
        self.check(|check, order| {
            // SAFETY: as in `load`.
            let same = unsafe { memory::load(access.address, access.bytes) == memory::low(value, access.bytes) };
            check.access(order, &access, if same { Kind::SameStore } else { Kind::Store }, at);
        });
        // SAFETY: as in `load`.
        unsafe { self.world().memory.store(access.address, access.bytes, value) };
    }

    fn atomic(&self, access: Access, atomic: &Atomic, at: At) -> u64 {
        self.count_call(at);
        self.check(|check, order| check.atomic(order, &access, at));
        let Atomic {
            op, operand, comparand, ..
        } = *atomic;
        // SAFETY: as in `load`.
        unsafe {
            self.world()
                .memory
                .atomic(access.address, access.bytes, op, operand, comparand)
        }
    }

    fn atomic_at(&self, offset: u64, bytes: u32, to: Peer, strength: Strength, atomic: &Atomic, at: At) -> u64 {
        self.count_call(at);
        self.moves_data(at);
        let _span = self.reach_span("atomic", true, to.pe, bytes.into(), at);
        let word = self.remote(to.pe, offset, bytes.into(), at);
        if atomic.fetches {
            self.reach(to.pe, at);
        }
        let issue = Issue::Atomic {
            strength,
            fetches: atomic.fetches,
            network: self.world().net.crosses(self.block().home.pe, to.pe),
        };
        let checked = self.issue(issue, to, at);
        let origin = self.origin(to.ctx, at, checked.as_ref());
        if atomic.fetches {
            self.asks(&origin, to.pe, self.fences.get(to.ctx));
        }
        let old = self.world().net.atomic(origin, word, bytes, atomic);
        if atomic.fetches {
            self.gets_answer(&origin, to.pe, bytes.into());
        }
        self.end_if_failed();
        if let Some(op) = checked.filter(|_| atomic.fetches) {
            let acquires = matches!(strength, Strength::Acquire | Strength::AcqRel);
            let address = self.world().memory.heaps.base(to.pe) as u64 + offset;
            self.check(|check, order| check.observed(order, &op, address, acquires));
        }
        old
    }

    fn fence_memory(&self, _: Scope, at: At) {
        if self.leaves_out(Part::Fence, at) {
            return;
        }
        self.check(|_, order| order.fence_memory());
        // Memory that a lane reaches is sequentially consistent here.
    }

    fn begin_collective(&self, call: &CollectiveCall, at: At) {
        let pe = self.block().home.pe;
        if !self.must_not_wait()
            && let built_in = call.team < SystemArea::new(self.world().pes()).teams
            && let Err(message) = self.world().agreement.begin(call, built_in, pe, at)
        {
            self.misuse(at, message);
        }
    }

    fn put(&self, transfer: &Transfer, at: At) {
        self.count_call(at);
        self.moves_data(at);
        let mut transfer = transfer;
        let without_signal = Transfer {
            signal: None,
            ..*transfer
        };
        if transfer.signal.is_some() && self.leaves_out(Part::PutSignal, at) {
            transfer = &without_signal;
        }
        let to = self.remote(transfer.peer.pe, transfer.remote, transfer.bytes, at);
        let mine = share(transfer, self.world().seed);
        let team = transfer.signal.map(|_| Team::of(self, transfer.group));
        let name = match (transfer.signal, transfer.blocking) {
            (Some(_), _) => "put_signal",
            (None, true) => "put",
            (None, false) => "put_nbi",
        };
        let _span = self.reach_span(name, transfer.rank == 0, to.pe, transfer.bytes, at);
        let (issue, call) = match transfer.signal {
            Some(_) => (Issue::PutSignal, "put_signal"),
            None => (
                Issue::Put {
                    nbi: !transfer.blocking,
                },
                "put",
            ),
        };
        self.order.borrow_mut().no_part();
        if !mine.is_empty() {
            let to = Remote {
                offset: to.offset + mine.start,
                ..to
            };
            let mut checked = self.issue(issue, transfer.peer, at);
            if let Some(update) = transfer.signal.filter(|update| update.op == SignalOp::Add) {
                let counter = self.world().memory.heaps.base(to.pe) as u64 + update.offset;
                checked = checked.map(|op| Checker::counted(op, counter));
            }
            let origin = self.origin(transfer.peer.ctx, at, checked.as_ref());
            let (source, nbi) = (self.local(transfer, &mine), !transfer.blocking);
            self.world().net.put(origin, to, source, transfer.element, nbi, team);
            self.end_if_failed();
        }
        if let Some(update) = transfer.signal {
            self.sync_in(call, transfer.group, at);
            if transfer.rank == 0 {
                let issue = match update.op {
                    SignalOp::Set => Issue::TailSet,
                    SignalOp::Add => Issue::TailAdd,
                };
                let Peer { pe, ctx } = transfer.peer;
                let checked = self.issue(issue, transfer.peer, at);
                let checked = checked.map(|op| Checker::tail(op, Channel { ctx, pe }, self.parts(transfer.group)));
                self.signal_behind(update, transfer.peer, team, checked.as_ref(), at);
            }
        }
        if transfer.blocking {
            self.sync_in(call, transfer.group, at);
        }
    }

    fn get(&self, transfer: &Transfer, at: At) {
        self.count_call(at);
        self.moves_data(at);
        let from = self.remote(transfer.peer.pe, transfer.remote, transfer.bytes, at);
        let mine = share(transfer, self.world().seed);
        let name = if transfer.blocking { "get" } else { "get_nbi" };
        let _span = self.reach_span(name, transfer.rank == 0, from.pe, transfer.bytes, at);
        if transfer.blocking {
            self.reach(transfer.peer.pe, at);
        }
        if !mine.is_empty() {
            let from = Remote {
                offset: from.offset + mine.start,
                ..from
            };
            let checked = self.issue(
                Issue::Get {
                    nbi: !transfer.blocking,
                },
                transfer.peer,
                at,
            );
            let origin = self.origin(transfer.peer.ctx, at, checked.as_ref());
            let (destination, nbi) = (self.local(transfer, &mine), !transfer.blocking);
            if transfer.blocking {
                self.asks(&origin, from.pe, 0);
            }
            self.world().net.get(origin, from, destination, nbi);
            if transfer.blocking {
                self.gets_answer(&origin, from.pe, mine.end - mine.start);
            }
            self.end_if_failed();
        }
        if transfer.blocking {
            self.sync_in("get", transfer.group, at);
        }
    }

    fn p(&self, offset: u64, value: u128, bytes: u32, to: Peer, at: At) {
        self.count_call(at);
        self.moves_data(at);
        let word = self.remote(to.pe, offset, bytes.into(), at);
        let _span = self.reach_span("p", true, to.pe, bytes.into(), at);
        let address = self.world().memory.heaps.base(to.pe) as u64 + offset;
        let again = self.order.borrow().has_fetched(address);
        let checked = self.issue(Issue::P { again }, to, at);
        self.world()
            .net
            .p(self.origin(to.ctx, at, checked.as_ref()), word, value, bytes);
        self.end_if_failed();
    }

    fn packet(&self, offset: u64, value: u128, bytes: u32, to: Peer, at: At) {
        self.count_call(at);
        self.moves_data(at);
        let word = self.remote(to.pe, offset, bytes.into(), at);
        let _span = self.reach_span("packet", true, to.pe, bytes.into(), at);
        let checked = self.issue(Issue::Packet, to, at);
        self.world()
            .net
            .p(self.origin(to.ctx, at, checked.as_ref()), word, value, bytes);
        self.end_if_failed();
    }

    fn g(&self, offset: u64, bytes: u32, from: Peer, at: At) -> u128 {
        self.count_call(at);
        self.moves_data(at);
        let word = self.remote(from.pe, offset, bytes.into(), at);
        let _span = self.reach_span("g", true, from.pe, bytes.into(), at);
        self.reach(from.pe, at);
        let checked = self.issue(Issue::G, from, at);
        let origin = self.origin(from.ctx, at, checked.as_ref());
        self.asks(&origin, from.pe, 0);
        let value = self.world().net.g(origin, word, bytes);
        self.gets_answer(&origin, from.pe, bytes.into());
        self.end_if_failed();
        let address = self.world().memory.heaps.base(from.pe) as u64 + offset;
        self.check(|_, order| order.fetched(address));
        value
    }

    fn signal(&self, update: SignalUpdate, to: Peer, relaxed: bool, at: At) {
        if self.leaves_out(Part::Signal, at) {
            return;
        }
        let issue = match update.op {
            _ if update.offset < self.world().system_bytes() => Issue::Sync { relaxed },
            SignalOp::Set => Issue::SignalSet { relaxed },
            SignalOp::Add => Issue::SignalAdd { relaxed },
        };
        let name = if update.offset < self.world().system_bytes() {
            "barrier signal"
        } else {
            "signal"
        };
        let _span = self.reach_span(name, true, to.pe, 8, at);
        let checked = self.issue(issue, to, at);
        self.signal_behind(update, to, None, checked.as_ref(), at);
    }

    fn fence(&self, group: Group, ctx: u32, at: At) {
        if self.leaves_out(Part::Fence, at) {
            return;
        }
        let _span = self.span_of("fence", group, at);
        // All members' earlier operations come before each member's later ones.
        self.sync_in("fence", group, at);
        self.meet_error(Some(ctx), at);
        self.check(|_, order| order.fence(ctx));
        self.world().net.fence(self.origin(ctx, at, None));
    }

    fn quiet(&self, group: Group, ctx: u32, at: At) {
        if self.leaves_out(Part::Quiet, at) {
            return;
        }
        self.pass(at);
        let _span = self.span_of("quiet", group, at);
        self.meet_error(Some(ctx), at);
        self.sleep_until(self.world().net.done_ns(&self.origin(ctx, at, None)), at);
        while !self.world().net.quiet(self.origin(ctx, at, None)) {
            self.frozen(at);
        }
        self.check(|_, order| order.quiet(ctx));
        self.sync_in("quiet", group, at);
        // What the others have quieted is behind each member as well.
        if group != Group::Thread {
            self.check(|_, order| order.fence(ctx));
        }
    }

    fn flush(&self, group: Group, ctx: u32, at: At) {
        if self.leaves_out(Part::Flush, at) {
            return;
        }
        let _span = self.span_of("flush", group, at);
        self.meet_error(Some(ctx), at);
        self.world().net.flush(self.origin(ctx, at, None));
        self.check(|_, order| order.flush(ctx));
        self.sync_in("flush", group, at);
    }

    fn watching(&self, wait: Option<(&Watch, At)>) {
        self.watched
            .set(wait.filter(|(watch, _)| watch.address != 0).map(|(watch, at)| {
                let bytes = watch.count.saturating_sub(1) * u64::from(watch.stride) + u64::from(watch.bytes);
                (watch.address, watch.address + bytes, at)
            }));
    }

    fn leaves_out_wait(&self, at: At) -> bool {
        self.leaves_out(Part::Wait, at)
    }

    fn pause(&self, watch: &Watch, at: At) {
        if self.must_not_wait() {
            self.leave();
        }
        self.meet_error(None, at);
        let adapters = self.world().adapters.as_ref();
        let watch = &adapters.map_or(*watch, |adapters| adapters.watched(*watch));
        self.wait.set(Wait::Memory(*watch));
        self.at.set(Some(at));
        let block = self.block();
        block
            .queue
            .pause(Paused::new(block.home.slot, self.rank, watch, self.read_clock.take()));
        if let Some(timeline) = &self.world().timeline {
            timeline.waits(self, watch, at);
        }
        self.suspend();
        if let Some(timeline) = &self.world().timeline {
            timeline.looks(self);
        }
    }

    fn first_shared(&self, id: u64, bytes: usize, at: At) -> *mut u8 {
        let Some(first) = self.block().cluster.first() else {
            self.misuse(at, "the first block of the cluster has ended".to_owned());
        };
        self.array(&first, id, bytes, at)
    }

    fn shared(&self, id: u64, bytes: usize, at: At) -> *mut u8 {
        self.array(self.block(), id, bytes, at)
    }

    fn dynamic_shared(&self) -> (*mut u8, usize) {
        let block = self.block();
        let bytes = block.kernel.shared_bytes;
        let start = block
            .shared
            .array(DYNAMIC, bytes, |start| self.fresh(start, bytes))
            .expect("a launch has one size of dynamic shared memory");
        (start, bytes)
    }

    fn copy_async(&self, from: Access, to: Access, at: At) {
        // From now on it may read and write, whenever its effect is seen.
        self.check(|check, order| {
            check.access(order, &from, Kind::Load, at);
            check.access(order, &to, Kind::Store, at);
        });
        self.copies.begin((from, to));
    }

    fn commit_async(&self) {
        self.copies.commit();
    }

    fn wait_async(&self, pending: u32, at: At) {
        if self.leaves_out(Part::Wait, at) {
            return;
        }
        for (from, to) in self.copies.complete(pending) {
            let value = self.load(from, at);
            self.store(to, value, at);
        }
    }

    fn reach(&self, call: Option<&Reach>, at: At) {
        match call {
            Some(call) => {
                let span = self.reach_span(call.name, call.leads, call.pe, call.bytes, at);
                self.reaching.set(span.keep());
            }
            None => {
                if let (Some(track), Some(timeline)) = (self.reaching.take(), &self.world().timeline) {
                    timeline.end(track);
                }
            }
        }
    }

    fn ring(&self, register: u64, value: u64, at: At) {
        self.count_call(at);
        self.rings(register, value, at);
    }

    fn now_ns(&self) -> u64 {
        self.read_clock.set(true);
        self.world().now_ns()
    }

    fn fault(&self, record: &FaultRecord) -> ! {
        self.fail(*record, None);
        self.leave()
    }

    fn out_of_stack(&self, at: At) -> ! {
        self.overflows(at)
    }
}

#[cfg(test)]
mod tests;
