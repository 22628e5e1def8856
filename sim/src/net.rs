//! The network: when a put, a signal or a get takes effect at another PE.
//!
//! Lanes hand over whole operations with their origin and never touch a peer's heap themselves, so another network may
//! hold them back, within what the ordering contract allows, and nothing else changes.

use crate::check::{self, Checker};
use crate::memory::{self, Memory};
use shmem::hook::{self, At, Atomic, AtomicOp, SignalOp, SignalUpdate, Strength};
use std::rc::Rc;

/// Who issues an operation, and from which source line.
#[derive(Clone, Copy)]
#[expect(
    dead_code,
    reason = "a network that holds operations back keeps them apart by origin; InOrder need not"
)]
pub(crate) struct Origin<'a> {
    pub(crate) lane: &'a hook::Lane,
    /// The context.
    pub(crate) ctx: u32,
    pub(crate) at: At,
    /// What the checker knows of the operation, where it is one and is checked.
    pub(crate) space: hook::Space,
    pub(crate) checked: Option<&'a Rc<check::Op>>,
}

/// Bytes in a PE's heap; whoever makes one has checked that they lie inside.
#[derive(Clone, Copy)]
pub(crate) struct Remote {
    pub(crate) pe: u32,
    pub(crate) offset: u64,
}

/// What carries operations between PEs.
///
/// # Safety
/// Callers pass live local memory that stays so until the operation is reusable.
pub(crate) trait Network {
    /// Copies local bytes to a PE. The source may be read until `flush` or `quiet` where `nbi`.
    unsafe fn put(&self, origin: Origin<'_>, to: Remote, source: *const u8, bytes: usize, nbi: bool);
    /// Copies a PE's bytes here; they are in place at return, or after `quiet` where `nbi`.
    unsafe fn get(&self, origin: Origin<'_>, from: Remote, destination: *mut u8, bytes: usize, nbi: bool);
    /// Writes one element.
    fn p(&self, origin: Origin<'_>, to: Remote, value: u128, bytes: u32);
    /// Reads one element.
    fn g(&self, origin: Origin<'_>, from: Remote, bytes: u32) -> u128;
    /// Updates a signal or counter.
    fn signal(&self, origin: Origin<'_>, to: u32, update: SignalUpdate, relaxed: bool);
    /// Atomic access to a word of 4 or 8 bytes; returns the old value where `atomic.fetches`.
    fn atomic(&self, origin: Origin<'_>, to: Remote, bytes: u32, strength: Strength, atomic: &Atomic) -> u64;
    /// Later operations of the origin take effect behind its earlier ones.
    fn fence(&self, origin: Origin<'_>);
    /// The origin's earlier operations are done.
    fn quiet(&self, origin: Origin<'_>);
    /// The origin's sources may be written again.
    fn flush(&self, origin: Origin<'_>);
    /// Operations that have not taken effect.
    fn in_flight(&self) -> usize;
    /// Lets one of them take effect; the draw decides which.
    fn deliver(&self, draw: u64);
}

/// Every operation takes effect when it is issued.
pub(crate) struct InOrder {
    memory: Rc<Memory>,
    check: Option<Rc<Checker>>,
}

impl InOrder {
    pub(crate) fn new(memory: Rc<Memory>, check: Option<Rc<Checker>>) -> Self {
        Self { memory, check }
    }

    fn look(&self, origin: Origin<'_>, look: impl FnOnce(&Checker, &check::Op)) {
        if let (Some(check), Some(op)) = (&self.check, origin.checked) {
            look(check, op);
        }
    }

    fn address(&self, at: Remote) -> u64 {
        self.memory.heaps.base(at.pe) as u64 + at.offset
    }
}

impl Network for InOrder {
    unsafe fn put(&self, o: Origin<'_>, to: Remote, source: *const u8, bytes: usize, _nbi: bool) {
        self.look(o, |check, op| check.local(op, o.space, source as u64, bytes as u64));
        self.look(o, |check, op| check.lands(op, self.address(to), bytes as u64));
        // SAFETY: the caller promises the source; a Remote lies inside its heap.
        unsafe { self.memory.copy(self.address(to) as *mut u8, source, bytes) };
    }

    unsafe fn get(&self, o: Origin<'_>, from: Remote, destination: *mut u8, bytes: usize, _nbi: bool) {
        self.look(o, |check, op| check.fetches(op, self.address(from), bytes as u64));
        self.look(o, |check, op| check.local(op, o.space, destination as u64, bytes as u64));
        // SAFETY: as in `put`.
        unsafe { self.memory.copy(destination, self.address(from) as *const u8, bytes) };
    }

    fn p(&self, o: Origin<'_>, to: Remote, value: u128, bytes: u32) {
        self.look(o, |check, op| check.lands(op, self.address(to), bytes.into()));
        // SAFETY: a Remote lies inside its heap, and elements are aligned there.
        unsafe { self.memory.store(self.address(to), bytes, value) };
    }

    fn g(&self, o: Origin<'_>, from: Remote, bytes: u32) -> u128 {
        self.look(o, |check, op| check.fetches(op, self.address(from), bytes.into()));
        // SAFETY: as in `p`.
        unsafe { memory::load(self.address(from), bytes) }
    }

    fn signal(&self, o: Origin<'_>, to: u32, update: SignalUpdate, _relaxed: bool) {
        let word = self.address(Remote {
            pe: to,
            offset: update.offset,
        });
        self.look(o, |check, op| check.lands(op, word, 8));
        // SAFETY: as in `p`.
        unsafe {
            match update.op {
                SignalOp::Set => self.memory.store(word, 8, update.value.into()),
                SignalOp::Add => {
                    self.memory.atomic(word, 8, AtomicOp::Add, update.value, 0);
                }
            }
        }
    }

    fn atomic(&self, o: Origin<'_>, to: Remote, bytes: u32, _: Strength, atomic: &Atomic) -> u64 {
        self.look(o, |check, op| check.lands(op, self.address(to), bytes.into()));
        let Atomic {
            op, operand, comparand, ..
        } = *atomic;
        // SAFETY: as in `p`.
        unsafe { self.memory.atomic(self.address(to), bytes, op, operand, comparand) }
    }

    fn fence(&self, _: Origin<'_>) {}

    fn quiet(&self, _: Origin<'_>) {}

    fn flush(&self, _: Origin<'_>) {}

    fn in_flight(&self) -> usize {
        0
    }

    fn deliver(&self, _: u64) {}
}
