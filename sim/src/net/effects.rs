//! The one place where operations read and write memory.

use super::op::{Local, Op, Remote};
use crate::memory::{self, Memory};
use shmem::hook::{Atomic, AtomicOp, SignalOp, SignalUpdate};
use std::rc::Rc;

/// What operations do to memory, at issue or when they take effect. Each call says for which operation.
pub(crate) struct Effects {
    memory: Rc<Memory>,
}

impl Effects {
    pub(crate) fn new(memory: Rc<Memory>) -> Self {
        Self { memory }
    }

    fn address(&self, at: Remote) -> u64 {
        self.memory.heaps.base(at.pe) as u64 + at.offset
    }

    /// Reads the source of a put, at the latest when it becomes reusable.
    #[expect(clippy::unused_self, reason = "every access of an operation goes through here")]
    pub(crate) fn read_source(&self, _: &Op, source: Local) -> Box<[u8]> {
        let mut bytes = vec![0; source.bytes].into_boxed_slice();
        // SAFETY: whoever issued the put promised that its source lives until then; the copy is new.
        unsafe { std::ptr::copy_nonoverlapping(source.start.cast_const(), bytes.as_mut_ptr(), source.bytes) };
        bytes
    }

    /// Data arrives.
    pub(crate) fn write(&self, _: &Op, to: Remote, bytes: &[u8]) {
        // SAFETY: a Remote lies inside its heap.
        unsafe {
            self.memory
                .copy(self.address(to) as *mut u8, bytes.as_ptr(), bytes.len())
        };
    }

    /// A get reads there and writes here.
    pub(crate) fn fetch(&self, _: &Op, from: Remote, to: Local) {
        // SAFETY: whoever issued the get promised that its destination lives until then; a Remote lies inside its heap.
        unsafe {
            self.memory.copy(to.start, self.address(from) as *const u8, to.bytes);
        }
    }

    /// One element arrives.
    pub(crate) fn store(&self, _: &Op, to: Remote, value: u128, bytes: u32) {
        // SAFETY: a Remote lies inside its heap, and elements are aligned there.
        unsafe { self.memory.store(self.address(to), bytes, value) };
    }

    /// Reads one element.
    pub(crate) fn load(&self, _: &Op, from: Remote, bytes: u32) -> u128 {
        // SAFETY: as in `store`.
        unsafe { memory::load(self.address(from), bytes) }
    }

    /// A signal arrives.
    pub(crate) fn signal(&self, _: &Op, pe: u32, update: SignalUpdate) {
        let word = self.address(Remote {
            pe,
            offset: update.offset,
        });
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
    pub(crate) fn atomic(&self, _: &Op, to: Remote, bytes: u32, atomic: &Atomic) -> u64 {
        let Atomic {
            op, operand, comparand, ..
        } = *atomic;
        // SAFETY: as in `store`.
        unsafe { self.memory.atomic(self.address(to), bytes, op, operand, comparand) }
    }
}
