//! Bytes that reach memory, at the target and back at the sender.

use crate::config::Delivery;
use crate::fabric::Fabric;
use crate::memory::{Memory, Place, Unmapped};
use crate::state::{Landing, Progress, Qp};
use crate::violation::Fault;
use std::collections::VecDeque;

impl<M: Memory> Fabric<M> {
    /// Writes of this queue pair that arrived before `position` reach memory.
    pub(crate) fn land_before(&mut self, index: usize, position: u64) -> Result<(), Fault> {
        let qp = &mut self.queue_pairs[index];
        while let Some(landing) = qp.landings.pop_front_if(|l| l.position < position) {
            self.memory.write(landing.place, &landing.bytes)?;
        }
        Ok(())
    }

    /// Bytes of a write reach the target's memory: whose, and where or why not.
    pub(crate) fn land(&mut self, index: usize) -> (u64, Result<(Place, u64), Unmapped>) {
        let i = self.pick(index, |qp| &qp.landings);
        let landing = self.queue_pairs[index].landings.remove(i);
        self.put(landing)
    }

    /// Bytes of an answer reach the sender's memory.
    pub(crate) fn answer(&mut self, index: usize) -> (u64, Result<(Place, u64), Unmapped>) {
        let i = self.pick(index, |qp| &qp.answers);
        let answer = self.queue_pairs[index].answers.remove(i);
        let (position, landed) = self.put(answer);
        let work = self.queue_pairs[index]
            .works
            .iter_mut()
            .find(|w| w.position == position);
        if let (Ok((_, bytes)), Some(work)) = (landed, work) {
            let total = work.request.as_ref().map_or(0, |r| r.operation.bytes());
            work.progress = match work.progress {
                Progress::Reading { fetched, landed } if landed + bytes < total => Progress::Reading {
                    fetched,
                    landed: landed + bytes,
                },
                Progress::Reading { .. } | Progress::Answered => Progress::Acknowledged,
                ref other => other.clone(),
            };
        }
        (position, landed)
    }

    fn put(&mut self, landing: Option<Landing>) -> (u64, Result<(Place, u64), Unmapped>) {
        // It is called only where there is one.
        let Some(landing) = landing else {
            return (0, Err(Unmapped(Place::default())));
        };
        let written = self.memory.write(landing.place, &landing.bytes);
        (
            landing.position,
            written.map(|()| (landing.place, landing.bytes.len() as u64)),
        )
    }

    /// Which of the bytes that are on their way lands: the oldest, or a relaxed one.
    fn pick(&mut self, index: usize, of: fn(&Qp) -> &VecDeque<Landing>) -> usize {
        if self.config.delivery == Delivery::Eager {
            return 0;
        }
        let queue = of(&self.queue_pairs[index]);
        let relaxed = queue.iter().skip(1).filter(|l| l.relaxed).count();
        if relaxed == 0 {
            return 0;
        }
        let draw = self.rng.below(relaxed + 1);
        let mut others = of(&self.queue_pairs[index])
            .iter()
            .enumerate()
            .skip(1)
            .filter(|(_, l)| l.relaxed);
        draw.checked_sub(1).and_then(|n| others.nth(n)).map_or(0, |(i, _)| i)
    }
}
