//! The one place where operations read and write memory.

use super::op::{Local, Op, Remote};
use crate::check::{self, Checker};
use crate::memory::{self, Memory};
use shmem::hook::{Atomic, AtomicOp, SignalOp, SignalUpdate};
use std::rc::Rc;

/// What operations do to memory, at issue or when they take effect. Each call says for which operation.
pub(crate) struct Effects {
    memory: Rc<Memory>,
    check: Option<Rc<Checker>>,
}

impl Effects {
    pub(crate) fn new(memory: &Rc<Memory>, check: Option<Rc<Checker>>) -> Self {
        Self {
            memory: Rc::clone(memory),
            check,
        }
    }

    /// Lets the checker see an effect before it comes about.
    fn look(&self, op: &Op, look: impl FnOnce(&Checker, &check::Op)) {
        if let (Some(check), Some(op)) = (&self.check, &op.checked) {
            look(check, op);
        }
    }

    fn address(&self, at: Remote) -> u64 {
        self.memory.heaps.base(at.pe) as u64 + at.offset
    }

    /// Reads the source of a put, at the latest when it becomes reusable.
    pub(crate) fn read_source(&self, op: &Op, source: Local) -> Box<[u8]> {
        self.look(op, |check, op| {
            check.local(op, source.space, source.start as u64, source.bytes as u64)
        });
        let mut bytes = vec![0; source.bytes].into_boxed_slice();
        // SAFETY: whoever issued the put promised that its source lives until then; the copy is new.
        unsafe { std::ptr::copy_nonoverlapping(source.start.cast_const(), bytes.as_mut_ptr(), source.bytes) };
        bytes
    }

    /// Data arrives.
    pub(crate) fn write(&self, op: &Op, to: Remote, bytes: &[u8]) {
        self.look(op, |check, op| {
            check.lands(op, self.address(to), bytes.len() as u64, self.holds(to, bytes))
        });
        // SAFETY: a Remote lies inside its heap.
        unsafe {
            self.memory
                .copy(self.address(to) as *mut u8, bytes.as_ptr(), bytes.len())
        };
    }

    /// A get reads there and writes here.
    pub(crate) fn fetch(&self, op: &Op, from: Remote, to: Local) {
        self.look(op, |check, op| {
            check.fetches(op, self.address(from), to.bytes as u64);
            check.local(op, to.space, to.start as u64, to.bytes as u64);
        });
        // SAFETY: whoever issued the get promised that its destination lives until then; a Remote lies inside its heap.
        unsafe {
            self.memory.copy(to.start, self.address(from) as *const u8, to.bytes);
        }
    }

    /// Whether these bytes are there already.
    fn holds(&self, at: Remote, bytes: &[u8]) -> bool {
        // SAFETY: a Remote lies inside its heap, which nothing else changes meanwhile but for a host that races with it.
        let there = unsafe { std::slice::from_raw_parts(self.address(at) as *const u8, bytes.len()) };
        there == bytes
    }

    /// One element arrives.
    pub(crate) fn store(&self, op: &Op, to: Remote, value: u128, bytes: u32) {
        self.look(op, |check, op| check.lands(op, self.address(to), bytes.into(), false));
        // SAFETY: a Remote lies inside its heap, and elements are aligned there.
        unsafe { self.memory.store(self.address(to), bytes, value) };
    }

    /// Reads one element.
    pub(crate) fn load(&self, op: &Op, from: Remote, bytes: u32) -> u128 {
        self.look(op, |check, op| check.fetches(op, self.address(from), bytes.into()));
        // SAFETY: as in `store`.
        unsafe { memory::load(self.address(from), bytes) }
    }

    /// A signal arrives.
    pub(crate) fn signal(&self, op: &Op, pe: u32, update: SignalUpdate) {
        let word = self.address(Remote {
            pe,
            offset: update.offset,
        });
        self.look(op, |check, op| check.lands(op, word, 8, false));
        // SAFETY: as in `store`.
        unsafe {
            match update.op {
                SignalOp::Set => self.memory.store(word, 8, update.value.into()),
                SignalOp::Add => {
                    self.memory.atomic(word, 8, AtomicOp::Add, update.value, 0);
                }
            }
        }
    }

    /// An atomic takes effect; returns the old value.
    pub(crate) fn atomic(&self, op: &Op, to: Remote, bytes: u32, atomic: &Atomic) -> u64 {
        self.look(op, |check, op| check.lands(op, self.address(to), bytes.into(), false));
        let Atomic {
            op, operand, comparand, ..
        } = *atomic;
        // SAFETY: as in `store`.
        unsafe { self.memory.atomic(self.address(to), bytes, op, operand, comparand) }
    }
}
