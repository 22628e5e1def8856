//! Whether the members of a team make the same collectives in the same order: on a GPU they would wait for each other's
//! packets until the time limit.

use shmem::hook::{At, CollectiveCall};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};

/// What the first member to come has called.
struct First {
    call: CollectiveCall,
    pe: u32,
    at: At,
    /// Members that have come.
    come: u32,
}

/// One slot of a team.
#[derive(Default)]
struct Slot {
    /// How many collectives each member has begun.
    begun: Vec<u64>,
    /// Those that not all have begun, from number `from` on.
    open: VecDeque<First>,
    from: u64,
}

/// All slots of all teams.
#[derive(Default)]
pub(crate) struct Agreement {
    slots: RefCell<HashMap<(u64, shmem::Serial, u32), Slot>>,
}

impl Agreement {
    /// A PE begins its next collective of a slot.
    ///
    /// # Errors
    /// What differs, where another member has begun another.
    pub(crate) fn begin(&self, call: &CollectiveCall, pe: u32, at: At) -> Result<(), String> {
        let mut slots = self.slots.borrow_mut();
        let slot = slots.entry((call.team, call.serial, call.slot)).or_default();
        slot.begun.resize(call.n as usize, 0);
        let number = slot.begun[call.me as usize];
        slot.begun[call.me as usize] += 1;
        let place = (number - slot.from) as usize;
        if place == slot.open.len() {
            slot.open.push_back(First {
                call: *call,
                pe,
                at,
                come: 0,
            });
        }
        let first = &mut slot.open[place];
        if first.call.what() != call.what() {
            return Err(format!(
                "the members of a team make different calls as collective {number} of slot {}: PE {pe} calls {} here, PE {} {} at {}: \
                 all make the same calls in the same order",
                call.slot, call, first.pe, first.call, first.at
            ));
        }
        first.come += 1;
        while slot.open.front().is_some_and(|first| first.come == first.call.n) {
            slot.open.pop_front();
            slot.from += 1;
        }
        Ok(())
    }
}
