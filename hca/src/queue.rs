//! What a queue pair can do next.

use crate::decode::Fence;
use crate::state::{Progress, Qp, State};
use crate::wire::{ANSWER, COMPLETE, FETCH, LAND, SEND};

/// Packets of a queue pair that arrived and have not landed, at most: what a target has room for. Else the bytes of a sender
/// that never stops would land later and later.
const MOST_LANDINGS: usize = 32;

impl Qp {
    pub(crate) fn reads_in_flight(&self) -> usize {
        let fetching = |p: &Progress| matches!(p, Progress::Reading { .. } | Progress::Answered);
        self.works
            .iter()
            .take(self.sent)
            .filter(|w| fetching(&w.progress))
            .count()
    }

    fn may_send(&self) -> bool {
        let Some(work) = self.works.get(self.sent) else {
            return false;
        };
        let (Some(request), Progress::Sending(_), State::ReadyToSend) = (&work.request, &work.progress, self.state)
        else {
            return false;
        };
        let mut before = self.works.iter().take(self.sent);
        let free = match request.fence {
            Fence::None => true,
            Fence::Reads => self.reads_in_flight() == 0,
            Fence::All => before.all(|w| w.progress == Progress::Acknowledged),
        };
        free && (!request.operation.is_fetching() || self.reads_in_flight() < self.max_reads)
    }

    /// The oldest read that the target has not answered in full.
    pub(crate) fn to_fetch(&self) -> Option<usize> {
        self.works.iter().take(self.sent).position(|w| {
            let total = w.request.as_ref().map_or(0, |r| r.operation.bytes());
            matches!(w.progress, Progress::Reading { fetched, .. } if fetched < total)
        })
    }

    fn may_complete(&self) -> bool {
        self.works.front().is_some_and(|w| {
            self.state == State::Error || matches!(w.progress, Progress::Acknowledged | Progress::Failed(..))
        })
    }

    /// What can happen next.
    pub(crate) fn options(&self) -> [bool; 5] {
        let mut options = [false; 5];
        options[SEND] = self.landings.len() < MOST_LANDINGS && self.may_send();
        options[LAND] = !self.landings.is_empty();
        options[FETCH] = self.state != State::Error && self.to_fetch().is_some();
        options[ANSWER] = !self.answers.is_empty();
        options[COMPLETE] = self.may_complete();
        options
    }
}
