//! Collectives of whole grids in which no grid syncs: block b of each member works with block b of every other, on a share
//! of the data of its own. The library's kernels for calls on streams are made of them (`shmem-device`).
//!
//! A call by the tile `Grid` would sync the grid before and behind each of its two meetings, since other blocks may have
//! made the source, and others will read the result. Here neither happens: the kernel does nothing else.
//! 1. What is on the member's stream before the kernel has ended when its blocks begin. So each of its blocks may tell for it,
//!    by a release that covers what the stream has done, that the source is there and that the destination may be written.
//! 2. Block b of a member reads from others, and writes to them, once it has heard from block b of each: it needs no other
//!    block.
//! 3. What one block writes no other block of any member reads or writes. (One reads and writes it, in place.)
//! 4. A block ends once it has heard from block b of every other that this one is done with the share: so when the kernel
//!    has ended, everything that anyone did here is done, and what comes next on the stream sees it.
//!
//! All blocks must be resident at once, since block b may wait for a block that begins last elsewhere. How many there are, is the
//! same on every member. Each block counts its meetings in memory, so that graphs may be replayed.
//!
//! One block alone may take packets instead: one flight.

use super::boxes::{Exchange, Pieces, exchange_parts, pieces};
use super::broadcast::by_packets;
use super::lines::Pass;
use super::op::{ByName, Combine};
pub use super::op::{Named, OpName};
use super::{Algorithm, Collective, Part, begin, bytes_of, pieces_of};
use crate::arch::{self, Space, Strength};
use crate::fault::{FaultKind, check};
use crate::state::{SYNC_SLOTS, TeamBlock};
use crate::team::Team;
use crate::tile::{Block, Tile};
use crate::{KernelArg, SymSlice, g, get, get_nbi, put_nbi};
use core::marker::PhantomData;

/// Which collective.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// broadcast
    Broadcast,
    /// fcollect
    Fcollect,
    /// alltoall
    Alltoall,
    /// alltoallv
    Alltoallv,
    /// reduce
    Reduce,
    /// `reduce_scatter`
    ReduceScatter,
    /// `reduce_to`
    ReduceTo,
}

/// What the host has chosen for a call, alike on all members.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Bytes that one member works on: all; or of a two-shot its part, a multiple of 16; or what goes to one member.
    pub part: u64,
    /// Bytes of each part that a block works on.
    pub share: u64,
    /// Which.
    pub call: Call,
    /// 0 packets, 1 one-shot, 2 two-shot.
    pub algorithm: u32,
    /// Index of the root, if there is one.
    pub root: u32,
    /// What a reduction does.
    pub op: OpName,
}

// SAFETY: numbers, of which the host makes those that `Call` and `OpName` have.
unsafe impl KernelArg for Plan {}

const PACKETS: u32 = Algorithm::Packets as u32;
const TWO_SHOT: u32 = Algorithm::TwoShot as u32;

impl Plan {
    /// This block's share of a run of so many bytes: where it begins, and how long it is.
    #[inline(always)]
    #[track_caller]
    fn share_of(self, bytes: u64) -> (u64, u64) {
        let start = (u64::from(Block.id()) * self.share).min(bytes);
        (start, self.share.min(bytes - start))
    }

    /// The part of member `index` of a run of so many bytes.
    #[inline(always)]
    fn part_of(self, index: u32, bytes: u64) -> (u64, u64) {
        let start = (u64::from(index) * self.part).min(bytes);
        (start, self.part.min(bytes - start))
    }
}

/// This block, as it meets those of the same number on all members.
#[derive(Clone, Copy)]
struct Meeting {
    team: Team,
    me: u32,
    n: u32,
    /// Where the block's words begin in the heap, one for each member.
    words: u64,
    epoch_at: u64,
    epoch: u64,
}

impl Meeting {
    /// The members have come: what their streams did before is done.
    #[inline(always)]
    #[track_caller]
    fn begin(team: Team) -> Self {
        let (slot, block) = (team.slot_number(), u64::from(Block.id()));
        check(
            (slot as usize) < SYNC_SLOTS,
            FaultKind::Slot,
            slot.into(),
            SYNC_SLOTS as u64,
        );
        let (me, n, world) = (team.my_pe(), team.n_pes(), arch::n_pes());
        let start = team.sync_offset() + TeamBlock::meetings(world) + u64::from(slot) * TeamBlock::meeting_bytes(world);
        let epoch_at = arch::heap_base() + start + block * 8;
        let meeting = Self {
            team,
            me,
            n,
            words: start + (u64::from(TeamBlock::MEETING_BLOCKS) + block * u64::from(n)) * 8,
            epoch_at,
            // SAFETY: the slot has a word for each block; the host launches no more than fit (`meeting_blocks`).
            epoch: unsafe { arch::load::<u64>(epoch_at, Space::Symmetric, Strength::Weak) },
        };
        meeting.meet::<false>(meeting.epoch + 1);
        meeting
    }

    /// The members are done with this block's share.
    #[inline(always)]
    #[track_caller]
    fn end(self) {
        self.meet::<true>(self.epoch + 2);
        if Block.leader() {
            // SAFETY: as in `begin`. Every thread has read the old epoch before it came to the first meeting.
            unsafe { arch::store(self.epoch_at, self.epoch + 2, Space::Symmetric, Strength::Weak) };
        }
    }

    #[inline(always)]
    #[track_caller]
    fn meet<const QUIET: bool>(self, epoch: u64) {
        arch::arrive::<Block, QUIET>(Block, self.n);
        for index in Block.strided(self.n) {
            if index != self.me {
                // SAFETY: the block's words; every member has the same layout.
                unsafe { arch::tell::<QUIET>(self.words + u64::from(self.me) * 8, epoch, self.team.member(index)) };
            }
        }
        for index in Block.strided(self.n) {
            if index != self.me {
                let at = arch::heap_base() + self.words + u64::from(index) * 8;
                arch::spin(&arch::watch(at, 8, ">=", epoch), || {
                    // SAFETY: as above.
                    unsafe { arch::load::<u64>(at, Space::Symmetric, Strength::Acquire) >= epoch }
                });
            }
        }
        Block.sync();
    }

    /// Index of the member that is `k` places ahead, 0 to n - 1.
    #[inline(always)]
    fn ahead(self, k: u32) -> u32 {
        let index = self.me + k;
        if index < self.n { index } else { index - self.n }
    }
}

/// Tells the simulator what this member calls: one block does.
#[inline(always)]
#[track_caller]
fn begins<T>(team: Team, name: &'static str, op: &'static str, len: u64, plan: Plan) {
    if Block.id() == 0 {
        // SAFETY: nothing here uses the grid's barrier, which the number is for.
        let all = unsafe { Collective::__new(0) };
        begin::<Block, T>(all, Block, team, name, op, len, plan.root);
    }
}

/// `len` bytes of the object from `start` on.
#[inline(always)]
#[track_caller]
fn run(x: SymSlice<u8>, start: u64, len: u64) -> SymSlice<u8> {
    x.slice(start..start + len)
}

/// broadcast, fcollect, alltoall of bytes, by all blocks of the grid.
#[inline(always)]
#[track_caller]
pub fn moves(team: Team, dst: SymSlice<u8>, src: SymSlice<u8>, plan: Plan) {
    let name = match plan.call {
        Call::Broadcast => "broadcast",
        Call::Fcollect => "fcollect",
        _ => "alltoall",
    };
    begins::<u8>(team, name, "", plan.part, plan);
    let exchange = (plan.algorithm == PACKETS).then(|| Exchange::begin(Block, team));
    if let Some(exchange) = exchange
        && exchange.usable()
    {
        moves_by_packets(exchange, dst, src, plan);
        exchange.end(Block);
        return;
    }
    let meeting = Meeting::begin(team);
    if let Some(exchange) = exchange {
        exchange.empty(Block);
    }
    let (me, n) = (meeting.me, meeting.n);
    if plan.call == Call::Broadcast {
        broadcasts(meeting, dst, src, plan);
    } else {
        let own = u64::from(me) * plan.part;
        let alltoall = plan.call == Call::Alltoall;
        let (start, len) = plan.share_of(plan.part);
        let to = run(dst, own + start, len);
        let mut k = u32::from(!alltoall && dst.offset() + own == src.offset());
        while k < n {
            let index = meeting.ahead(k);
            let from = if alltoall { u64::from(index) * plan.part } else { 0 };
            put_nbi(Block, to, run(src, from + start, len), team.pe(index));
            k = arch::next(k);
        }
    }
    meeting.end();
}

#[inline(always)]
#[track_caller]
fn broadcasts(meeting: Meeting, dst: SymSlice<u8>, src: SymSlice<u8>, plan: Plan) {
    let (me, team, bytes) = (meeting.me, meeting.team, bytes_of(src));
    let (first, part) = if plan.algorithm == TWO_SHOT {
        plan.part_of(me, bytes)
    } else {
        (0, bytes)
    };
    let (start, len) = plan.share_of(part);
    let (to, from) = (run(dst, first + start, len), run(src, first + start, len));
    if me != plan.root {
        get(Block, to, from, team.pe(plan.root));
    }
    // Of two passes the second: each hands its part on. The root copies for itself.
    let (have, last) = if me == plan.root { (from, 1) } else { (to, 0) };
    let last = if plan.algorithm == TWO_SHOT { meeting.n } else { last };
    let mut k = 0;
    while k < last {
        let index = meeting.ahead(k);
        let has = if index == plan.root {
            dst.offset() == src.offset()
        } else {
            index == me
        };
        if !has {
            put_nbi(Block, to, have, team.pe(index));
        }
        k = arch::next(k);
    }
}

/// alltoallv, by all blocks of the grid. Parts are in elements of so many bytes.
#[inline(always)]
#[track_caller]
pub fn moves_parts(
    team: Team,
    dst: SymSlice<u8>,
    src: SymSlice<u8>,
    sends: SymSlice<Part>,
    receives: SymSlice<Part>,
    element: u32,
    plan: Plan,
) {
    begins::<u8>(team, "alltoallv", "", plan.part, plan);
    let meeting = Meeting::begin(team);
    let blocks = u64::from(crate::thread::grid_size());
    let bytes = |elements: u64| elements.saturating_mul(element.into());
    let mut k = 0;
    while k < meeting.n {
        let index = meeting.ahead(k);
        let (theirs, mine) = (g(sends.at(meeting.me), team.pe(index)), receives.load(index));
        check(theirs.len == mine.len, FaultKind::Length, mine.len, theirs.len);
        let all = bytes(mine.len);
        let share = all.div_ceil(blocks).next_multiple_of(128);
        let start = (u64::from(Block.id()) * share).min(all);
        let len = share.min(all - start);
        if len != 0 {
            // Whole parts are checked, so that each block finds the same fault.
            let whole = |x: SymSlice<u8>, part: Part| {
                let first = bytes(part.start);
                run(x.slice(first..first.saturating_add(all)), start, len)
            };
            get_nbi(Block, whole(dst, mine), whole(src, theirs), team.pe(index));
        }
        k = arch::next(k);
    }
    meeting.end();
}

/// One exchange.
#[inline(always)]
#[track_caller]
fn moves_by_packets(exchange: Exchange, dst: SymSlice<u8>, src: SymSlice<u8>, plan: Plan) {
    if plan.call == Call::Broadcast {
        by_packets(Block, exchange, dst, src, plan.root);
        return;
    }
    let (from, to) = (pieces_of(run(src, 0, plan.part)), pieces_of(run(dst, 0, plan.part)));
    let part = |index: u32| from.part(if plan.call == Call::Fcollect { 0 } else { index });
    // SAFETY: the host saw that both are as long as the call wants them.
    unsafe { exchange_parts::<u8, Block>(Block, exchange, part, &to, pieces(plan.part)) };
}

/// reduce, `reduce_to`, `reduce_scatter`, by all blocks of the grid.
#[inline(always)]
#[track_caller]
pub fn reduces<T: Named>(team: Team, dst: SymSlice<T>, src: SymSlice<T>, plan: Plan) {
    let name = match plan.call {
        Call::Reduce => "reduce",
        Call::ReduceScatter => "reduce_scatter",
        _ => "reduce_to",
    };
    begins::<T>(team, name, plan.op.text(), plan.part, plan);
    let by = ByName {
        op: plan.op,
        element: PhantomData::<T>,
    };
    let exchange = (plan.algorithm == PACKETS).then(|| Exchange::begin(Block, team));
    if let Some(exchange) = exchange
        && exchange.usable()
    {
        reduces_by_packets(exchange, by, dst, src, plan);
        exchange.end(Block);
        return;
    }
    let meeting = Meeting::begin(team);
    let mut plan = plan;
    if let Some(exchange) = exchange {
        exchange.empty(Block);
        // Others read what a member would write.
        if plan.call == Call::Reduce && dst.offset() == src.offset() {
            plan.algorithm = TWO_SHOT;
            plan.part = plan.part.div_ceil(exchange.n.into()).next_multiple_of(16);
        }
    }
    let (me, n, two_shot) = (meeting.me, meeting.n, plan.algorithm == TWO_SHOT);
    let scatters = plan.call == Call::ReduceScatter;
    let (first, part) = if two_shot || scatters {
        plan.part_of(me, bytes_of(src))
    } else if plan.call == Call::ReduceTo && me != plan.root {
        (0, 0)
    } else {
        (0, bytes_of(src))
    };
    let (start, bytes) = plan.share_of(part);
    let count = match plan.call {
        Call::Reduce if two_shot => n,
        Call::ReduceTo if two_shot => 1,
        _ => 0,
    };
    let pass = Pass {
        team,
        from: src.offset() + first + start,
        to: dst.offset() + start + if scatters { 0 } else { first },
        bytes,
        first: if plan.call == Call::ReduceTo { plan.root } else { me },
        count,
    };
    pass.run_by::<T, ByName<T>, Block>(Block, by);
    meeting.end();
}

/// One exchange. In place is safe: a thread writes what it has sent itself.
#[inline(always)]
#[track_caller]
fn reduces_by_packets<T: Named>(exchange: Exchange, by: ByName<T>, dst: SymSlice<T>, src: SymSlice<T>, plan: Plan) {
    let (me, count) = (exchange.me, pieces(plan.part));
    let (scatters, roots) = (plan.call == Call::ReduceScatter, plan.call == Call::ReduceTo);
    let source = |index: u32| Pieces {
        address: arch::heap_base() + src.offset() + if scatters { u64::from(index) * plan.part } else { 0 },
        bytes: plan.part as u32,
    };
    let (first, size) = (Block.rank(), Block.size());
    let mut i = first;
    while i < count {
        let mut k = 1;
        while k < exchange.n {
            let index = exchange.ahead(k);
            if !roots || index == plan.root {
                // SAFETY: the part has a piece i.
                exchange.send(k, i, unsafe { source(index).load::<T>(i) });
            } else if i == 0 {
                // The epoch rule wants to hear from everybody.
                exchange.send(k, 0, 0);
            }
            k = arch::next(k);
        }
        i += size;
    }
    if roots && me != plan.root {
        exchange.receive_empty(Block, me);
        return;
    }
    let (own, to) = (source(me), pieces_of(dst));
    i = first;
    while i < count {
        let mut sum = [T::__widen(0)];
        // SAFETY: both have a piece i.
        unsafe {
            exchange.gather(i, own.load::<T>(i), |first, piece| {
                let wide = [T::__widen(piece)];
                if first {
                    sum = wide;
                } else {
                    by.combine(&mut sum, &wide);
                }
            });
            to.store::<T>(i, T::__narrow(sum[0]));
        }
        i += size;
    }
}
