//! Registers that lie in memory, looked at by a thread: how a GPU without an adapter rings.

use crate::fabric::Fabric;
use crate::memory::Memory;
use crate::state::Adapter;
use crate::tables::REGISTERS;

impl<M: Memory> Fabric<M> {
    /// Looks once at every register of pages that lie in memory, and does all that follows from what was written there.
    /// Returns how many steps that were. For [`Config::polled`](crate::Config::polled).
    ///
    /// A register that is written twice between two looks is seen once: give each queue pair a page of its own.
    pub fn poll(&mut self) -> usize {
        let mut steps = 0;
        for index in 0..self.queue_pairs.len() {
            let qp = &self.queue_pairs[index];
            if qp.gone {
                continue;
            }
            let (adapter, page) = (qp.id.adapter, qp.page);
            let Some(Some(place)) = self.adapters[adapter].pages.get(page as usize).copied() else {
                continue;
            };
            for (i, offset) in REGISTERS.into_iter().enumerate() {
                let mut value = [0; 8];
                if self.memory.read(place.after(offset), &mut value).is_err() {
                    continue;
                }
                let seen = &mut self.queue_pairs[index].polled[i];
                if *seen != value {
                    *seen = value;
                    self.ring(Adapter(adapter), page, value);
                }
            }
            steps += self.run();
        }
        steps
    }
}
