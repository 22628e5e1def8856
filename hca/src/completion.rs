//! Completions, written to their queues.

use crate::fabric::Fabric;
use crate::memory::Memory;
use crate::state::{Cq, State};
use crate::tables::{BLOCK, completion, error_completion, kind};
use crate::violation::Fault;

/// What a completion tells of an entry.
pub(crate) struct Report {
    pub(crate) position: u64,
    pub(crate) opcode: u8,
    pub(crate) bytes: u64,
    /// Syndrome and vendor syndrome, where it failed.
    pub(crate) error: Option<(u8, u8)>,
}

impl<M: Memory> Fabric<M> {
    /// Writes the completion of an entry of queue pair `index`.
    pub(crate) fn complete(&mut self, index: usize, report: &Report) {
        if let Err(fault) = self.try_complete(index, report) {
            let qp = &mut self.queue_pairs[index];
            qp.state = State::Error;
            let violation = qp.violation(report.position as u16, fault);
            self.report(violation);
        }
    }

    fn try_complete(&mut self, index: usize, report: &Report) -> Result<(), Fault> {
        let qp = &self.queue_pairs[index];
        let (number, cq) = (qp.id.number, &mut self.completion_queues[qp.completions]);
        if cq.overrun {
            // It is in error, and takes nothing more.
            return Ok(());
        }
        cq.has_room(&self.memory)?;
        let mut bytes = [0; BLOCK];
        let (kind, owner) = match report.error {
            None => (kind::REQUEST, cq.owner()),
            Some((syndrome, vendor)) => {
                error_completion::SYNDROME.set(&mut bytes, u64::from(syndrome));
                error_completion::VENDOR.set(&mut bytes, u64::from(vendor));
                (kind::REQUEST_ERROR, cq.owner())
            }
        };
        if report.error.is_none() {
            completion::BYTES.set(&mut bytes, report.bytes);
            completion::TIMESTAMP.set(&mut bytes, self.now);
        }
        self.now += 1;
        completion::ENTRY_OPCODE.set(&mut bytes, u64::from(report.opcode));
        completion::QUEUE_PAIR.set(&mut bytes, u64::from(number));
        completion::INDEX.set(&mut bytes, report.position & 0xffff);
        completion::KIND.set(&mut bytes, u64::from(kind));
        completion::OWNER.set(&mut bytes, u64::from(owner));
        let slot = cq.ring.slot(if cq.collapsed { 0 } else { cq.produced });
        // The last word is what pollers look at: all else is there before.
        self.memory.release();
        self.memory.write(slot, &bytes[..60])?;
        self.memory.release();
        self.memory.write(slot.after(60), &bytes[60..])?;
        self.memory.release();
        cq.produced += 1;
        Ok(())
    }
}

impl Cq {
    /// The owner bit of the next completion.
    fn owner(&self) -> u8 {
        (self.produced >> self.ring.log2) as u8 & 1
    }

    /// Whether the next completion has a slot, by the queue's record.
    fn has_room<M: Memory>(&mut self, memory: &M) -> Result<(), Fault> {
        if self.ignore_overrun {
            return Ok(());
        }
        let mut word = [0; 4];
        memory.read(self.record, &mut word)?;
        let taken = u32::from_be_bytes(word);
        let size = 1 << self.ring.log2;
        let waiting = (self.produced as u32).wrapping_sub(taken) & 0xff_ffff;
        if taken >> 24 != 0 || waiting > size {
            self.overrun = true;
            return Err(Fault::CompletionRecord {
                taken,
                produced: self.produced,
            });
        }
        if waiting == size {
            self.overrun = true;
            return Err(Fault::CompletionOverrun {
                produced: self.produced,
                taken,
                size,
            });
        }
        Ok(())
    }
}
