//! One lane: a coroutine that runs the kernel for one thread of one block.

use crate::async_copy::AsyncCopies;
use crate::block::Block;
use crate::check::{Clock, LaneId, Order};
use crate::failure::Failure;
use crate::kernel::{Kernel, unrank};
use crate::net::Fences;
use crate::overflow;
use crate::panics::{self, Note};
use crate::stack::LaneStack;
use crate::world::World;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use shmem::fault::FaultKind;
use shmem::hook::{self, At, Watch};
use shmem::state::{DeviceState, FaultRecord};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::rc::Rc;

const OVERFLOW: &str = "the lane's stack overflowed: keep large arrays out of kernels, or set SHMEM_SIM_STACK (bytes per \
                        lane, 256K by default)";

/// A sync that is a call of its own: lanes may meet in different ones.
pub(crate) const SYNC: &str = "sync";

/// What a lane that does not run waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    /// It has not begun.
    Start,
    Barrier,
    /// The barrier of some warps of its block.
    Warps {
        first: u32,
        count: u32,
    },
    /// The cluster's barrier.
    Cluster,
    /// The grid's barrier.
    Grid,
    /// A sync of these lanes of its warp.
    Sync(u32),
    /// An exchange among these lanes of its warp.
    Exchange(u32),
    /// A change of memory.
    Memory(Watch),
}

/// What a lane is told when it runs again.
#[derive(Clone, Copy, Debug)]
enum Resume {
    /// Go on.
    Go,
    /// The world ends: drop what you have and end.
    End,
}

/// How a lane's coroutine came to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Exit {
    Ended,
    /// It ran out of stack and was taken off it.
    Overflowed,
}

/// What a stretch of a lane's run left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ran {
    Suspended,
    Ended,
}

struct Fiber {
    coroutine: Coroutine<Resume, (), Exit, LaneStack>,
    stack: LaneStack,
}

/// Unwinds a lane without being a panic.
struct EndLane;

pub(crate) struct Lane {
    pub(crate) view: hook::Lane,
    /// Rank in its block.
    pub(crate) rank: u32,
    pub(crate) wait: Cell<Wait>,
    /// The call that it waits in.
    pub(crate) at: Cell<Option<At>>,
    /// Calls that don't wait, since it last gave way.
    pub(crate) calls: Cell<u32>,
    /// It has looked at the clock since it last paused.
    pub(crate) read_clock: Cell<bool>,
    pub(crate) copies: AsyncCopies,
    pub(crate) fences: Fences,
    /// What it knows of the order of events, where that is checked.
    pub(crate) order: RefCell<Order>,
    /// The words that it waits for, from and to, and where.
    pub(crate) watched: Cell<Option<(u64, u64, At)>>,
    /// The kind of call that it waits in, where it is one of a tile.
    pub(crate) call: Cell<&'static str>,
    /// The track of a call that goes the network path, where a timeline shows it.
    pub(crate) reaching: Cell<Option<usize>>,
    block: Cell<*const Block>,
    yielder: Cell<*const Yielder<Resume, ()>>,
    fiber: RefCell<Option<Fiber>>,
    /// It has begun to end, because of a fault of its own or of its world.
    leaving: Cell<bool>,
    /// It can neither go on nor unwind: a call that never returns was made while it unwound.
    abandoned: Cell<bool>,
}

impl Lane {
    /// `number` is its block's, among all that have begun; the lane knows what is said beside it.
    pub(crate) fn new(
        rank: u32,
        block: u32,
        (number, knows): (u32, Clock),
        kernel: &Kernel,
        state: &DeviceState,
    ) -> Self {
        Self {
            view: hook::Lane {
                state,
                block: unrank(block, kernel.grid),
                thread: unrank(rank, kernel.block),
                grid_dim: kernel.grid,
                block_dim: kernel.block,
                cluster: kernel.cluster,
            },
            rank,
            wait: Cell::new(Wait::Start),
            at: Cell::new(None),
            calls: Cell::new(0),
            read_clock: Cell::new(false),
            copies: AsyncCopies::default(),
            fences: Fences::default(),
            order: RefCell::new(Order::new(
                LaneId {
                    block: number,
                    thread: rank as u16,
                },
                knows,
            )),
            watched: Cell::new(None),
            call: Cell::new(SYNC),
            reaching: Cell::new(None),
            block: Cell::new(ptr::null()),
            yielder: Cell::new(ptr::null()),
            fiber: RefCell::new(None),
            leaving: Cell::new(false),
            abandoned: Cell::new(false),
        }
    }

    /// Tells the lane its block, which owns it and so outlives it.
    pub(crate) fn enter(&self, block: &Rc<Block>) {
        self.block.set(Rc::as_ptr(block));
    }

    pub(crate) fn block(&self) -> &Block {
        // SAFETY: set by `enter` when the block was made; the block owns the lane and never moves.
        unsafe { &*self.block.get() }
    }

    pub(crate) fn world(&self) -> &World {
        &self.block().world
    }

    /// Runs the lane until it waits or ends. Leaves it the thread's current lane.
    pub(crate) fn run(&self) -> Ran {
        let mut fiber = self.fiber.borrow_mut();
        if fiber.is_none() {
            match self.world().stacks.borrow_mut().take() {
                Ok(stack) => *fiber = Some(self.spawn(stack)),
                Err(error) => {
                    let report = format!(
                        "kernel {} on PE {}: {error}; launch fewer blocks, or make SHMEM_SIM_STACK smaller",
                        self.block().kernel.name,
                        self.block().home.pe
                    );
                    self.world().fail(Failure::Launch { report });
                    return Ran::Suspended;
                }
            }
        }
        self.resume(&mut fiber, Resume::Go)
    }

    /// Ends a lane that waits: what it owns is dropped where the process unwinds, and is leaked where it can't.
    pub(crate) fn end(&self) {
        let mut fiber = self.fiber.borrow_mut();
        let unwinds = cfg!(panic = "unwind") && !self.world().damaged();
        // A kernel that catches unwinding is told again, but not for ever.
        for _ in 0..16 {
            if fiber.is_none() || !unwinds || self.abandoned.get() {
                break;
            }
            self.resume(&mut fiber, Resume::End);
        }
        if let Some(mut stuck) = fiber.take() {
            // SAFETY: nothing on its stack is used again; what it holds there is leaked.
            unsafe { stuck.coroutine.force_reset() };
            self.world().stacks.borrow_mut().give_back(stuck.stack);
        }
    }

    fn spawn(&self, stack: LaneStack) -> Fiber {
        let me: *const Self = self;
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<Resume, ()>, _| {
            // SAFETY: the lane is pinned in its block, which lives until all its lanes have ended.
            let lane = unsafe { &*me };
            lane.yielder.set(yielder);
            let body = &lane.block().body;
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| body()))
                && !payload.is::<EndLane>()
            {
                lane.fail_with(&panics::take_note(Some(&*payload)));
                // The payload is the kernel's own, and may panic as well.
                if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                    std::mem::forget(another);
                }
            }
            Exit::Ended
        });
        Fiber { coroutine, stack }
    }

    fn resume(&self, slot: &mut Option<Fiber>, how: Resume) -> Ran {
        let Some(fiber) = slot else { return Ran::Ended };
        let stack = fiber.stack;
        // SAFETY: lane and machine are this lane, alive while it runs; whoever runs lanes clears it when it stops.
        unsafe {
            hook::set_current(Some(hook::Current {
                lane: &self.view,
                machine: self,
                low: stack.low(),
            }));
        };
        panics::running(self.block().kernel.name, self.block().home.pe);
        overflow::running(stack, fiber.coroutine.trap_handler());
        let result = fiber.coroutine.resume(how);
        let intact = stack.intact();
        if !intact {
            self.world().stacks_damaged();
        }
        if !intact || matches!(result, CoroutineResult::Return(Exit::Overflowed)) {
            self.fail_with(&Note {
                message: OVERFLOW.to_owned(),
                place: None,
            });
        }
        match result {
            CoroutineResult::Yield(()) => Ran::Suspended,
            CoroutineResult::Return(_) => {
                *slot = None;
                self.world().stacks.borrow_mut().give_back(stack);
                Ran::Ended
            }
        }
    }

    /// Gives way to the scheduler. Called on the lane's own stack.
    pub(crate) fn suspend(&self) {
        self.calls.set(0);
        // SAFETY: set at the lane's start, and valid as long as its coroutine, which is running this.
        match unsafe { &*self.yielder.get() }.suspend(()) {
            Resume::Go => {}
            Resume::End => self.leave(),
        }
    }

    /// Whether the lane unwinds now: destructors run, and what they call must not switch. Once the world ends, an
    /// abandoned lane may have left the thread's own mark of unwinding behind.
    fn unwinds(&self) -> bool {
        std::thread::panicking() && (self.leaving.get() || !self.world().ending())
    }

    /// Whether a call has to return without waiting. A lane that has stopped its own end by catching it is sent off again.
    pub(crate) fn must_not_wait(&self) -> bool {
        let unwinds = self.unwinds();
        if !unwinds && self.world().ending() {
            self.leave();
        }
        unwinds
    }

    /// Ends the lane from within.
    pub(crate) fn leave(&self) -> ! {
        if cfg!(panic = "unwind") && !self.unwinds() {
            self.leaving.set(true);
            resume_unwind(Box::new(EndLane));
        }
        // A destructor can't unwind once more, and without unwinding nothing can: the lane stops here for good.
        self.abandoned.set(true);
        if self.world().failure().is_none() {
            self.fail_with(&panics::take_note(None));
        }
        loop {
            // SAFETY: as in `suspend`.
            unsafe { &*self.yielder.get() }.suspend(());
        }
    }

    /// A call has found too little of the stack left. Ends the lane from within, where it holds no lock and can unwind.
    #[cold]
    pub(crate) fn overflows(&self, at: At) -> ! {
        // What a destructor runs out of stack with is told already, or is a panic that is to be told.
        if !self.unwinds() {
            self.fail_at(at, OVERFLOW.to_owned());
        }
        self.leave()
    }

    /// A fault of this lane, told by text.
    pub(crate) fn fail_at(&self, at: At, message: String) {
        let mut record = self.record();
        record.locate(at);
        self.fail(record, Some(message));
    }

    /// A panic of this lane.
    fn fail_with(&self, note: &Note) {
        let mut record = self.record();
        if let Some(place) = note.place {
            record.locate(&place);
        }
        self.fail(record, Some(note.message.clone()));
    }

    pub(crate) fn fail(&self, record: FaultRecord, message: Option<String>) {
        let Block {
            kernel, home, world, ..
        } = self.block();
        world.fail(Failure::Fault {
            kernel: kernel.name,
            pe: home.pe,
            record: Box::new(record),
            message,
        });
    }

    pub(crate) fn record(&self) -> FaultRecord {
        FaultRecord {
            ready: 1,
            kind: FaultKind::Panic as u32,
            block: self.view.block,
            thread: self.view.thread,
            ..FaultRecord::EMPTY
        }
    }
}
