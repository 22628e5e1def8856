//! What hosts know, and what launches begin and end with.
//!
//! A PE's host is a lane of its own, in a block that never ends. It knows of a kernel once it has waited for the stream, and
//! of other hosts once they have met; a kernel knows what its host did before the launch, and what came before it on its
//! stream.

use super::access::What;
use super::clock::{Clock, LaneId};
use super::ends::LaunchId;
use super::order::Order;
use super::{BlockInfo, Checker, Inner, View, plain};
use shmem::hook::At;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// What a host has done, in the order in which hosts did.
#[derive(Clone, Debug)]
pub(crate) enum HostEvent {
    /// It has launched a kernel.
    Launched { pe: u32, stream: u32 },
    /// It has seen the stream drained.
    Waited { pe: u32, stream: u32 },
    /// These PEs' hosts have met.
    Met(Vec<u32>),
    /// It reads or writes memory of its PE.
    Access(HostAccess),
    /// Memory begins a new life.
    Reused { address: u64, bytes: u64 },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct HostAccess {
    pub(crate) pe: u32,
    pub(crate) write: bool,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) at: At,
}

/// One stream of a PE.
#[derive(Default)]
pub(super) struct Tail {
    pe: u32,
    stream: u32,
    /// What hosts knew at the launches that have not begun.
    coming: VecDeque<Clock>,
    /// Launches that have begun.
    begun: u32,
    /// What is known behind the last one that has ended.
    clock: Clock,
    /// What the blocks of the one that runs knew at their ends.
    ending: Clock,
}

impl Inner {
    pub(super) fn add_hosts(&mut self, pes: u32) {
        for pe in 0..pes {
            self.blocks.push(BlockInfo::new(pe, None, "", [0; 3], [1; 3]));
            self.hosts.push(RefCell::new(Order::new(
                LaneId { block: pe, thread: 0 },
                Clock::default(),
            )));
        }
    }

    fn tail(&mut self, pe: u32, stream: u32) -> u32 {
        let known = self
            .tails
            .iter()
            .position(|tail| (tail.pe, tail.stream) == (pe, stream));
        let index = known.unwrap_or_else(|| {
            self.tails.push(Tail {
                pe,
                stream,
                ..Tail::default()
            });
            self.tails.len() - 1
        });
        index as u32
    }

    /// Leaves out what is known by the ends of launches.
    fn prune(&self, clock: &mut Clock) {
        let ends = clock.ends.clone();
        clock.retain(|block| {
            let launch = self.blocks[block as usize].launch;
            launch.is_none_or(|launch| !ends.contains(launch))
        });
    }
}

impl Checker {
    /// Hosts have done these things.
    pub(crate) fn hosts_did(&self, events: Vec<HostEvent>) {
        for event in events {
            match event {
                HostEvent::Launched { pe, stream } => {
                    let inner = &mut *self.inner.borrow_mut();
                    let clock = inner.hosts[pe as usize].get_mut().release();
                    let tail = inner.tail(pe, stream);
                    inner.tails[tail as usize].coming.push_back(clock);
                }
                HostEvent::Waited { pe, stream } => {
                    let inner = &mut *self.inner.borrow_mut();
                    let tail = inner.tail(pe, stream);
                    let known = &inner.tails[tail as usize].clock;
                    let host = inner.hosts[pe as usize].get_mut();
                    host.clock.join(known);
                }
                HostEvent::Met(pes) => {
                    let inner = &mut *self.inner.borrow_mut();
                    Self::sync(pes.iter().map(|&pe| &inner.hosts[pe as usize]));
                    let mut clock = inner.hosts[pes[0] as usize].borrow().clock.clone();
                    inner.prune(&mut clock);
                    for pe in pes {
                        inner.hosts[pe as usize].get_mut().clock = clock.clone();
                    }
                }
                HostEvent::Access(access) => self.host_accesses(access),
                HostEvent::Reused { address, bytes } => self.forget(address, bytes),
            }
        }
    }

    fn host_accesses(&self, access: HostAccess) {
        let inner = &mut *self.inner.borrow_mut();
        let order =
            inner.hosts[access.pe as usize].replace(Order::new(LaneId { block: 0, thread: 0 }, Clock::default()));
        let what = if access.write { What::Store } else { What::Load };
        let made = Rc::new(plain(&order, what, access.at));
        if self.touch(inner, &View::Lane(&order, false), &made, access.address, access.bytes) {
            let record = inner.history.add(made);
            if access.write {
                inner.history.wrote(record, access.address, access.bytes);
            } else {
                inner.history.read(record, access.address, access.bytes);
            }
        }
        inner.hosts[access.pe as usize].replace(order);
    }

    /// The stream's next launch begins. Returns its name, and what its lanes know.
    pub(crate) fn launch_begins(&self, pe: u32, stream: u32) -> (LaunchId, Clock) {
        let inner = &mut *self.inner.borrow_mut();
        let index = inner.tail(pe, stream);
        let tail = &mut inner.tails[index as usize];
        let mut clock = tail.coming.pop_front().unwrap_or_default();
        clock.join(&tail.clock);
        tail.ending = clock.clone();
        let launch = LaunchId {
            stream: index,
            number: tail.begun,
        };
        tail.begun += 1;
        inner.prune(&mut clock);
        (launch, clock)
    }

    /// All blocks of a launch have ended, and what they did is done.
    pub(crate) fn launch_ended(&self, launch: LaunchId) {
        let inner = &mut *self.inner.borrow_mut();
        let mut clock = std::mem::take(&mut inner.tails[launch.stream as usize].ending);
        clock.ends.add(launch);
        inner.prune(&mut clock);
        inner.tails[launch.stream as usize].clock = clock;
    }

    /// A block has ended: what its lanes knew is known behind its launch.
    pub(crate) fn end<'a>(&self, block: u32, lanes: impl Iterator<Item = &'a RefCell<Order>>) {
        let inner = &mut *self.inner.borrow_mut();
        let info = &mut inner.blocks[block as usize];
        info.forget_most();
        let Some(launch) = info.launch else { return };
        let ending = &mut inner.tails[launch.stream as usize].ending;
        let mut last: Option<Clock> = None;
        for lane in lanes {
            let order = &mut *lane.borrow_mut();
            order.settle();
            if !order.relaxed_is_empty() {
                ending.join(&order.relaxed);
            }
            if !last.as_ref().is_some_and(|last| last.same(&order.clock)) {
                ending.join(&order.clock);
                last = Some(order.clock.clone());
            }
        }
    }
}
