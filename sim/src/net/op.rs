//! An operation: who issued it, where, and what it does when it takes effect.

use crate::check;
use crate::lane::Lane;
use shmem::hook::{At, Atomic, Group, SignalUpdate, Space};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Who issues an operation, and from which source line.
#[derive(Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub(crate) lane: &'a Lane,
    /// The context.
    pub(crate) ctx: u32,
    pub(crate) at: At,
    /// What the checker knows of the operation, where it is one and is checked.
    pub(crate) checked: Option<&'a Rc<check::Op>>,
}

impl Origin<'_> {
    pub(crate) fn pe(&self) -> u32 {
        self.lane.block().home.pe
    }

    pub(crate) fn op(&self) -> Op {
        Op(Rc::new(Issued {
            pe: self.pe(),
            ctx: self.ctx,
            at: self.at,
            kernel: self.lane.block().kernel.name,
            block: self.lane.view.block,
            thread: self.lane.view.thread,
            checked: self.checked.cloned(),
        }))
    }
}

/// An operation that was issued. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Op(Rc<Issued>);

/// Who issued it, and where.
pub(crate) struct Issued {
    pub(crate) pe: u32,
    pub(crate) ctx: u32,
    pub(crate) at: At,
    pub(crate) kernel: &'static str,
    pub(crate) block: [u32; 3],
    pub(crate) thread: [u32; 3],
    pub(crate) checked: Option<Rc<check::Op>>,
}

impl std::ops::Deref for Op {
    type Target = Issued;

    fn deref(&self) -> &Issued {
        &self.0
    }
}

/// Bytes in a PE's heap; whoever makes one has checked that they lie inside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remote {
    pub(crate) pe: u32,
    pub(crate) offset: u64,
}

/// Memory on the side of whoever issues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Local {
    pub(crate) start: *mut u8,
    pub(crate) bytes: usize,
    pub(crate) space: Space,
    /// Which block's it is, where it is shared memory.
    pub(crate) block: usize,
}

/// What an operation does when it takes effect.
pub(crate) enum Effect {
    /// Bytes of a put, read from its source.
    Write(Box<[u8]>),
    /// A put whose source is read when it takes effect, or at a flush.
    Copy(Local),
    /// One element, of so many bytes.
    Store(u128, u32),
    Signal(SignalUpdate),
    /// On a word of so many bytes.
    Atomic(Atomic, u32),
    /// A get that returned before its data was there.
    Fetch(Local),
}

impl Effect {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Write(_) | Self::Copy(_) => "put",
            Self::Store(..) => "p",
            Self::Signal(_) => "signal",
            Self::Atomic(..) => "atomic",
            Self::Fetch(_) => "get",
        }
    }

    /// How many it moves.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Write(bytes) => bytes.len() as u64,
            Self::Copy(local) | Self::Fetch(local) => local.bytes as u64,
            Self::Store(_, bytes) | Self::Atomic(_, bytes) => u64::from(*bytes),
            Self::Signal(_) => 8,
        }
    }

    /// Whether it moves data, rather than tell about it.
    pub(crate) fn moves_data(&self) -> bool {
        matches!(self, Self::Write(_) | Self::Copy(_) | Self::Store(..) | Self::Fetch(_))
    }
}

/// The lanes that make one `put_signal` together: its signal takes effect behind what each of them puts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Team {
    Thread { block: usize, rank: u32 },
    Warp { block: usize, warp: u32, mask: u32 },
    Warps { block: usize, first: u32 },
    Block(usize),
    Cluster(usize),
    Grid(usize),
}

impl Team {
    pub(crate) fn of(lane: &Lane, group: Group) -> Self {
        let block = std::ptr::from_ref(lane.block()).addr();
        match group {
            Group::Thread => Self::Thread { block, rank: lane.rank },
            Group::Warp(mask) => Self::Warp {
                block,
                warp: lane.rank / 32,
                mask,
            },
            Group::Warps { first, .. } => Self::Warps { block, first },
            Group::Block => Self::Block(block),
            Group::Cluster => Self::Cluster(Rc::as_ptr(&lane.block().cluster).addr()),
            Group::Grid => Self::Grid(Rc::as_ptr(&lane.block().grid).addr()),
        }
    }
}

/// Behind which of its PE's operations those of a lane come, by context: behind all with a smaller number.
#[derive(Default)]
pub(crate) struct Fences {
    default: Cell<u64>,
    others: RefCell<Vec<(u32, u64)>>,
}

impl Fences {
    pub(crate) fn get(&self, ctx: u32) -> u64 {
        if ctx == 0 {
            return self.default.get();
        }
        let others = self.others.borrow();
        others
            .iter()
            .find(|(other, _)| *other == ctx)
            .map_or(0, |(_, number)| *number)
    }

    pub(crate) fn set(&self, ctx: u32, number: u64) {
        if ctx == 0 {
            self.default.set(number);
            return;
        }
        let mut others = self.others.borrow_mut();
        match others.iter_mut().find(|(other, _)| *other == ctx) {
            Some((_, old)) => *old = number,
            None => others.push((ctx, number)),
        }
    }
}
