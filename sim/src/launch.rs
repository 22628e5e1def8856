//! A launch under way: which of its blocks are resident, and which of its lanes runs next.

use crate::adapters::Adapters;
use crate::block::{Block, Home};
use crate::check::{Clock, LaunchId};
use crate::choices::Sequence;
use crate::cluster::Cluster;
use crate::desk;
use crate::kernel::{Kernel, LaneBody};
use crate::lane::Ran;
use crate::machine::CALLS;
use crate::meet::Grid;
use crate::net::Network;
use crate::overflow;
use crate::queue::Queue;
use crate::report::numbers;
use crate::rng::Rng;
use crate::world::World;
use rustix::time::{ClockId, clock_gettime};
use shmem::hook;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Lanes of one plain launch that are resident at once; a collective one has all of them.
pub(crate) const RESIDENT_LANES: u32 = 16 << 10;
/// Warps that run before the simulator looks at other launches and at the hosts.
const SLICE: u32 = 16;
/// Slices for which a PE of a collective launch is held back, at most.
const MOST_HELD: u32 = 48;
/// Label of the random sequence that says which.
const STAGGER: u64 = 0x5747;
/// Simulated time that passes while lanes wait for the clock alone.
const IDLE_NS: u64 = 1000;

/// One PE's share of a launch: a plain launch has one, a collective launch one for each PE.
pub(crate) struct Part {
    pub(crate) pe: u32,
    pub(crate) stream: u32,
    pub(crate) body: Arc<LaneBody>,
    grid: Rc<Grid>,
    /// The cluster that its last block belongs to.
    cluster: RefCell<Rc<Cluster>>,
    /// Slices for which it is held back, or fewer where nothing else can run.
    held: Cell<u32>,
    /// Blocks made so far.
    made: Cell<u32>,
    /// Blocks that have not ended.
    left: Cell<u32>,
    /// Operations that the world had issued when the last block ended.
    issued: Cell<u64>,
    /// The end has been told.
    told: Cell<bool>,
    /// Its name for the checker, and what it knows at its beginning.
    begins: Option<(LaunchId, Clock)>,
}

impl Part {
    pub(crate) fn left(&self) -> u32 {
        self.left.get()
    }

    /// True once, when the last block has ended and what its lanes have issued has taken effect.
    fn take_ended(&self, net: &Network) -> bool {
        self.left.get() == 0 && net.settled(self.pe, self.issued.get()) && !self.told.replace(true)
    }

    pub(crate) fn over(&self) -> bool {
        self.told.get()
    }
}

pub(crate) struct Launch {
    pub(crate) kernel: Kernel,
    pub(crate) parts: Vec<Part>,
    pub(crate) collective: bool,
    /// Moves forward while nothing of the launch can run for want of a host.
    pub(crate) started: Cell<Instant>,
    /// The processor time of this thread at its start.
    began: Duration,
    world: Rc<World>,
    queue: Rc<Queue>,
    resident: RefCell<Vec<Option<Rc<Block>>>>,
    free_slots: RefCell<Vec<u32>>,
    /// The version of memory at which paused lanes were last looked at.
    seen: Cell<u64>,
    /// A part has ended since the last look.
    part_ended: Cell<bool>,
}

/// How the ready lanes of a warp run.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Order {
    /// The lane to begin with.
    start: u32,
    backwards: bool,
    /// How many of them; the others are left for later.
    budget: u32,
    /// After so many calls that don't wait, a lane gives way.
    calls: u32,
}

impl Order {
    const PLAIN: Self = Self {
        start: 0,
        backwards: false,
        budget: 32,
        calls: CALLS,
    };

    /// One time in eight some lanes are left for later, and one time in four they give way soon.
    fn new(draw: u64, lanes: u32) -> Self {
        let several = lanes > 1;
        Self {
            start: if several { draw as u32 % 32 } else { 0 },
            backwards: several && draw & 0x0800 != 0,
            budget: if several && draw & 0x0700 == 0 {
                1 + (draw >> 12) as u32 % 16
            } else {
                32
            },
            calls: if draw & 0x3_0000 == 0 {
                1 + (draw >> 20) as u32 % (2 << (draw >> 32 & 3))
            } else {
                CALLS
            },
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.start > 0 || self.backwards {
            let down = if self.backwards { "downwards to" } else { "upwards from" };
            write!(f, ", its lanes {down} {}", self.start)?;
        }
        if self.budget < 32 {
            write!(f, ", {} lanes only", self.budget)?;
        }
        if self.calls < CALLS {
            write!(f, ", each for {} calls", self.calls)?;
        }
        Ok(())
    }
}

/// What a round over the paused lanes has shown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Poll {
    /// Some lane went on, or changed memory.
    pub(crate) progress: bool,
    /// Some lane may go on with time alone.
    pub(crate) reads_clock: bool,
    /// Lanes whose closure decided once more to wait.
    pub(crate) closures: u32,
}

impl Launch {
    /// A plain launch of one job, or a collective one of a job for each PE. `labels` name it in the sequence of launches.
    pub(crate) fn new(world: &Rc<World>, jobs: Vec<desk::Order>, labels: &[u64]) -> Self {
        let (kernel, collective) = (jobs[0].job.kernel(), jobs[0].job.collective);
        let parts = jobs.into_iter().map(|desk::Order { pe, stream, job, .. }| Part {
            pe,
            stream,
            body: job.lane,
            grid: Grid::new(kernel.blocks()),
            cluster: RefCell::new(Cluster::new(kernel.cluster)),
            held: Cell::new(0),
            made: Cell::new(0),
            left: Cell::new(kernel.blocks()),
            issued: Cell::new(0),
            told: Cell::new(false),
            begins: world.check.as_ref().map(|check| check.launch_begins(pe, stream)),
        });
        let launch = Self {
            kernel,
            parts: parts.collect(),
            collective,
            started: Cell::new(Instant::now()),
            began: processor_time(),
            world: Rc::clone(world),
            queue: Rc::new(Queue::new(Rng::new(world.seed, labels), &world.choices)),
            resident: RefCell::default(),
            free_slots: RefCell::default(),
            seen: Cell::new(world.memory.version()),
            part_ended: Cell::new(false),
        };
        if let Some(timeline) = &world.timeline {
            let parts = launch.parts.iter();
            parts.for_each(|part| timeline.kernel(part.pe, part.stream, &kernel));
        }
        launch.stagger(labels);
        launch.admit();
        launch
    }

    /// Holds some PEs of a collective launch back, one time in two: PEs don't begin together.
    fn stagger(&self, labels: &[u64]) {
        let several = self.collective && self.parts.len() > 1;
        let rng = Rng::new(self.world.seed, &[labels, &[STAGGER]].concat());
        let Some(draw) = several
            .then(|| rng.choose(&self.world.choices, Sequence::Warps))
            .flatten()
            .filter(|draw| draw.is_multiple_of(2))
        else {
            return;
        };
        // One of them begins at once.
        let first = (draw >> 1) as usize % self.parts.len();
        for (index, part) in self.parts.iter().enumerate() {
            let draw = rng.next();
            if index != first && draw.is_multiple_of(2) {
                part.held.set(1 + (draw >> 1) as u32 % MOST_HELD);
            }
        }
        self.world.choices.note(|| {
            let held = self.parts.iter().filter(|part| part.held.get() > 0).map(|part| part.pe);
            format!("kernel {} begins later on {}", self.kernel.name, numbers("PE", held))
        });
    }

    /// Lets PEs begin whose time has come; all of them where nothing else can run. False where none does.
    fn let_begin(&self, all: bool) -> bool {
        let mut begins = false;
        for part in self.parts.iter().filter(|part| part.held.get() > 0) {
            part.held.set(if all { 0 } else { part.held.get() - 1 });
            begins |= part.held.get() == 0;
        }
        if begins {
            self.admit();
        }
        begins
    }

    fn all_blocks(&self) -> u64 {
        u64::from(self.kernel.blocks()) * self.parts.len() as u64
    }

    /// Makes blocks until as many are resident as may be.
    fn admit(&self) {
        let most = if self.collective {
            usize::MAX
        } else {
            (RESIDENT_LANES / self.kernel.threads()).max(1) as usize
        };
        let waits = |part: &Part| part.held.get() == 0 && part.made.get() < self.kernel.blocks();
        while let Some(index) = self.parts.iter().position(waits) {
            let mut resident = self.resident.borrow_mut();
            let mut free = self.free_slots.borrow_mut();
            if resident.len() - free.len() >= most {
                break;
            }
            let slot = free.pop().unwrap_or_else(|| {
                resident.push(None);
                resident.len() as u32 - 1
            });
            let part = &self.parts[index];
            let home = Home {
                part: index,
                pe: part.pe,
                stream: part.stream,
                slot,
                rank: part.made.replace(part.made.get() + 1),
            };
            let Part {
                body,
                grid,
                cluster,
                begins,
                ..
            } = part;
            // Blocks begin in the order of their ranks, and so do those of a cluster.
            let mut cluster = cluster.borrow_mut();
            if cluster.complete() {
                *cluster = Cluster::new(self.kernel.cluster);
            }
            let body = Arc::clone(body);
            let block = Block::new(
                &self.world,
                &self.queue,
                self.kernel,
                home,
                body,
                (&cluster, grid),
                begins.as_ref(),
            );
            // Only the blocks of a collective launch are all resident, and may wait for each other.
            if self.collective {
                grid.add(&block);
            }
            resident[slot as usize] = Some(block);
        }
    }

    /// Resident blocks in the order of their slots.
    pub(crate) fn blocks(&self) -> Vec<Rc<Block>> {
        self.resident.borrow().iter().flatten().cloned().collect()
    }

    /// Blocks that wait for others to end before they begin.
    pub(crate) fn not_begun(&self) -> u64 {
        self.all_blocks() - self.parts.iter().map(|part| u64::from(part.made.get())).sum::<u64>()
    }

    fn block(&self, slot: u32) -> Rc<Block> {
        Rc::clone(
            self.resident.borrow()[slot as usize]
                .as_ref()
                .expect("a queued lane's block is resident"),
        )
    }

    /// Hands out the parts that have ended since this was last asked.
    pub(crate) fn take_ended(&self, mut ended: impl FnMut(&Part)) {
        if self.part_ended.get() {
            let parts = self.parts.iter().filter(|part| part.take_ended(&self.world.net));
            parts.for_each(|part| {
                if let Some(timeline) = &self.world.timeline {
                    timeline.kernel_ended(part.pe, part.stream);
                }
                if let (Some(check), Some((launch, _))) = (&self.world.check, &part.begins) {
                    check.launch_ended(*launch);
                }
                ended(part);
            });
            let waits = |part: &Part| part.left() == 0 && !part.over();
            self.part_ended.set(self.parts.iter().any(waits));
        }
    }

    /// The processor time that it and what ran beside it has taken: on a busy machine, less than has passed.
    pub(crate) fn ran(&self) -> Duration {
        processor_time().saturating_sub(self.began)
    }

    /// Its lanes, of all blocks.
    pub(crate) fn lanes(&self) -> u64 {
        self.all_blocks() * u64::from(self.kernel.threads())
    }

    /// Runs lanes for a while. False where none can run.
    pub(crate) fn run_slice(&self) -> bool {
        let mut ran = self.let_begin(false);
        self.wake_paused();
        for _ in 0..SLICE {
            if !self.run_warp() {
                if self.wake_paused() {
                    continue;
                }
                break;
            }
            ran = true;
            if self.world.failure().is_some() {
                break;
            }
        }
        leave_lanes();
        ran || self.let_begin(true)
    }

    /// Looks at the paused lanes, if memory has changed since the last time. False where it has not.
    fn wake_paused(&self) -> bool {
        let version = self.world.memory.version();
        let changed = self.seen.replace(version) != version;
        if changed {
            self.queue
                .wake_changed(|lane| self.block(lane.slot).wake(lane.thread / 32, 1 << (lane.thread % 32)));
        }
        changed
    }

    /// Runs ready lanes of one warp, each until it waits: mostly all of them, in an order that the seed decides.
    fn run_warp(&self) -> bool {
        self.world.net.deliver();
        self.world.adapters_do(Adapters::pass);
        let Some((id, draw, passed)) = self.queue.pick() else {
            return false;
        };
        let block = self.block(id.slot);
        let warp = &block.warps[id.warp as usize];
        let order = draw.map_or(Order::PLAIN, |draw| Order::new(draw, warp.ready.get().count_ones()));
        if passed > 0 || order != Order::PLAIN {
            self.queue.note(|| {
                let (pe, rank) = (block.home.pe, block.home.rank);
                format!(
                    "warp {} of block {rank} on PE {pe} runs before {passed} others{order}",
                    id.warp
                )
            });
        }
        let Order {
            start,
            backwards,
            mut budget,
            calls,
        } = order;
        let mut lanes = warp.ready.take().rotate_right(start);
        while lanes != 0 && budget > 0 {
            let bit = if backwards {
                lanes.ilog2()
            } else {
                lanes.trailing_zeros()
            };
            lanes &= !(1 << bit);
            budget -= 1;
            self.world.count_switch();
            let thread = 32 * id.warp + (bit + start) % 32;
            block.lanes[thread as usize].calls.set(CALLS - calls);
            self.run_lane(&block, thread);
            if self.world.failure().is_some() {
                return true;
            }
        }
        let left = lanes.rotate_left(start) | warp.ready.get();
        warp.ready.set(left);
        if left == 0 {
            warp.queued.set(false);
        } else {
            self.queue.push(id);
        }
        true
    }

    fn run_lane(&self, block: &Block, thread: u32) {
        if block.lanes[thread as usize].run() == Ran::Ended && block.lane_ended(thread) {
            self.retire(block);
        }
    }

    fn retire(&self, block: &Block) {
        // The thread's current lane goes with the block.
        leave_lanes();
        if let Some(timeline) = &self.world.timeline {
            timeline.block_ended(&block.lanes[0]);
        }
        let net = &self.world.net;
        net.block_ends(block.home.pe, std::ptr::from_ref(block).addr());
        // Only now: what was read last may be what the checker looks for.
        block.forget_shared();
        self.resident.borrow_mut()[block.home.slot as usize] = None;
        self.free_slots.borrow_mut().push(block.home.slot);
        let part = &self.parts[block.home.part];
        part.left.set(part.left.get() - 1);
        if part.left.get() == 0 {
            part.issued.set(net.issued());
            self.part_ended.set(true);
        }
        self.admit();
    }

    /// Lets every paused lane look once more, whether memory has changed or not: a closure may look at other things, and
    /// may have lost its way between its look and its pause. Uses no random numbers, so that it leaves no trace.
    pub(crate) fn poll(&self) -> Poll {
        let mut poll = Poll::default();
        let version = self.world.memory.version();
        let paused = self.queue.take_paused();
        if paused.iter().any(|lane| lane.reads_clock) {
            self.world.pass_ns(IDLE_NS);
            poll.reads_clock = true;
        }
        for lane in paused {
            self.run_lane(&self.block(lane.slot), lane.thread);
            poll.closures += u32::from(lane.on_closure());
            poll.progress |= !self.queue.paused_last(lane.slot, lane.thread);
            if self.world.failure().is_some() {
                break;
            }
        }
        poll.progress |= self.world.memory.version() != version;
        leave_lanes();
        poll
    }

    /// Ends every lane, wherever it is.
    pub(crate) fn end(&self) {
        for block in self.blocks() {
            for lane in &block.lanes {
                lane.end();
            }
        }
        leave_lanes();
    }
}

/// Says that this thread is in no lane.
fn leave_lanes() {
    overflow::idle();
    // SAFETY: nothing is borrowed for it.
    unsafe { hook::set_current(None) };
}

fn processor_time() -> Duration {
    // The clock of a thread is never negative.
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}
