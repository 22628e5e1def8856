//! The end of queues.

use crate::fabric::Fabric;
use crate::memory::Memory;
use crate::setup::SetupError;
use crate::state::{Agreed, CompletionQueue, QueuePair, State};
use crate::tables::{BLOCK, UNIT};

impl<M: Memory> Fabric<M> {
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

    /// Ends a queue pair: nothing that it had touches memory any more, and others that are connected to it get no
    /// answer.
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
