//! A resident block: its lanes, its barrier, and the meetings of its warps.
//!
//! A lane that arrives somewhere notes what it waits for and sets its bit; the last one to arrive releases the others and
//! goes on itself. Lanes that have ended count nowhere, as on a GPU.

use crate::check::{Checker, Clock, LaunchId};
use crate::cluster::Cluster;
use crate::kernel::{Kernel, LaneBody, unrank};
use crate::lane::{Lane, SYNC};
use crate::meet::{Arrived, Grid};
use crate::queue::{Queue, WarpId};
use crate::shared::SharedMemory;
use crate::world::World;
use std::cell::Cell;
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;

pub(crate) struct Block {
    pub(crate) world: Rc<World>,
    pub(crate) queue: Rc<Queue>,
    pub(crate) kernel: Kernel,
    pub(crate) home: Home,
    pub(crate) body: Arc<LaneBody>,
    pub(crate) lanes: Box<[Lane]>,
    pub(crate) warps: Box<[Warp]>,
    pub(crate) shared: SharedMemory,
    pub(crate) cluster: Rc<Cluster>,
    pub(crate) grid: Rc<Grid>,
    /// Lanes at the block's barrier.
    pub(crate) at_barrier: Arrived,
    /// Lanes at that of their group of warps.
    pub(crate) at_warps: Arrived,
    /// Lanes at the cluster's.
    pub(crate) at_cluster: Arrived,
    /// Lanes at the grid's.
    pub(crate) at_grid: Arrived,
    live: Cell<u32>,
    /// Among all blocks that have begun, where they are checked.
    number: u32,
}

/// Where a block belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home {
    /// Which part of the launch.
    pub(crate) part: usize,
    pub(crate) pe: u32,
    pub(crate) stream: u32,
    /// Its place among the launch's resident blocks.
    pub(crate) slot: u32,
    /// Its rank in the grid.
    pub(crate) rank: u32,
}

/// The lanes of a warp, as bits.
pub(crate) struct Warp {
    /// Lanes there are: fewer than 32 in a block's last warp.
    pub(crate) exists: u32,
    pub(crate) alive: Cell<u32>,
    pub(crate) ready: Cell<u32>,
    /// Whether the queue knows of ready lanes, or the scheduler is looking at the warp.
    pub(crate) queued: Cell<bool>,
    /// The group of warps that its lanes came to last: its first warp, and how many.
    pub(crate) group: Cell<(u32, u32)>,
    /// Lanes in a sync or exchange of the warp.
    meeting: Cell<u32>,
    /// Those of them that are in an exchange.
    exchanging: Cell<u32>,
    /// What each lane that meets gives, and takes.
    offers: [Offer; 32],
}

struct Offer {
    mask: Cell<u32>,
    value: Cell<u64>,
    result: Cell<*mut [u64; 32]>,
}

impl Default for Offer {
    fn default() -> Self {
        Self {
            mask: Cell::new(0),
            value: Cell::new(0),
            result: Cell::new(ptr::null_mut()),
        }
    }
}

impl Warp {
    fn new(lanes: u32) -> Self {
        let exists = u32::MAX >> (32 - lanes.min(32));
        Self {
            exists,
            alive: Cell::new(exists),
            ready: Cell::new(exists),
            queued: Cell::new(true),
            group: Cell::new((0, 0)),
            meeting: Cell::new(0),
            exchanging: Cell::new(0),
            offers: Default::default(),
        }
    }

    /// A lane comes to a sync of the lanes in `mask`; with `exchange` it gives a value and wants those of the others.
    pub(crate) fn come(&self, bit: u32, mask: u32, exchange: Option<(u64, *mut [u64; 32])>) {
        let offer = &self.offers[bit as usize];
        offer.mask.set(mask);
        self.meeting.set(self.meeting.get() | 1 << bit);
        if let Some((value, result)) = exchange {
            offer.value.set(value);
            offer.result.set(result);
            self.exchanging.set(self.exchanging.get() | 1 << bit);
        }
    }

    /// The lanes that meet under the same mask, for the same kind of call, as this one.
    pub(crate) fn company(&self, bit: u32) -> u32 {
        let (mask, exchanging) = (self.offers[bit as usize].mask.get(), self.exchanging.get());
        let same_kind = if exchanging & 1 << bit != 0 {
            exchanging
        } else {
            !exchanging
        };
        bits(self.meeting.get() & same_kind)
            .filter(|&b| self.offers[b as usize].mask.get() == mask)
            .fold(0, |all, b| all | 1 << b)
    }

    /// Lets the lanes that meet under `mask` part, if all that are alive have come for the same kind of call. Returns them.
    fn part(&self, mask: u32) -> u32 {
        let members = mask & self.alive.get();
        if members == 0 || self.meeting.get() & members != members {
            return 0;
        }
        let first = members.trailing_zeros();
        if self.offers[first as usize].mask.get() != mask || self.company(first) & members != members {
            return 0;
        }
        let exchange = self.exchanging.get() & members;
        if exchange != 0 {
            let mut values = [0; 32];
            bits(members).for_each(|bit| values[bit as usize] = self.offers[bit as usize].value.get());
            for bit in bits(members) {
                // SAFETY: points into the frame of `exchange` of a lane that is in it: suspended there, or running it now.
                unsafe { *self.offers[bit as usize].result.get() = values };
            }
        }
        self.meeting.set(self.meeting.get() & !members);
        self.exchanging.set(self.exchanging.get() & !members);
        members
    }
}

/// The positions of the bits that are set, ascending.
pub(crate) fn bits(mut mask: u32) -> impl Iterator<Item = u32> + Clone {
    std::iter::from_fn(move || {
        let bit = (mask != 0).then(|| mask.trailing_zeros())?;
        mask &= mask - 1;
        Some(bit)
    })
}

impl Block {
    /// A block with all its lanes ready.
    pub(crate) fn new(
        world: &Rc<World>,
        queue: &Rc<Queue>,
        kernel: Kernel,
        home: Home,
        body: Arc<LaneBody>,
        (cluster, grid): (&Rc<Cluster>, &Rc<Grid>),
        begins: Option<&(LaunchId, Clock)>,
    ) -> Rc<Self> {
        let threads = kernel.threads();
        let index = unrank(home.rank, kernel.grid);
        let number = world.check.as_ref().zip(begins).map_or(0, |(check, (launch, _))| {
            check.begin(home.pe, *launch, kernel.name, index, kernel.block)
        });
        let knows = begins.map(|(_, clock)| clock);
        let arrived = || Arrived::new(threads.div_ceil(32));
        let warps = (0..threads.div_ceil(32)).map(|warp| Warp::new(threads - 32 * warp));
        let block = Rc::new(Self {
            lanes: (0..threads)
                .map(|rank| {
                    let knows = knows.cloned().unwrap_or_default();
                    Lane::new(rank, home.rank, (number, knows), &kernel, world.state(home.pe))
                })
                .collect(),
            warps: warps.collect(),
            world: Rc::clone(world),
            queue: Rc::clone(queue),
            kernel,
            home,
            body,
            shared: SharedMemory::default(),
            cluster: Rc::clone(cluster),
            grid: Rc::clone(grid),
            at_barrier: arrived(),
            at_warps: arrived(),
            at_cluster: arrived(),
            at_grid: arrived(),
            live: Cell::new(threads),
            number,
        });
        for lane in &block.lanes {
            lane.enter(&block);
        }
        if let Some(timeline) = &world.timeline {
            timeline.block(&block.lanes[0]);
        }
        cluster.add(&block);
        for warp in 0..block.warps.len() as u32 {
            queue.push(WarpId { slot: home.slot, warp });
        }
        block
    }

    /// These threads have met: what each has done comes before what any of them does now.
    pub(crate) fn check_sync(&self, threads: impl Iterator<Item = u32> + Clone) {
        check_sync(&self.world, threads.map(|thread| &self.lanes[thread as usize]));
    }

    pub(crate) fn live(&self) -> u32 {
        self.live.get()
    }

    /// Makes lanes of a warp ready.
    pub(crate) fn wake(&self, warp: u32, lanes: u32) {
        if lanes == 0 {
            return;
        }
        let state = &self.warps[warp as usize];
        state.ready.set(state.ready.get() | lanes);
        if !state.queued.replace(true) {
            self.queue.push(WarpId {
                slot: self.home.slot,
                warp,
            });
        }
    }

    /// Lets the lanes of a warp that meet under `mask` go on, if all of them have come. Returns them; `running`, which has
    /// just come, is not made ready.
    pub(crate) fn meet(&self, warp: u32, mask: u32, running: u32) -> u32 {
        let exchange = self.warps[warp as usize].exchanging.get() & mask != 0;
        let members = self.warps[warp as usize].part(mask);
        if !exchange && members != 0 {
            self.check_sync(bits(members).map(|bit| 32 * warp + bit));
        }
        self.wake(warp, members & !running);
        members
    }

    /// A lane has ended: whoever waited for it alone goes on. True where it was the block's last.
    pub(crate) fn lane_ended(&self, thread: u32) -> bool {
        let (warp, bit) = (thread / 32, 1 << (thread % 32));
        let state = &self.warps[warp as usize];
        state.alive.set(state.alive.get() & !bit);
        self.live.set(self.live.get() - 1);
        if self.live.get() == 0
            && let Some(check) = &self.world.check
        {
            check.end(self.number, self.lanes.iter().map(|lane| &lane.order));
        }
        let mut waiting = state.meeting.get();
        while waiting != 0 {
            let first = waiting.trailing_zeros();
            let company = state.company(first);
            self.meet(warp, state.offers[first as usize].mask.get(), 0);
            waiting &= !company;
        }
        self.recheck_barriers(thread);
        self.live.get() == 0
    }
}

impl Block {
    /// Its shared memory is gone.
    pub(crate) fn forget_shared(&self) {
        if let Some(check) = &self.world.check {
            self.shared.each(|start, bytes| check.forget(start, bytes));
        }
    }
}

/// The lanes at a barrier of several blocks have met.
pub(crate) fn check_sync_all(blocks: &[Rc<Block>], barrier: impl Fn(&Block) -> &Arrived + Clone) {
    let Some(block) = blocks.first() else { return };
    let lanes = blocks.iter().flat_map(|block| {
        let threads = barrier(block).threads();
        threads.map(|thread| &block.lanes[thread as usize])
    });
    check_sync(&block.world, lanes);
}

/// Lanes have met.
fn check_sync<'a>(world: &World, lanes: impl Iterator<Item = &'a Lane> + Clone) {
    let Some(check) = &world.check else { return };
    if let Some(first) = lanes.clone().next()
        && let Some(other) = lanes.clone().find(|lane| {
            let (here, there) = (first.at.get(), lane.at.get());
            here != there && (first.call.get() != SYNC || lane.call.get() != SYNC)
        })
        && let (Some(here), Some(there)) = (first.at.get(), other.at.get())
    {
        let id = |lane: &Lane| lane.order.borrow().me;
        check.divergent(
            (id(first), first.call.get(), here),
            (id(other), other.call.get(), there),
        );
    }
    Checker::sync(lanes.map(|lane| &lane.order));
}
