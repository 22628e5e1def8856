//! The oldest entry of a queue pair is done, or given up.

use crate::completion::Report;
use crate::fabric::Fabric;
use crate::memory::Memory;
use crate::state::{Progress, State};
use crate::tables::{UNIT, syndrome};
use crate::violation::Fault;
use crate::wire::StepKind;

impl<M: Memory> Fabric<M> {
    /// The oldest entry is done: reports it.
    pub(crate) fn finish(&mut self, index: usize) -> (u64, StepKind) {
        let qp = &mut self.queue_pairs[index];
        let Some(work) = qp.works.pop_front() else {
            return (0, StepKind::Completed);
        };
        qp.sent = qp.sent.saturating_sub(1);
        let (position, end) = (work.position, work.position + u64::from(work.blocks));
        let mut error = match work.progress {
            _ if qp.state == State::Error => Some((syndrome::FLUSHED, 0)),
            Progress::Failed(syndrome, vendor) => Some((syndrome, vendor)),
            _ => None,
        };
        let changed = (0..work.copy.len() / UNIT).find(|&unit| {
            let mut bytes = [0; UNIT];
            let read = self.memory.read(qp.unit(position, unit), &mut bytes);
            read.is_err() || bytes != work.copy[unit * UNIT..][..UNIT]
        });
        if let (None, Some(unit)) = (error, changed) {
            let fault = Fault::Changed { unit };
            error = Some(fault.syndrome());
            let violation = qp.violation(position as u16, fault);
            self.report(violation);
        }
        let qp = &mut self.queue_pairs[index];
        if error.is_some() {
            qp.state = State::Error;
            qp.answers.retain(|answer| answer.position != position);
        }
        let signalled = work.request.as_ref().is_some_and(|r| r.signalled);
        if signalled || error.is_some() {
            if self.config.watch {
                self.poison(index, end);
            }
            self.queue_pairs[index].reported = end;
            let report = Report {
                position,
                opcode: work.opcode,
                bytes: work.request.as_ref().map_or(0, |r| r.operation.bytes()),
                error,
            };
            self.complete(index, &report);
        }
        let kind = if error.is_some() {
            StepKind::Failed
        } else {
            StepKind::Completed
        };
        (position, kind)
    }

    /// Makes the blocks before `end` unreadable, which software may write again from now on.
    fn poison(&mut self, index: usize, end: u64) {
        let qp = &mut self.queue_pairs[index];
        let block = [qp.poison; 4].concat();
        for position in qp.poisoned..end {
            // Whoever unmapped the queue will not read it either.
            let _ = self.memory.write(qp.ring.slot(position), &block);
        }
        qp.poisoned = end;
    }
}
