//! Every random decision of a world, numbered, so that a failing run can be told by the few that matter.
//!
//! A decision asks here whether it may be random. One that may not is *plain*: warps run first in, first out, lanes give
//! way to nobody, and an operation takes effect when it is issued.

use crate::config::Config;
use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// What random decisions did, by their numbers; those that came out plain are left out.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Vec<(u64, String)>>>);

impl Notes {
    /// Takes what was noted so far.
    pub(crate) fn take(&self) -> Vec<(u64, String)> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, number: u64, text: String) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((number, text));
    }
}

impl fmt::Debug for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notes")
    }
}

/// Decisions that are numbered together, so that one more or less in another sequence leaves their numbers alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sequence {
    /// Which warp runs, and how.
    Warps,
    /// Whether a lane gives way.
    Lanes,
    /// How an operation of this PE is held back.
    Operations(u32),
}

impl Sequence {
    fn index(self) -> u64 {
        match self {
            Self::Warps => 0,
            Self::Lanes => 1,
            Self::Operations(pe) => 2 + u64::from(pe),
        }
    }
}

pub(crate) struct Choices {
    /// The numbers of those that may be random, ascending; None: all.
    only: Option<Arc<[u64]>>,
    /// Decisions so far, by sequence.
    made: Box<[Cell<u64>]>,
    /// The number of the last one.
    last: Cell<u64>,
    notes: Option<Notes>,
}

impl Choices {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            only: config.choices.clone().or_else(|| config.model.map(|_| Arc::default())),
            made: (0..Sequence::Operations(config.pes).index())
                .map(|_| Cell::new(0))
                .collect(),
            last: Cell::new(0),
            notes: config.notes.clone(),
        }
    }

    /// Counts a decision; whether it may be random.
    pub(crate) fn may_be_random(&self, sequence: Sequence) -> bool {
        let made = &self.made[sequence.index() as usize];
        let before = made.replace(made.get() + 1);
        let number = before * self.made.len() as u64 + sequence.index();
        self.last.set(number);
        self.only
            .as_ref()
            .is_none_or(|only| only.binary_search(&number).is_ok())
    }

    /// Says what the decision just counted came to, where it is not what a plain one would.
    pub(crate) fn note(&self, text: impl FnOnce() -> String) {
        if let Some(notes) = &self.notes {
            notes.add(self.last.get(), text());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_named_are_random_whatever_others_do() {
        let mut config = Config::new(1);
        config.choices = Some(Arc::from([1, 5, 6]));
        let choices = Choices::new(&config);
        let operations: Vec<bool> = (0..3).map(|_| choices.may_be_random(Sequence::Operations(0))).collect();
        assert_eq!(operations, [false, true, false]);
        let warps: Vec<bool> = (0..3).map(|_| choices.may_be_random(Sequence::Warps)).collect();
        assert_eq!(warps, [false, false, true]);
        assert!(choices.may_be_random(Sequence::Lanes) && !choices.may_be_random(Sequence::Lanes));
    }
}
