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
    /// The team as each member has it, once it has come: another one in its place begins anew.
    serials: Vec<Option<shmem::Serial>>,
}

impl Slot {
    fn new(n: u32) -> Self {
        let (begun, serials) = (vec![0; n as usize], vec![None; n as usize]);
        Self {
            begun,
            serials,
            ..Self::default()
        }
    }
}

/// All slots of all teams, by the team's block, its first PE and the slot: PEs without a common team may use one block for different
/// ones.
#[derive(Default)]
pub(crate) struct Agreement {
    slots: RefCell<HashMap<(u64, u32, u32), Slot>>,
}

impl Agreement {
    /// A PE begins its next collective of a slot. The world and the node are `built_in`: any handle of theirs is the same team.
    ///
    /// # Errors
    /// What differs, where another member has begun another.
    pub(crate) fn begin(&self, call: &CollectiveCall, built_in: bool, pe: u32, at: At) -> Result<(), String> {
        let (mut slots, me) = (self.slots.borrow_mut(), call.me as usize);
        let slot = slots.entry((call.team, call.first, call.slot)).or_default();
        let known = slot.serials.get(me).copied().flatten();
        let another = !built_in && known.is_some_and(|known| known != call.serial);
        if another || slot.begun.len() != call.n as usize {
            *slot = Slot::new(call.n);
        }
        slot.serials[me] = Some(call.serial);
        let number = slot.begun[me];
        slot.begun[me] += 1;
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
