//! One send queue: a ring of blocks that an adapter reads.
//!
//! 1. A caller is given slots ([`Queue::reserve`]), in the order of `next`, and waits until they are free.
//! 2. It writes its entry, and makes it visible to the adapter.
//! 3. It publishes it (`written`), in the order of the slots.
//! 4. It rings, or whoever is ringing does it too: the record, then the register, one at a time for each queue.
//!
//! Positions count blocks and never wrap; adapters know their low 16 bits. A completion tells the first block of its entry: up
//! to there everything is done (`done`). Not every entry completes: those do that somebody waits for, and those that cross a
//! quarter of the ring, so that a full queue is never without one.

use crate::arch::{self, Order, Place, Space, Strength, Target};
use crate::context::number_of;
use crate::fault::{FaultKind, fault};
use crate::state::{COMPLETION, LANDING, NetworkState, SendQueue};
use crate::team::Peer;
use crate::vector::U64x2;
use core::mem::offset_of;
use core::panic::Location;
use shmem_mlx5::completion::{DETAIL_OFFSET, Kind as Completed, TAIL_OFFSET, Tail, detail};
use shmem_mlx5::doorbell::{self, Kind};
use shmem_mlx5::unit::blocks;
use shmem_mlx5::{Index, Local, LocalKey, Post, QueuePair, QueueSize, Unit};

/// A field of the tables, which never changes while kernels run.
macro_rules! constant {
    ($table:expr, $type:ident . $field:ident) => {{
        let at = $table + offset_of!($type, $field) as u64;
        // SAFETY: the host made the table before the launch.
        unsafe { arch::load(at, Space::Global, Strength::Weak) }
    }};
}
pub(super) use constant;

/// What was published last, in one word.
#[derive(Clone, Copy)]
pub(super) struct Written(u64);

impl Written {
    const POSITION: u32 = 39;
    const MASK: u64 = (1 << Self::POSITION) - 1;
    const COMPLETES: u64 = 1 << Self::POSITION;
    const KIND: u32 = Self::POSITION + 1;
    const _FITS: () = assert!(Self::KIND + Kind::BITS == u64::BITS);

    /// An entry of this kind that ends there.
    #[inline(always)]
    pub(super) fn new(end: u64, completes: bool, kind: Kind) -> Self {
        let completes = if completes { Self::COMPLETES } else { 0 };
        Self(end & Self::MASK | completes | u64::from(kind.bits()) << Self::KIND)
    }

    #[inline(always)]
    fn kind(self) -> Kind {
        Kind::from_bits((self.0 >> Self::KIND) as u32)
    }

    /// Whether it ends where `position` is, of the positions near it.
    #[inline(always)]
    fn ends_at(self, position: u64) -> bool {
        (self.0 ^ position) & Self::MASK == 0
    }

    /// Nothing was ever published.
    #[inline(always)]
    pub(super) fn is_nothing(self) -> bool {
        self.0 == 0
    }

    #[inline(always)]
    pub(super) fn completes(self) -> bool {
        self.0 & Self::COMPLETES != 0
    }

    #[inline(always)]
    pub(super) fn opcode(self) -> u8 {
        self.kind().opcode()
    }

    /// Where the entry begins, next to a position of the same queue.
    #[inline(always)]
    pub(super) fn start(self, near: u64) -> u64 {
        let shift = u64::BITS - Self::POSITION;
        let ahead = ((self.0.wrapping_sub(near) << shift) as i64 >> shift) as u64;
        near.wrapping_add(ahead) - u64::from(blocks(self.kind().units()))
    }
}

#[inline(always)]
#[track_caller]
fn get(word: Target, order: Order) -> u64 {
    // SAFETY: a word of a queue.
    unsafe { arch::atomic::load(word, order) }
}

#[inline(always)]
#[track_caller]
fn set(word: Target, value: u64, order: Order) {
    // SAFETY: a word of a queue.
    unsafe { arch::atomic::store(word, value, order) }
}

#[inline(always)]
#[track_caller]
fn wait_for(word: u64, bytes: usize, ready: impl FnMut() -> bool) {
    arch::spin(&arch::watch(word, bytes, "", 0), ready);
}

#[derive(Clone, Copy)]
pub(super) struct Queue {
    at: u64,
    pe: u32,
    /// Only one thread uses it.
    alone: bool,
    deferred: bool,
}

macro_rules! words { ($($name:ident)*) => { $(
    #[inline(always)]
    fn $name(self) -> Target {
        Target::Here { address: self.at + offset_of!(SendQueue, $name) as u64, place: Place::Gpu }
    }
)* } }

impl Queue {
    #[inline(always)]
    #[track_caller]
    pub(super) fn of(peer: Peer) -> Self {
        let network = arch::network();
        let (mode, number) = number_of(peer.ctx);
        let own = number < Self::contexts();
        let row = if own { number } else { 0 };
        let queues: u64 = constant!(network, NetworkState.queues);
        let index = u64::from(row) * u64::from(arch::n_pes()) + u64::from(peer.pe);
        Self {
            at: queues + index * size_of::<SendQueue>() as u64,
            pe: peer.pe,
            alone: own && mode.private,
            deferred: mode.deferred,
        }
    }

    /// How many contexts have queues.
    #[inline(always)]
    #[track_caller]
    pub(super) fn contexts() -> u32 {
        constant!(arch::network(), NetworkState.contexts)
    }

    words! { next written rung done ringing }

    /// The PE that it goes to.
    #[inline(always)]
    pub(super) fn pe(self) -> u32 {
        self.pe
    }

    /// A number of its own.
    #[inline(always)]
    pub(super) fn id(self) -> u64 {
        self.at
    }

    /// Whether several threads may use it.
    #[inline(always)]
    pub(super) fn is_shared(self) -> bool {
        !self.alone
    }

    #[inline(always)]
    #[track_caller]
    pub(super) fn size(self) -> QueueSize {
        let log2: u32 = constant!(self.at, SendQueue.log2);
        // Never another one: the host checked it.
        QueueSize::from_log2(log2 as u8).unwrap_or_default()
    }

    #[inline(always)]
    #[track_caller]
    fn number(self) -> QueuePair {
        let number: u32 = constant!(self.at, SendQueue.number);
        QueuePair::new(number).unwrap_or_default()
    }

    /// Slots for an entry of so many blocks, once they are free.
    #[inline(always)]
    #[track_caller]
    pub(super) fn reserve(self, blocks: u64) -> u64 {
        let first = if self.alone {
            let first = get(self.next(), Order::Relaxed);
            set(self.next(), first + blocks, Order::Relaxed);
            first
        } else {
            // SAFETY: a word of the queue.
            unsafe { arch::atomic::fetch_add(self.next(), blocks, Order::Relaxed) }
        };
        let (end, size) = (first + blocks, u64::from(self.size().count()));
        if end - get(self.done(), Order::Acquire) > size {
            wait_for(self.at, COMPLETION, || {
                // What others have deferred takes room until the adapter is told of it.
                self.ring_if_behind();
                end - self.look() <= size
            });
        }
        first
    }

    /// Posts one entry. The builder is given its post; the entry completes where `wanted`, or where it must. Where it begins.
    #[inline(always)]
    #[track_caller]
    pub(super) fn post<const N: usize>(self, wanted: bool, build: impl FnOnce(Post) -> [Unit; N]) -> u64 {
        let (first, post) = self.begin(N, wanted);
        self.submit(first, post, build(post));
        first
    }

    /// Writes and publishes the entry that begins at `first`.
    #[inline(always)]
    #[track_caller]
    fn submit<const N: usize>(self, first: u64, post: Post, units: [Unit; N]) {
        let mut i = 0;
        while i < N {
            self.write(first, i, units[i]);
            i += 1;
        }
        self.publish(first, post, units[0]);
    }

    /// Slots for an entry of so many units, and what it says of itself.
    #[inline(always)]
    #[track_caller]
    pub(super) fn begin(self, units: usize, wanted: bool) -> (u64, Post) {
        let blocks = u64::from(blocks(units));
        let first = self.reserve(blocks);
        (first, self.post_at(first, blocks, wanted))
    }

    /// What an entry of so many blocks says of itself at `first`.
    #[inline(always)]
    #[track_caller]
    pub(super) fn post_at(self, first: u64, blocks: u64, wanted: bool) -> Post {
        let quarter = self.size().log2() - 2;
        let post = Post::new(Index::of(first), self.number());
        if wanted || (first ^ (first + blocks)) >> quarter != 0 {
            post.signalled()
        } else {
            post
        }
    }

    /// Where unit `i` lies of the entry that begins at `first`.
    #[inline(always)]
    #[track_caller]
    pub(super) fn place(self, first: u64, i: usize) -> u64 {
        let ring: u64 = constant!(self.at, SendQueue.ring);
        ring + self.size().offset_of_unit(Index::of(first), i) as u64
    }

    /// Writes unit `i` of the entry that begins at `first`.
    #[inline(always)]
    #[track_caller]
    pub(super) fn write(self, first: u64, i: usize, unit: Unit) {
        let at = self.place(first, i);
        // SAFETY: inside the ring, in a slot that was given to this caller.
        unsafe { arch::store(at, U64x2(unit.as_long()), Space::Global, Strength::Relaxed) };
    }

    /// The entry that begins at `first` is written, and `control` is its first unit.
    #[inline(always)]
    #[track_caller]
    pub(super) fn publish(self, first: u64, post: Post, control: Unit) {
        let kind = doorbell::register(control).kind();
        let end = first + u64::from(blocks(kind.units()));
        self.publish_all(first, Written::new(end, post.completes(), kind));
    }

    /// All entries from `first` on are written, and `last` is the last of them.
    #[inline(always)]
    #[track_caller]
    pub(super) fn publish_all(self, first: u64, last: Written) {
        arch::atomic::fence(Place::System);
        if !self.alone {
            let word = self.at + offset_of!(SendQueue, written) as u64;
            wait_for(word, size_of::<u64>(), || {
                Written(get(self.written(), Order::Acquire)).ends_at(first)
            });
        }
        set(self.written(), last.0, Order::Release);
        if !self.deferred {
            self.ring();
        }
    }

    /// Tells the adapter of everything that is published, unless somebody is about to.
    #[inline(never)]
    #[track_caller]
    pub(super) fn ring(self) {
        if self.alone {
            return self.ring_now();
        }
        // Each caller counts itself in. The first rings for all that came meanwhile; what a later one has published is seen by
        // whoever counts it out.
        // SAFETY: a word of the queue.
        unsafe {
            if arch::atomic::fetch_add(self.ringing(), 1u32, Order::AcqRel) != 0 {
                return;
            }
            let mut callers = 1;
            loop {
                self.ring_now();
                let seen: u32 = arch::atomic::compare_swap(self.ringing(), callers, 0, Order::AcqRel);
                if seen == callers {
                    return;
                }
                callers = seen;
            }
        }
    }

    #[inline(always)]
    #[track_caller]
    pub(super) fn ring_if_behind(self) {
        let rung = get(self.rung(), Order::Relaxed);
        if !self.last().ends_at(rung) {
            self.ring();
        }
    }

    #[inline(always)]
    #[track_caller]
    fn ring_now(self) {
        let written = Written(get(self.written(), Order::Acquire));
        let rung = get(self.rung(), Order::Relaxed);
        if written.ends_at(rung) {
            return;
        }
        let start = written.start(rung);
        let end = start + u64::from(blocks(written.kind().units()));
        let (record, register): (u64, u64) = (
            constant!(self.at, SendQueue.record),
            constant!(self.at, SendQueue.register),
        );
        // SAFETY: the queue's record; only who rings writes it.
        unsafe {
            let value = doorbell::record(Index::of(end)).raw();
            arch::store(record, value, Space::Global, Strength::Relaxed);
        }
        arch::atomic::fence(Place::System);
        let value = written.kind().register(Index::of(start), self.number()).raw();
        // SAFETY: the queue's register; only who rings writes it.
        unsafe { arch::store_register(register, value) };
        set(self.rung(), end, Order::Relaxed);
    }

    /// Looks at the completion; up to where everything is done.
    #[inline(always)]
    #[track_caller]
    pub(super) fn look(self) -> u64 {
        // Before the completion: what is seen there is then not older.
        let done = get(self.done(), Order::Acquire);
        let completion: u64 = constant!(self.at, SendQueue.completion);
        // SAFETY: the last bytes of the completion, which the adapter writes as one.
        let tail = unsafe { arch::load(completion + TAIL_OFFSET as u64, Space::Global, Strength::Acquire) };
        let tail = Tail::from_raw(tail);
        if tail.kind() == Some(Completed::Invalid) {
            return done;
        }
        if tail.is_error() {
            self.fail(completion);
        }
        let ahead = tail.index().get().wrapping_sub((done as u16).wrapping_sub(1));
        if ahead == 0 {
            return done;
        }
        let now = done + u64::from(ahead);
        if self.alone {
            set(self.done(), now, Order::Relaxed);
        } else {
            // Who is first says it; another one may have seen more.
            // SAFETY: a word of the queue.
            unsafe { arch::atomic::compare_swap(self.done(), done, now, Order::AcqRel) };
        }
        now
    }

    #[cold]
    #[track_caller]
    fn fail(self, completion: u64) -> ! {
        // SAFETY: bytes of the completion.
        let word = unsafe { arch::load(completion + DETAIL_OFFSET as u64, Space::Global, Strength::Relaxed) };
        let (syndrome, vendor) = detail(word);
        let what = u64::from(syndrome.code()) | u64::from(vendor) << 8;
        fault(FaultKind::Network, self.pe.into(), what, Location::caller())
    }

    /// Waits until the entry that begins at `first` is done.
    #[inline(always)]
    #[track_caller]
    pub(super) fn wait(self, first: u64) {
        if self.deferred {
            self.ring();
        }
        wait_for(self.at, COMPLETION, || self.look() > first);
    }

    /// The last entry that was published.
    #[inline(always)]
    #[track_caller]
    pub(super) fn last(self) -> Written {
        Written(get(self.written(), Order::Acquire))
    }

    /// Whether the entry is done, without a look at the adapter; where it begins.
    #[inline(always)]
    #[track_caller]
    pub(super) fn known(self, last: Written) -> (bool, u64) {
        let done = get(self.done(), Order::Acquire);
        let start = last.start(done);
        (done > start, start)
    }

    #[inline(always)]
    #[track_caller]
    fn landing(self, slot: u64) -> Local {
        let (base, key): (u64, u32) = (
            constant!(self.at, SendQueue.landing_at),
            constant!(self.at, SendQueue.landing_key),
        );
        Local {
            address: base + slot * LANDING,
            key: LocalKey(key),
        }
    }

    /// Where answers go that nobody wants.
    #[inline(always)]
    #[track_caller]
    pub(super) fn nowhere(self) -> Local {
        self.landing(self.size().count().into())
    }

    /// Posts an entry that is answered with 64 bytes at most, waits for the answer, and has `take` read it at its address.
    #[inline(always)]
    #[track_caller]
    pub(super) fn ask<const N: usize, R>(
        self,
        build: impl FnOnce(Post, Local) -> [Unit; N],
        take: impl FnOnce(u64) -> R,
    ) -> R {
        let (first, post) = self.begin(N, true);
        let slot = u64::from(self.size().slot(Index::of(first)));
        let taken: u64 = constant!(self.at, SendQueue.taken);
        let word = taken + 4 * slot;
        let taken = Target::Here {
            address: word,
            place: Place::Gpu,
        };
        if !self.alone {
            // Whoever had the slot before may not have read its answer yet.
            // SAFETY: the landing's word.
            wait_for(
                word,
                size_of::<u32>(),
                || unsafe { arch::atomic::compare_swap(taken, 0u32, 1, Order::Acquire) } == 0,
            );
        }
        self.submit(first, post, build(post, self.landing(slot)));
        self.wait(first);
        let landing: u64 = constant!(self.at, SendQueue.landing);
        let answer = take(landing + slot * LANDING);
        if !self.alone {
            // SAFETY: as above.
            unsafe { arch::atomic::store(taken, 0u32, Order::Release) };
        }
        answer
    }
}
