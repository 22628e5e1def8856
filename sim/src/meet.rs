//! Barriers wider than a warp: of a block, of some of its warps, of a grid.
//!
//! A block is at a barrier when all its lanes that have not ended are; that is what `barrier.sync` counts. Between warps and
//! between blocks arrivals are counted, as the GPU does it: one that has ended never arrives, and is missed.

use crate::block::{Block, bits, check_sync_all};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

/// The grid of one part of a launch.
pub(crate) struct Grid {
    /// Blocks that there are.
    size: u32,
    /// Blocks all of whose lanes wait for the others.
    arrived: Cell<u32>,
    /// Those that have begun.
    blocks: RefCell<Vec<Weak<Block>>>,
}

impl Grid {
    pub(crate) fn new(size: u32) -> Rc<Self> {
        Rc::new(Self {
            size,
            arrived: Cell::new(0),
            blocks: RefCell::default(),
        })
    }

    /// A block has begun.
    pub(crate) fn add(&self, block: &Rc<Block>) {
        self.blocks.borrow_mut().push(Rc::downgrade(block));
    }

    /// Those that are there.
    pub(crate) fn blocks(&self) -> Vec<Rc<Block>> {
        self.blocks.borrow().iter().filter_map(Weak::upgrade).collect()
    }

    /// Blocks that have arrived, of how many.
    pub(crate) fn arrived(&self) -> (u32, u32) {
        (self.arrived.get(), self.size)
    }

    /// A block has arrived. True where it was the last: all lanes that wait at the grid's barrier are ready again.
    fn arrive(&self) -> bool {
        if self.arrived.get() + 1 < self.size {
            self.arrived.set(self.arrived.get() + 1);
            return false;
        }
        self.arrived.set(0);
        let blocks = self.blocks();
        check_sync_all(&blocks, |block| &block.at_grid);
        for block in blocks {
            block.leave(&block.at_grid);
        }
        true
    }
}

/// Lanes of a block that are at a barrier.
#[derive(Default)]
pub(crate) struct Arrived {
    pub(crate) count: Cell<u32>,
    /// By warp.
    lanes: Box<[Cell<u32>]>,
}

impl Arrived {
    pub(crate) fn new(warps: u32) -> Self {
        Self {
            count: Cell::new(0),
            lanes: (0..warps).map(|_| Cell::new(0)).collect(),
        }
    }

    /// Those of a warp.
    pub(crate) fn lanes(&self, warp: usize) -> u32 {
        self.lanes[warp].get()
    }

    /// All of them.
    pub(crate) fn threads(&self) -> impl Iterator<Item = u32> + Clone {
        (0..)
            .zip(&self.lanes)
            .flat_map(|(warp, lanes)| bits(lanes.get()).map(move |bit| 32 * warp + bit))
    }

    pub(crate) fn add(&self, thread: u32) {
        let lanes = &self.lanes[thread as usize / 32];
        lanes.set(lanes.get() | 1 << (thread % 32));
        self.count.set(self.count.get() + 1);
    }
}

impl Block {
    /// A lane comes to the block's barrier. False where it has to wait.
    pub(crate) fn arrive(&self, thread: u32) -> bool {
        if self.at_barrier.count.get() + 1 < self.live() {
            self.at_barrier.add(thread);
            return false;
        }
        self.check_sync(self.at_barrier.threads().chain([thread]));
        self.leave(&self.at_barrier);
        true
    }

    /// A lane comes to the grid's barrier. False where it has to wait.
    pub(crate) fn arrive_at_grid(&self, thread: u32) -> bool {
        self.at_grid.add(thread);
        let all = self.at_grid.count.get() == self.live();
        all && self.grid.arrive() && {
            self.unready(thread);
            true
        }
    }

    /// A lane comes to the barrier of `count` warps from `first` on. False where it has to wait.
    pub(crate) fn arrive_at_warps(&self, thread: u32, first: u32, count: u32) -> bool {
        self.at_warps.add(thread);
        let warp = &self.warps[thread as usize / 32];
        warp.group.set((first, count));
        self.open_warps(first, count) && {
            self.unready(thread);
            true
        }
    }

    /// Lets the lanes of a group of warps go on, if all warps have arrived.
    fn open_warps(&self, first: u32, count: u32) -> bool {
        let arrived = |warp: u32| {
            let (state, lanes) = (&self.warps[warp as usize], self.at_warps.lanes(warp as usize));
            lanes != 0 && lanes == state.alive.get() && state.group.get() == (first, count)
        };
        if !(first..first + count).all(arrived) {
            return false;
        }
        self.check_sync(
            (first..first + count)
                .flat_map(|warp| bits(self.at_warps.lanes(warp as usize)).map(move |bit| 32 * warp + bit)),
        );
        for warp in first..first + count {
            self.leave_warp(&self.at_warps, warp);
        }
        true
    }

    /// The lane that runs has woken the others and itself with them: it goes on without.
    pub(crate) fn unready(&self, thread: u32) {
        let ready = &self.warps[thread as usize / 32].ready;
        ready.set(ready.get() & !(1 << (thread % 32)));
    }

    /// Lets the lanes at a barrier go on.
    pub(crate) fn leave(&self, barrier: &Arrived) {
        for warp in 0..self.warps.len() as u32 {
            self.leave_warp(barrier, warp);
        }
    }

    fn leave_warp(&self, barrier: &Arrived, warp: u32) {
        let lanes = barrier.lanes[warp as usize].take();
        barrier.count.set(barrier.count.get() - lanes.count_ones());
        self.wake(warp, lanes);
    }

    /// A lane has ended: barriers that waited for it alone open.
    pub(crate) fn recheck_barriers(&self, thread: u32) {
        let all = |barrier: &Arrived| barrier.count.get() > 0 && barrier.count.get() == self.live();
        if all(&self.at_barrier) {
            self.check_sync(self.at_barrier.threads());
            self.leave(&self.at_barrier);
        }
        if all(&self.at_grid) {
            self.grid.arrive();
        }
        self.cluster.open();
        let warp = thread / 32;
        if self.at_warps.lanes(warp as usize) != 0 {
            let (first, count) = self.warps[warp as usize].group.get();
            self.open_warps(first, count);
        }
    }

    /// Threads that have not ended and are not at a barrier, of some warps.
    pub(crate) fn missing(&self, barrier: &Arrived, first: u32, count: u32) -> Vec<u32> {
        let of = |warp: u32| {
            let lanes = self.warps[warp as usize].alive.get() & !barrier.lanes(warp as usize);
            bits(lanes).map(move |bit| 32 * warp + bit)
        };
        (first..first + count).flat_map(of).collect()
    }
}
