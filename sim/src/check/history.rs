//! The accesses that the shadow's numbers stand for.

use super::access::{Access, What};
use super::clock::{Clock, LaneId};
use super::order::Order;
use super::shadow::Shadow;
use shmem::hook::At;
use std::cell::Cell;
use std::panic::Location;
use std::rc::Rc;

/// Accesses by number, from 1 on.
#[derive(Default)]
pub(crate) struct Records(Vec<Option<Rc<Access>>>);

impl Records {
    pub(crate) fn get(&self, record: u32) -> &Rc<Access> {
        self.0[record as usize - 1].as_ref().expect("a record in use")
    }
}

/// Lists of reads: each is one read more than another list. 0 is the empty list, and most lists are one read: that is its
/// record, marked.
#[derive(Default)]
pub(crate) struct Chains {
    /// What it goes on with, the read, and how many there are.
    links: Vec<(u32, u32, u32)>,
    /// Lists that were made not long ago, and from what: neighbours mostly have the same.
    recent: Vec<(u32, u32, u32)>,
}

/// Marks a list that is one record.
const ONE: u32 = 1 << 31;
const RECENT: usize = 1 << 12;

impl Chains {
    /// What a list goes on with, its newest read, and how many there are; None of the empty one.
    fn head(&self, chain: u32) -> Option<(u32, u32, u32)> {
        match chain {
            0 => None,
            ONE.. => Some((0, chain & !ONE, 1)),
            _ => Some(self.links[chain as usize - 1]),
        }
    }

    pub(crate) fn walk(&self, mut chain: u32) -> impl Iterator<Item = u32> {
        std::iter::from_fn(move || {
            let (next, record, _) = self.head(chain)?;
            chain = next;
            Some(record)
        })
    }

    fn with(&mut self, chain: u32, record: u32) -> u32 {
        if chain == 0 {
            return ONE | record;
        }
        self.recent.resize(RECENT, (0, 0, 0));
        let place = chain.wrapping_mul(0x9e37_79b1).wrapping_add(record) as usize % RECENT;
        let (from, with, made) = self.recent[place];
        if (from, with) == (chain, record) {
            return made;
        }
        self.links.push((chain, record, self.len(chain) + 1));
        let made = self.links.len() as u32;
        self.recent[place] = (chain, record, made);
        made
    }

    fn len(&self, chain: u32) -> u32 {
        self.head(chain).map_or(0, |(.., len)| len)
    }
}

#[derive(Default)]
pub(crate) struct History {
    pub(crate) shadow: Shadow,
    pub(crate) records: Records,
    pub(crate) chains: Chains,
    free: Vec<u32>,
    /// Records and links at which what is in use is looked for.
    sweep_at: usize,
    /// The record of memory that has been allocated.
    fresh: u32,
}

/// The fewest records and links that are worth a sweep.
const SWEEP: usize = 1 << 20;

impl History {
    pub(crate) fn get(&self, record: u32) -> &Rc<Access> {
        self.records.get(record)
    }

    pub(crate) fn add(&mut self, access: Rc<Access>) -> u32 {
        if self.records.0.len() + self.chains.links.len() >= self.sweep_at.max(SWEEP) && self.free.is_empty() {
            self.sweep();
        }
        if let Some(record) = self.free.pop() {
            self.records.0[record as usize - 1] = Some(access);
            return record;
        }
        self.records.0.push(Some(access));
        self.records.0.len() as u32
    }

    /// The number of an operation's access, which gets one at its first effect.
    pub(crate) fn record(&mut self, access: &Rc<Access>, number: &Cell<u32>) -> u32 {
        let known = number.get();
        // A sweep may have given the number away.
        if known != 0
            && self.records.0[known as usize - 1]
                .as_ref()
                .is_some_and(|a| Rc::ptr_eq(a, access))
        {
            return known;
        }
        let record = self.add(Rc::clone(access));
        number.set(record);
        record
    }

    /// The record of the lane's access from this line in this epoch, or 0.
    pub(crate) fn cached(&self, order: &Order, what: What, at: At) -> u32 {
        let found = order
            .recent
            .iter()
            .find(|(w, a, epoch, _)| *w == what && std::ptr::eq(*a, at) && *epoch == order.epoch);
        let record = found.map_or(0, |(.., record)| *record);
        let valid = record != 0
            && self.records.0[record as usize - 1]
                .as_ref()
                .is_some_and(|a| (a.lane, a.epoch, a.what) == (order.me, order.epoch, what) && std::ptr::eq(a.at, at));
        if valid { record } else { 0 }
    }

    /// Gives a lane's access a number, if it has none yet.
    pub(crate) fn remember(&mut self, order: &mut Order, access: &Rc<Access>, record: u32) -> u32 {
        // Strong loads are not kept.
        if record != 0 || access.what == What::StrongLoad {
            return record;
        }
        let record = self.add(Rc::clone(access));
        if access.release.is_none() {
            let i = order.next_recent;
            order.recent[i] = (access.what, access.at, access.epoch, record);
            order.next_recent = (i + 1) % order.recent.len();
        }
        record
    }

    pub(crate) fn wrote(&mut self, record: u32, address: u64, bytes: u64) {
        let mark = |_, _| {
            Ok::<_, std::convert::Infallible>(super::shadow::Cell {
                write: record,
                reads: 0,
            })
        };
        let Ok(()) = self.shadow.update(address, bytes, mark);
    }

    pub(crate) fn read(&mut self, record: u32, address: u64, bytes: u64) {
        let Self {
            shadow,
            records,
            chains,
            ..
        } = self;
        let add = |cell: super::shadow::Cell, _| {
            let reads = add_read(records, chains, cell.reads, record);
            Ok::<_, std::convert::Infallible>(super::shadow::Cell { reads, ..cell })
        };
        let Ok(()) = shadow.update(address, bytes, add);
    }

    /// The last write of the word at an address.
    pub(crate) fn last_write(&mut self, address: u64) -> Option<&Rc<Access>> {
        let mut write = 0;
        let look = |cell: super::shadow::Cell, _| {
            write = cell.write;
            Ok::<_, std::convert::Infallible>(cell)
        };
        // Words are at least as large as what the shadow tells apart at no cost.
        let Ok(()) = self.shadow.update(address, 4, look);
        (write != 0)
            .then(|| self.records.get(write))
            .filter(|access| access.what != What::Fresh)
    }

    pub(crate) fn fresh(&mut self, address: u64, bytes: u64) {
        if self.fresh == 0 {
            self.fresh = self.add(Rc::new(Access {
                lane: LaneId { block: 0, thread: 0 },
                epoch: 0,
                after: 0,
                what: What::Fresh,
                at: Location::caller(),
                channel: None,
                clock: Clock::default(),
                release: None,
                heard: None,
                counter: None,
                network: false,
                again: false,
                tail: false,
                over: Cell::new(false),
                adders: None,
            }));
        }
        self.wrote(self.fresh, address, bytes);
    }

    /// Gives back records and links that no byte refers to.
    fn sweep(&mut self) {
        let mut links = vec![false; self.chains.links.len()];
        let mut used = vec![false; self.records.0.len()];
        for cell in self.shadow.cells_mut() {
            let mut chain = cell.reads;
            while let Some((next, record, _)) = self.chains.head(chain) {
                used[record as usize - 1] = true;
                if chain < ONE && std::mem::replace(&mut links[chain as usize - 1], true) {
                    break;
                }
                chain = next;
            }
            if cell.write != 0 {
                used[cell.write as usize - 1] = true;
            }
        }
        if self.fresh != 0 {
            used[self.fresh as usize - 1] = true;
        }
        // Links are numbered anew, in the same order: what a link goes on with is older.
        let mut number = vec![0u32; links.len()];
        let renumbered = |number: &[u32], chain: u32| match chain {
            0 | ONE.. => chain,
            _ => number[chain as usize - 1],
        };
        let mut kept = Vec::new();
        for (i, (next, record, len)) in self.chains.links.iter().copied().enumerate() {
            if links[i] {
                kept.push((renumbered(&number, next), record, len));
                number[i] = kept.len() as u32;
            }
        }
        for cell in self.shadow.cells_mut() {
            cell.reads = renumbered(&number, cell.reads);
        }
        self.chains.links = kept;
        self.chains.recent.clear();
        for (i, used) in used.into_iter().enumerate() {
            if !used && self.records.0[i].take().is_some() {
                self.free.push(i as u32 + 1);
            }
        }
        let live = self.records.0.len() - self.free.len() + self.chains.links.len();
        self.sweep_at = self.records.0.len() + self.chains.links.len() + live.max(SWEEP);
    }
}

/// A list of reads with one more. A lane's own older read goes, and so do, now and then, those that come before the new one.
fn add_read(records: &Records, chains: &mut Chains, chain: u32, record: u32) -> u32 {
    let new = records.get(record);
    let mut base = chain;
    if let Some((next, head, _)) = chains.head(chain) {
        let old = records.get(head);
        if head == record {
            return chain;
        }
        if covered(old, new) {
            base = next;
        }
    }
    let len = chains.len(base);
    if len >= 16 && len.is_power_of_two() {
        let left: Vec<u32> = chains.walk(base).filter(|&r| !covered(records.get(r), new)).collect();
        base = left.into_iter().rev().fold(0, |chain, r| chains.with(chain, r));
    }
    chains.with(base, record)
}

/// Whether whatever comes after the newer read also comes after the older one.
fn covered(old: &Access, new: &Access) -> bool {
    match (old.channel, new.channel) {
        (None, None) => old.lane == new.lane || new.clock.seen.contains(old.lane, old.epoch),
        (Some(a), Some(b)) => a == b && old.lane == new.lane && old.epoch <= new.epoch,
        _ => false,
    }
}
