//! What a lane meets of the faults that its test asks for.

use crate::failure::Failure;
use crate::lane::Lane;
use shmem::fault::FaultKind;
use shmem::hook::{At, Watch};
use shmem::state::FaultRecord;

impl Lane {
    /// Counts an operation to a PE before it is issued: its own PE may die of it.
    pub(crate) fn admit(&self, to: u32, at: At) {
        let (net, pe) = (&self.world().net, self.block().home.pe);
        if !net.breaks() || self.must_not_wait() {
            return;
        }
        if let Some(death) = net.admit(pe, to) {
            let cause = format!("{death}, at {at}");
            self.world().fail(Failure::PeerFailed { pe, cause });
            self.leave();
        }
    }

    /// Before an operation that acts at once on a PE: waits for ever where the link is frozen.
    pub(crate) fn reach(&self, to: u32, at: At) {
        let (net, pe) = (&self.world().net, self.block().home.pe);
        while net.breaks() && net.frozen(pe, to) {
            self.frozen(at);
        }
    }

    /// Nothing comes of it: the link is frozen.
    pub(crate) fn frozen(&self, at: At) {
        use shmem::hook::Machine as _;
        self.pause(&Watch::CLOSURE, at);
    }

    /// Faults where the NIC has reported an error, for an operation in the context or in any.
    pub(crate) fn meet_error(&self, ctx: Option<u32>, at: At) {
        let (net, pe) = (&self.world().net, self.block().home.pe);
        if !net.breaks() || self.must_not_wait() {
            return;
        }
        if let Some((to, text)) = net.take_error(pe, ctx) {
            let mut record = FaultRecord {
                kind: FaultKind::Network as u32,
                a: to.into(),
                b: 0,
                ..self.record()
            };
            record.locate(at);
            self.fail(record, Some(text));
            self.leave();
        }
    }
}
