//! Adapters and the network between them.

use crate::config::{Config, Delivery};
use crate::counters::Counters;
use crate::firmware::Refusal;
use crate::memory::Memory;
use crate::rng::Rng;
use crate::state::{AdapterState, Cq, Qp, QueuePair};
use crate::violation::Violation;
use std::collections::VecDeque;

/// Adapters, and the network between them.
#[derive(Debug)]
pub struct Fabric<M> {
    pub(crate) memory: M,
    pub(crate) config: Config,
    pub(crate) rng: Rng,
    /// How likely each kind of step is, beside others: some seeds land late, some report late.
    pub(crate) weights: [u32; 5],
    pub(crate) adapters: Vec<AdapterState>,
    pub(crate) queue_pairs: Vec<Qp>,
    pub(crate) completion_queues: Vec<Cq>,
    /// Queue pairs that have something to do.
    pub(crate) active: Vec<usize>,
    pub(crate) violations: VecDeque<Violation>,
    pub(crate) refusals: VecDeque<Refusal>,
    /// Completions written so far: their time stamp.
    pub(crate) now: u64,
    pub(crate) counters: Counters,
}

/// Violations that are kept; later ones are dropped.
pub(crate) const KEPT: usize = 1024;

impl<M: Memory> Fabric<M> {
    /// None yet. `memory` is what adapters read and write.
    pub fn new(memory: M, config: Config) -> Self {
        let seed = match config.delivery {
            Delivery::Seeded(seed) => seed,
            Delivery::Eager => 0,
        };
        let mut rng = Rng::new(seed);
        let weights = [(); 5].map(|()| 1 << (2 * rng.below(4)));
        Self {
            memory,
            config: Config {
                mtu: config.mtu.max(1),
                ..config
            },
            rng,
            weights,
            adapters: Vec::new(),
            queue_pairs: Vec::new(),
            completion_queues: Vec::new(),
            active: Vec::new(),
            violations: VecDeque::new(),
            refusals: VecDeque::new(),
            now: 0,
            counters: Counters::default(),
        }
    }

    /// What adapters read and write.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// What adapters read and write.
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// What adapters have done so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The faults found since the last call, oldest first, 1024 at most.
    pub fn take_violations(&mut self) -> Vec<Violation> {
        self.violations.drain(..).collect()
    }

    pub(crate) fn find(&self, id: QueuePair) -> Option<usize> {
        self.adapters.get(id.adapter)?.queue_pairs.get(&id.number).copied()
    }

    pub(crate) fn report(&mut self, violation: Violation) {
        if self.violations.len() < KEPT {
            self.violations.push_back(violation);
        }
    }

    pub(crate) fn activate(&mut self, index: usize) {
        if !self.active.contains(&index) {
            self.active.push(index);
        }
    }
}
