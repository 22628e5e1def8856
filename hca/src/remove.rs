//! What is asked of adapters besides making things: links, capabilities, memory for commands, and the end of things.

use crate::fabric::Fabric;
use crate::firmware::Capabilities;
use crate::identity::Link;
use crate::memory::{Memory, Place};
use crate::setup::SetupError;
use crate::state::{Adapter, Agreed, CompletionQueue, Page, QueuePair, State};
use crate::tables::{BLOCK, UNIT};

impl<M: Memory> Fabric<M> {
    /// How an adapter's port is connected; [`Link::InfiniBand`] where nobody says otherwise.
    pub fn set_link(&mut self, adapter: Adapter, link: Link) {
        if let Some(state) = self.adapters.get_mut(adapter.0) {
            state.link = link;
        }
    }

    /// How an adapter's port is connected.
    pub fn link(&self, adapter: Adapter) -> Link {
        self.adapters.get(adapter.0).map(|a| a.link).unwrap_or_default()
    }

    /// What an adapter says of itself from now on.
    pub fn set_capabilities(&mut self, adapter: Adapter, capabilities: Capabilities) {
        if let Some(state) = self.adapters.get_mut(adapter.0) {
            state.capabilities = capabilities;
        }
    }

    /// The page of that number.
    pub fn page(&self, adapter: Adapter, number: u32) -> Option<Page> {
        self.adapters.get(adapter.0)?.pages.get(number as usize)?;
        Some(Page {
            adapter: adapter.0,
            number,
        })
    }

    /// The queue pairs of an adapter, in the order they were made.
    pub fn queue_pairs_of(&self, adapter: Adapter) -> Vec<QueuePair> {
        let all = self
            .queue_pairs
            .iter()
            .filter(|qp| !qp.gone && qp.id.adapter == adapter.0);
        all.map(|qp| qp.id).collect()
    }

    /// Registers memory that commands may name (`mlx5dv_devx_umem_reg`): its number.
    ///
    /// # Errors
    /// [`SetupError::Unknown`], [`SetupError::Unmapped`], [`SetupError::Empty`].
    pub fn register_umem(&mut self, adapter: Adapter, place: Place, bytes: u64) -> Result<u32, SetupError> {
        let Some(last) = bytes.checked_sub(1) else {
            return Err(SetupError::Empty("umem"));
        };
        for end in [place, place.after(last)] {
            self.memory.read(end, &mut [0])?;
        }
        let state = self.adapter(adapter.0)?;
        state.made_umems += 1;
        // No two adapters have the same ones by accident.
        let number = adapter.0 as u32 * 0x1000 + state.made_umems;
        state.umems.insert(number, (place, bytes));
        Ok(number)
    }

    /// Gives up a umem. What was made of it stays.
    ///
    /// # Errors
    /// [`SetupError::Unknown`].
    pub fn remove_umem(&mut self, adapter: Adapter, number: u32) -> Result<(), SetupError> {
        let gone = self.adapter(adapter.0)?.umems.remove(&number);
        gone.map(|_| ()).ok_or(SetupError::Unknown("umem"))
    }

    /// Back to [`State::Reset`], from any: what is posted or on its way is forgotten.
    ///
    /// # Errors
    /// [`SetupError::Unknown`], [`SetupError::Unmapped`].
    pub fn reset(&mut self, id: QueuePair) -> Result<(), SetupError> {
        let index = self.find(id).ok_or(SetupError::Unknown("queue pair"))?;
        self.forget(index);
        if self.config.watch {
            let qp = &self.queue_pairs[index];
            let block = [qp.poison; BLOCK / UNIT].concat();
            for slot in 0..qp.ring.size() {
                self.memory.write(qp.ring.slot(slot), &block)?;
            }
        }
        Ok(())
    }

    fn forget(&mut self, index: usize) {
        let qp = &mut self.queue_pairs[index];
        (qp.state, qp.target, qp.stopped) = (State::Reset, None, false);
        (qp.fetched, qp.reported, qp.poisoned, qp.sent) = (0, 0, 0, 0);
        (qp.retries, qp.max_reads, qp.agreed) = (0, 1, Agreed::default());
        qp.works.clear();
        qp.landings.clear();
        qp.answers.clear();
        self.active.retain(|&other| other != index);
    }

    /// Ends a queue pair: nothing that it had touches memory any more, and others that are connected to it get no answer.
    ///
    /// # Errors
    /// [`SetupError::Unknown`].
    pub fn remove_queue_pair(&mut self, id: QueuePair) -> Result<(), SetupError> {
        let index = self.find(id).ok_or(SetupError::Unknown("queue pair"))?;
        self.forget(index);
        self.queue_pairs[index].gone = true;
        self.adapter(id.adapter)?.queue_pairs.remove(&id.number);
        Ok(())
    }

    /// Ends a completion queue.
    ///
    /// # Errors
    /// [`SetupError::Unknown`], [`SetupError::InUse`].
    pub fn remove_completion_queue(&mut self, queue: CompletionQueue) -> Result<(), SetupError> {
        let found = self.completion_queues.get_mut(queue.0).filter(|cq| !cq.gone);
        let found = found.ok_or(SetupError::Unknown("completion queue"))?;
        if self.queue_pairs.iter().any(|qp| !qp.gone && qp.completions == queue.0) {
            return Err(SetupError::InUse("completion queue"));
        }
        found.gone = true;
        Ok(())
    }
}
