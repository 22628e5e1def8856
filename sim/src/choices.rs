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

pub(crate) struct Choices {
    /// The numbers of those that may be random, ascending; None: all.
    only: Option<Arc<[u64]>>,
    /// How many of `only` lie behind.
    passed: Cell<usize>,
    /// Decisions so far.
    made: Cell<u64>,
    notes: Option<Notes>,
}

impl Choices {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            only: config.choices.clone().or_else(|| config.model.map(|_| Arc::default())),
            passed: Cell::new(0),
            made: Cell::new(0),
            notes: config.notes.clone(),
        }
    }

    /// Counts a decision; whether it may be random.
    pub(crate) fn may_be_random(&self) -> bool {
        let number = self.made.replace(self.made.get() + 1);
        let Some(only) = &self.only else { return true };
        let found = only.get(self.passed.get()) == Some(&number);
        self.passed.set(self.passed.get() + usize::from(found));
        found
    }

    /// Says what the decision just counted came to, where it is not what a plain one would.
    pub(crate) fn note(&self, text: impl FnOnce() -> String) {
        if let Some(notes) = &self.notes {
            notes.add(self.made.get() - 1, text());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_named_are_random() {
        let mut config = Config::new(1);
        config.choices = Some(Arc::from([1, 3]));
        let choices = Choices::new(&config);
        let random: Vec<bool> = (0..5).map(|_| choices.may_be_random()).collect();
        assert_eq!(random, [false, true, false, true, false]);
    }
}
