//! One exchange of packets among the members of a team: each sends at least one to every other, and receives at least one
//! from every other. That is the epoch rule of [`packet`](crate::packet), by which boxes are used again without a barrier.
//!
//! A PE's boxes lie in its team's block: for each slot two halves, taken in turn, in which every other member has a box, in
//! the order of their indices.

use super::meet;
use crate::arch::{self, Space, Strength};
use crate::fault::{FaultKind, check};
use crate::packet::check_later;
use crate::state::{SYNC_SLOTS, TeamBlock};
use crate::team::{Peer, Team};
use crate::tile::Tile;
use crate::{Pod, context, quiet_visible};
use core::panic::Location;

/// Bytes of data in a packet of the boxes.
pub(super) const PIECE: u32 = 8;
/// Bytes of such a packet: two halves, each with a flag.
const PACKET: u32 = 16;
/// Packets that a member has under way when it gathers a piece from all others.
const FLIGHT: u32 = 4;

/// A slot of a team in one epoch.
#[derive(Clone, Copy)]
pub(super) struct Exchange {
    pub(super) team: Team,
    pub(super) me: u32,
    pub(super) n: u32,
    /// Where the slot's halves begin in the heap.
    halves: u64,
    epoch_at: u64,
    epoch: u64,
}

impl Exchange {
    /// Begins the next epoch. All members of the tile call it, which meet here: what they did before is done for all.
    #[inline(always)]
    #[track_caller]
    pub(super) fn begin<G: Tile>(tile: G, team: Team) -> Self {
        let slot = team.slot_number();
        check(
            (slot as usize) < SYNC_SLOTS,
            FaultKind::Slot,
            slot.into(),
            SYNC_SLOTS as u64,
        );
        let start = team.sync_offset();
        let epoch_at = arch::heap_base() + start + TeamBlock::EPOCHS + u64::from(slot) * 8;
        // SAFETY: the slot's word lies where the host laid it out.
        let epoch = 1 + unsafe { arch::load::<u64>(epoch_at, Space::Symmetric, Strength::Weak) };
        // Every member has read the epoch before the leader writes the next one.
        tile.sync();
        Self {
            team,
            me: team.my_pe(),
            n: team.n_pes(),
            halves: start + TeamBlock::BOXES + u64::from(slot) * 2 * TeamBlock::HALF,
            epoch_at,
            epoch,
        }
    }

    /// Whether packets are used: every 2^30 epochs the boxes are emptied instead, so that no flag in them is old enough to
    /// look like a newer one.
    #[inline(always)]
    pub(super) fn usable(self) -> bool {
        self.epoch & ((1 << 30) - 1) != 0
    }

    #[inline(always)]
    fn flag(self) -> u32 {
        self.epoch as u32
    }

    /// Where the half of this epoch begins in the heap.
    #[inline(always)]
    fn half(self) -> u64 {
        self.halves + (self.epoch & 1) * TeamBlock::HALF
    }

    #[inline(always)]
    fn box_bytes(self) -> u32 {
        TeamBlock::box_bytes(self.n) as u32
    }

    /// Index of the member whose box is box `d` here.
    #[inline(always)]
    pub(super) fn sender(self, d: u32) -> u32 {
        if d < self.me { d } else { d + 1 }
    }

    /// The box here of another member.
    #[inline(always)]
    pub(super) fn box_of(self, index: u32) -> u32 {
        if index < self.me { index } else { index - 1 }
    }

    /// How far ahead another member is.
    #[inline(always)]
    pub(super) fn distance(self, index: u32) -> u32 {
        if index < self.me {
            index + self.n - self.me
        } else {
            index - self.me
        }
    }

    /// Index of the member that is `k` places ahead, 1 to n - 1.
    #[inline(always)]
    pub(super) fn ahead(self, k: u32) -> u32 {
        let index = self.me + k;
        if index < self.n { index } else { index - self.n }
    }

    /// Sends piece `i` to the member that is `k` places ahead.
    #[inline(always)]
    #[track_caller]
    pub(super) fn send(self, k: u32, i: u32, piece: u64) {
        let index = self.ahead(k);
        let box_there = if self.me < index { self.me } else { self.me - 1 };
        self.store(index, box_there * self.box_bytes() + i * PACKET, piece);
    }

    /// Whether there are two members, and a piece for each thread at most: then all that a thread does is a [`swap`](Self::swap).
    /// A way of its own, since a short one is what a small call takes its time for.
    #[inline(always)]
    pub(super) fn is_pair<G: Tile>(self, tile: G, count: u32) -> bool {
        self.n == 2 && count <= tile.size()
    }

    /// Whether this member has neither a piece to swap nor, among the last ones, one to copy: in a small call most of a block's have none. It is
    /// asked ahead of all else, since what their warps compute holds up those that have.
    #[inline(always)]
    pub(super) fn idles<G: Tile>(self, tile: G, count: u32) -> bool {
        self.is_pair(tile, count) && tile.rank() >= count && tile.rank() < tile.size() - count
    }

    /// Index of the other one of two.
    #[inline(always)]
    pub(super) fn other(self) -> u32 {
        self.me ^ 1
    }

    /// Sends piece `i` to the other one of two, which sends its own.
    #[inline(always)]
    #[track_caller]
    pub(super) fn swap(self, i: u32, piece: u64) -> u64 {
        self.store(self.other(), i * PACKET, piece);
        self.receive(0, i)
    }

    /// Sends piece `i` to all others.
    #[inline(always)]
    #[track_caller]
    pub(super) fn send_to_all(self, i: u32, piece: u64) {
        let mut k = 1;
        while k < self.n {
            self.send(k, i, piece);
            k = arch::next(k);
        }
    }

    #[inline(always)]
    #[track_caller]
    fn store(self, index: u32, place: u32, piece: u64) {
        let to = Peer {
            pe: self.team.member(index),
            ctx: context::DEFAULT,
        };
        let flag = u64::from(self.flag()) << 32;
        let words = [piece & 0xffff_ffff | flag, piece >> 32 | flag];
        // SAFETY: inside the box: whoever chose packets saw that the pieces fit.
        unsafe { arch::store_packet_pair(self.half() + u64::from(place), words, to) }
    }

    #[inline(always)]
    fn place(self, d: u32, i: u32) -> u64 {
        arch::heap_base() + self.half() + u64::from(d * self.box_bytes() + i * PACKET)
    }

    /// Whether it is a packet of this epoch.
    #[inline(always)]
    fn is_here(self, packet: [u64; 2]) -> bool {
        flags(packet) == [self.flag(); 2]
    }

    /// The flag of a later epoch shows that the members don't make the same calls.
    #[inline(always)]
    fn look(self, packet: [u64; 2], at: &'static Location<'static>) {
        check_later(flags(packet), self.flag(), at);
    }

    /// Waits for piece `i` in box `d`.
    #[inline(always)]
    #[track_caller]
    pub(super) fn receive(self, d: u32, i: u32) -> u64 {
        let (address, at) = (self.place(d, i), Location::caller());
        let watch = arch::watch(address + 4, 4, "==", self.flag().into());
        piece(arch::poll(
            &arch::watch_any(watch, 2, 8, false),
            // SAFETY: inside the box, as in `store`.
            || unsafe { arch::load_packet_pair(address) },
            |packet| self.is_here(*packet),
            |packet| self.look(*packet, at),
        ))
    }

    /// Piece `i` of every member in the order of their indices, `own` among them, handed to `take`, which is told whether it is
    /// the first. The others' loads are under way together, some at a time.
    #[inline(always)]
    #[track_caller]
    pub(super) fn gather(self, i: u32, own: u64, mut take: impl FnMut(bool, u64)) {
        let (at, others) = (Location::caller(), self.n - 1);
        let (box_bytes, mut start, mut first) = (u64::from(self.box_bytes()), self.place(0, i), 0);
        while first < others {
            let watch = arch::watch(start + 4, 4, "==", self.flag().into());
            let watch = arch::watch_any(watch, u64::from(others - first), box_bytes as usize, false);
            // Counted loops unroll, and the packets stay in registers.
            let load = || {
                let mut packets = [[0u64; 2]; FLIGHT as usize];
                let (mut j, mut address) = (0, start);
                while j < FLIGHT {
                    if first + j < others {
                        // SAFETY: inside the box, as in `store`.
                        packets[j as usize] = unsafe { arch::load_packet_pair(address) };
                    }
                    address = arch::forward(address, box_bytes);
                    j += 1;
                }
                packets
            };
            let ready = |packets: &[[u64; 2]; FLIGHT as usize]| {
                let (mut j, mut all) = (0, true);
                while j < FLIGHT {
                    all &= first + j >= others || self.is_here(packets[j as usize]);
                    j += 1;
                }
                all
            };
            let look = |packets: &[[u64; 2]; FLIGHT as usize]| {
                let mut j = 0;
                while j < FLIGHT {
                    self.look(packets[j as usize], at);
                    j += 1;
                }
            };
            let [mut next, mut second, mut third, mut last] = arch::poll(&watch, load, ready, look);
            let mut j = 0;
            // Nobody asks for the j-th: an array would lie in memory, since what is done with each is too long to be written out four times.
            while j < FLIGHT {
                let d = first + j;
                if d == self.me {
                    take(d == 0, own);
                }
                if d < others {
                    take(d == 0 && self.me != 0, piece(next));
                }
                (next, second, third, last) = (second, third, last, next);
                j += 1;
            }
            start += u64::from(FLIGHT) * box_bytes;
            first += FLIGHT;
        }
        // The last one is behind all boxes, unless they filled no whole flight.
        if self.me == others && others.is_multiple_of(FLIGHT) {
            take(others == 0, own);
        }
    }

    /// Waits for the empty packets of all others but `root`, which sends data: the epoch rule wants to hear from everybody.
    /// The last members of the tile do it, since the first have data to wait for.
    #[inline(always)]
    #[track_caller]
    pub(super) fn receive_empty<G: Tile>(self, tile: G, root: u32) {
        let mut d = tile.size() - 1 - tile.rank();
        while d < self.n - 1 {
            if self.sender(d) != root {
                self.receive(d, 0);
            }
            d = d.saturating_add(tile.size());
        }
    }

    /// Sends an empty packet to all others but `root`.
    #[inline(always)]
    #[track_caller]
    pub(super) fn send_empty<G: Tile>(self, tile: G, root: u32) {
        for k in tile.strided(self.n - 1) {
            if self.ahead(k + 1) != root {
                self.send(k + 1, 0, 0);
            }
        }
    }

    /// Ends the epoch: the boxes of the one before may be sent to again. All members of the tile call it, and meet.
    #[inline(always)]
    #[track_caller]
    pub(super) fn end<G: Tile>(self, tile: G) {
        self.count(tile);
        tile.sync();
    }

    #[inline(always)]
    fn count<G: Tile>(self, tile: G) {
        if tile.leader() {
            // SAFETY: as in `begin`. Every member has read the old epoch.
            unsafe { arch::store(self.epoch_at, self.epoch, Space::Symmetric, Strength::Weak) };
        }
    }

    /// The team meets, before it does without packets.
    #[inline(always)]
    #[track_caller]
    pub(super) fn meet_first<G: Tile>(self, tile: G) {
        meet::<G, false>(tile, self.team);
        self.empty(tile);
    }

    /// Where [`usable`](Self::usable) is false, empties the boxes. Between two meetings of the team, so that no packet is under
    /// way.
    #[inline(always)]
    #[track_caller]
    pub(super) fn empty<G: Tile>(self, tile: G) {
        if !self.usable() {
            let me = Peer {
                pe: arch::my_pe(),
                ctx: context::DEFAULT,
            };
            for i in tile.strided((2 * TeamBlock::HALF / 8) as u32) {
                // SAFETY: inside the slot's halves, as in `begin`.
                unsafe { arch::store_packet(self.halves + u64::from(i) * 8, 0, me) };
            }
            // An adapter may write them, and others must find them empty.
            quiet_visible(tile);
            self.count(tile);
        }
    }
}

#[inline(always)]
fn flags(packet: [u64; 2]) -> [u32; 2] {
    [(packet[0] >> 32) as u32, (packet[1] >> 32) as u32]
}

#[inline(always)]
fn piece(packet: [u64; 2]) -> u64 {
    packet[0] & 0xffff_ffff | packet[1] << 32
}

/// From every member its part for every other, in one exchange: `from` says where this PE's part for a member lies, and what comes
/// from it goes to that part of `to`, with its own part, unless it lies there already. Parts have `count` pieces.
///
/// # Safety
/// `count` is that of `to`, whose parts and those of `from` are live for all members.
#[inline(always)]
#[track_caller]
pub(super) unsafe fn exchange_parts<T: Pod, G: Tile>(
    tile: G,
    exchange: Exchange,
    from: impl Fn(u32) -> Pieces,
    to: &Pieces,
    count: u32,
) {
    if exchange.idles(tile, count) {
        return;
    }
    let (own, place) = (from(exchange.me), to.part(exchange.me));
    let copy_own = || {
        if own.address != place.address {
            // The last members of the tile do it: the first have packets to send and to wait for.
            let mut i = tile.size() - 1 - tile.rank();
            while i < count {
                // SAFETY: the part has a piece i.
                unsafe { place.store::<T>(i, own.load::<T>(i)) };
                i += tile.size();
            }
        }
    };
    if exchange.is_pair(tile, count) {
        let (i, other) = (tile.rank(), exchange.other());
        if i < count {
            // SAFETY: as above.
            unsafe { to.part(other).store::<T>(i, exchange.swap(i, from(other).load::<T>(i))) };
        }
        copy_own();
        return;
    }
    for (k, i) in Shares::new(tile, exchange.n - 1, count) {
        // SAFETY: as above.
        exchange.send(k + 1, i, unsafe { from(exchange.ahead(k + 1)).load::<T>(i) });
    }
    copy_own();
    for (d, i) in Shares::new(tile, exchange.n - 1, count) {
        // SAFETY: as above.
        unsafe { to.part(exchange.sender(d)).store::<T>(i, exchange.receive(d, i)) };
    }
}

/// How many pieces so many bytes are, which fit into a box. No bytes are one empty piece.
#[inline(always)]
pub(super) fn pieces(bytes: u64) -> u32 {
    (bytes as u32).max(1).div_ceil(PIECE)
}

/// A run of elements of T in this PE's memory, which fits into a box, as pieces; the last may be a part of one.
pub(super) struct Pieces {
    pub(super) address: u64,
    pub(super) bytes: u32,
}

impl Pieces {
    /// The run of as many bytes that is `index` runs behind.
    #[inline(always)]
    pub(super) fn part(&self, index: u32) -> Self {
        Self {
            address: self.address + u64::from(index * self.bytes),
            bytes: self.bytes,
        }
    }

    /// # Safety
    /// The run is live, and has a piece `i`.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn load<T: Pod>(&self, i: u32) -> u64 {
        let (at, left) = (self.address + u64::from(i * PIECE), self.bytes - i * PIECE);
        if size_of::<T>() >= 8 || (at % 8 == 0 && left >= PIECE) {
            // SAFETY: the caller's promise; aligned, and whole.
            return unsafe { arch::load(at, Space::Symmetric, Strength::Weak) };
        }
        let (mut piece, mut j) = (0, 0);
        while j < PIECE {
            if j < left {
                // SAFETY: inside the run, and aligned for T.
                piece |= unsafe { load_bits(at + u64::from(j), size_of::<T>()) } << (8 * j);
            }
            j += size_of::<T>() as u32;
        }
        piece
    }

    /// # Safety
    /// As [`load`](Self::load).
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn store<T: Pod>(&self, i: u32, piece: u64) {
        let (at, left) = (self.address + u64::from(i * PIECE), self.bytes - i * PIECE);
        if size_of::<T>() >= 8 || (at % 8 == 0 && left >= PIECE) {
            // SAFETY: as in `load`.
            unsafe { arch::store(at, piece, Space::Symmetric, Strength::Weak) };
            return;
        }
        let mut j = 0;
        while j < PIECE {
            if j < left {
                // SAFETY: as in `load`.
                unsafe { store_bits(at + u64::from(j), piece >> (8 * j), size_of::<T>()) };
            }
            j += size_of::<T>() as u32;
        }
    }
}

/// # Safety
/// An element of 1, 2 or 4 bytes is live there.
#[inline(always)]
#[track_caller]
unsafe fn load_bits(at: u64, bytes: usize) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            1 => arch::load::<u8>(at, Space::Symmetric, Strength::Weak).into(),
            2 => arch::load::<u16>(at, Space::Symmetric, Strength::Weak).into(),
            _ => arch::load::<u32>(at, Space::Symmetric, Strength::Weak).into(),
        }
    }
}

/// # Safety
/// As [`load_bits`].
#[inline(always)]
#[track_caller]
unsafe fn store_bits(at: u64, bits: u64, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            1 => arch::store(at, bits as u8, Space::Symmetric, Strength::Weak),
            2 => arch::store(at, bits as u16, Space::Symmetric, Strength::Weak),
            _ => arch::store(at, bits as u32, Space::Symmetric, Strength::Weak),
        }
    }
}

/// A member's share of `count` runs of as many pieces each: which run, and which piece.
pub(super) struct Shares {
    run: u32,
    count: u32,
    i: u32,
    step: u32,
    pieces: u32,
}

impl Shares {
    #[inline(always)]
    #[track_caller]
    pub(super) fn new<G: Tile>(tile: G, count: u32, pieces: u32) -> Self {
        let i = tile.rank();
        // Most members of a large tile have no share: they need not look through the runs.
        let count = if i < count * pieces { count } else { 0 };
        Self {
            run: 0,
            count,
            i,
            step: tile.size(),
            pieces,
        }
    }
}

impl Iterator for Shares {
    type Item = (u32, u32);

    // Runs are mostly few: no division.
    #[inline(always)]
    fn next(&mut self) -> Option<(u32, u32)> {
        while self.run < self.count && self.i >= self.pieces {
            self.i -= self.pieces;
            self.run += 1;
        }
        let item = (self.run, self.i);
        self.i += self.step;
        (self.run < self.count).then_some(item)
    }
}
