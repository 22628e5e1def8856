//! Where the simulator plugs in. On a GPU this module does not exist.
//!
//! Each call of a kernel that touches other lanes, memory or time reaches the current lane's [`Machine`] through
//! `current`. The machine sees operations as the contract names them (put, fence, wait), not their lowering, so it may
//! do anything that ORDERING allows.

use crate::state::{DeviceState, FaultRecord};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use core::arch::asm;
use core::cell::Cell;
use core::panic::Location;

/// A PE, and the context of an operation.
pub use crate::team::Peer;
/// The lanes that take part in a call together, as seen by one of them.
pub use crate::tile::Group;

/// The source line of a call.
pub type At = &'static Location<'static>;

/// Who is asking: one thread of one block of one PE.
#[derive(Clone, Copy, Debug)]
pub struct Lane {
    /// State of the lane's PE.
    pub state: *const DeviceState,
    /// Block in the grid.
    pub block: [u32; 3],
    /// Thread in the block.
    pub thread: [u32; 3],
    /// Blocks in the grid.
    pub grid_dim: [u32; 3],
    /// Threads in a block.
    pub block_dim: [u32; 3],
    /// Blocks in a cluster, which are neighbours along x.
    pub cluster: u32,
}

/// What kind of memory an address lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// The symmetric heap, own part or a peer's.
    Symmetric,
    /// Ordinary device memory.
    Global,
    /// Shared memory of the block.
    Shared,
    /// The lane's own variables.
    Local,
}

/// How a single access orders and who may take part in a race with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    /// An ordinary load or store: races give unspecified values.
    Weak,
    /// Strong at system scope, orders nothing.
    Relaxed,
    /// Strong, and later accesses stay behind it.
    Acquire,
    /// Strong, and earlier accesses stay ahead of it.
    Release,
    /// Both.
    AcqRel,
}

/// One access of 1, 2, 4, 8 or 16 bytes, naturally aligned.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// Address in this process.
    pub address: u64,
    /// Its size in bytes.
    pub bytes: u32,
    /// What it reaches.
    pub space: Space,
    /// How it orders.
    pub strength: Strength,
}

/// What a read-modify-write does to the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// Wrapping sum.
    Add,
    /// The operand.
    Swap,
    /// The operand where the word equals the comparand.
    CompareSwap,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// The word as it is.
    Fetch,
    /// The operand; nobody asks for the old value.
    Set,
    /// Sum as f32.
    AddF32,
    /// Sum as f64.
    AddF64,
    /// Two sums as f16: the word need not change as a whole.
    AddF16x2,
    /// Two sums as bf16: the word need not change as a whole.
    AddBf16x2,
}

/// Which threads see an access as atomic, and its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Those of the block.
    Cta,
    /// Those of the device.
    Gpu,
    /// All.
    System,
}

/// An atomic access to a word of 4 or 8 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Atomic {
    /// What it does.
    pub op: AtomicOp,
    /// What it does it with.
    pub operand: u64,
    /// What a compare-and-swap compares with.
    pub comparand: u64,
    /// For whom it is atomic.
    pub scope: Scope,
    /// Whether the old value is asked for; an operation on a PE is put-like where it is not.
    pub fetches: bool,
}

/// What a signal does to its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalOp {
    /// Sets a [`SignalWord`](crate::SignalWord).
    Set,
    /// Adds to a [`CounterWord`](crate::CounterWord).
    Add,
}

/// An update of a signal or counter on some PE.
#[derive(Clone, Copy, Debug)]
pub struct SignalUpdate {
    /// Offset of the word in the heap.
    pub offset: u64,
    /// Set or add.
    pub op: SignalOp,
    /// The operand.
    pub value: u64,
}

/// One member's share of a put or a get. Every member of the tile makes the same call.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// The tile.
    pub group: Group,
    /// Rank of this member.
    pub rank: u32,
    /// Members of the tile.
    pub size: u32,
    /// Offset in the target PE's heap: destination of a put, source of a get.
    pub remote: u64,
    /// Address on this side: source of a put, destination of a get.
    pub local: u64,
    /// What `local` lies in.
    pub local_space: Space,
    /// The whole transfer.
    pub bytes: u64,
    /// Bytes of one element; larger runs may arrive in any order.
    pub element: u32,
    /// The other PE.
    pub peer: Peer,
    /// Returns only when the source may be written again (put) or the data is in place (get).
    pub blocking: bool,
    /// For put_signal: applied once the data is there.
    pub signal: Option<SignalUpdate>,
}

/// A call that goes the network path.
#[derive(Clone, Copy, Debug)]
pub struct Reach {
    /// `put`, ..
    pub name: &'static str,
    /// Whether this lane leads the call's tile.
    pub leads: bool,
    /// The other PE.
    pub pe: u32,
    /// Bytes that are moved.
    pub bytes: u64,
}

/// A collective, as one member of the team calls it.
#[derive(Clone, Copy, Debug)]
pub struct CollectiveCall {
    /// `reduce`, ..
    pub name: &'static str,
    /// Offset of the team's block in the heap.
    pub team: u64,
    /// The team's serial.
    pub serial: crate::Serial,
    /// The slot.
    pub slot: u32,
    /// This member's index.
    pub me: u32,
    /// How many members there are.
    pub n: u32,
    /// The PE of index 0.
    pub first: u32,
    /// Elements of a part.
    pub len: u64,
    /// Bytes of one.
    pub element: u32,
    /// The root's index; 0 where there is none.
    pub root: u32,
    /// The operation's type; empty where there is none.
    pub op: &'static str,
    /// What it was asked to be done by.
    pub algorithm: Option<crate::collective::Algorithm>,
}

impl CollectiveCall {
    /// What all members have in common.
    #[must_use]
    pub fn what(
        &self,
    ) -> (
        &'static str,
        u64,
        u32,
        u32,
        &'static str,
        Option<crate::collective::Algorithm>,
    ) {
        (self.name, self.len, self.element, self.root, self.op, self.algorithm)
    }
}

impl core::fmt::Display for CollectiveCall {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let op = self.op.rsplit("::").next().unwrap_or_default();
        write!(f, "{}({} x {} bytes", self.name, self.len, self.element)?;
        if !op.is_empty() {
            write!(f, ", {op}")?;
        }
        write!(f, ", root {}", self.root)?;
        match self.algorithm {
            Some(algorithm) => write!(f, ", by {algorithm:?})"),
            None => f.write_str(")"),
        }
    }
}

/// What a paused lane is waiting for, for reports.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// The word, or 0 where a closure decides.
    pub address: u64,
    /// Its size in bytes.
    pub bytes: u32,
    /// `==`, `>=`, ..; empty where a closure decides.
    pub comparison: &'static str,
    /// What it is compared with.
    pub value: u64,
    /// How many words there are, any of which will do: some of them may be left out.
    pub count: u64,
    /// From one to the next, in bytes.
    pub stride: u32,
    /// Each has a value of its own, and `value` is the first's.
    pub each: bool,
}

impl Watch {
    /// A wait of which only a closure knows what it is for.
    pub const CLOSURE: Self = Self {
        address: 0,
        bytes: 0,
        comparison: "",
        value: 0,
        count: 1,
        stride: 0,
        each: false,
    };
}

/// Runs lanes where there is no GPU. Every method is called from inside a lane, which [`Lane`] describes.
pub trait Machine {
    /// Waits until every member has called it. Orders memory among them, as barrier.sync does.
    fn sync(&self, group: Group, at: At);
    /// Every member gives a value and gets those of all 32 lanes of its warp; lanes outside the mask read as 0.
    fn exchange(&self, mask: u32, value: u64, at: At) -> [u64; 32];
    /// Loads; the value is in the low bytes.
    fn load(&self, access: Access, at: At) -> u128;
    /// Stores the low bytes.
    fn store(&self, access: Access, value: u128, at: At);
    /// Atomic access to memory that the lane reaches; returns the old value.
    fn atomic(&self, access: Access, atomic: &Atomic, at: At) -> u64;
    /// Atomic access to a word in a PE's heap, as an operation of its own; returns the old value.
    fn atomic_at(&self, offset: u64, bytes: u32, to: Peer, strength: Strength, atomic: &Atomic, at: At) -> u64;
    /// Orders this lane's loads and stores, for the threads in the scope.
    fn fence_memory(&self, scope: Scope, at: At);
    /// The leader of a tile begins a collective: every member of the team makes the same one.
    fn begin_collective(&self, _call: &CollectiveCall, _at: At) {}
    /// put, put_nbi and put_signal.
    fn put(&self, transfer: &Transfer, at: At);
    /// get and get_nbi.
    fn get(&self, transfer: &Transfer, at: At);
    /// p: one element by value.
    fn p(&self, offset: u64, value: u128, bytes: u32, to: Peer, at: At);
    /// One packet of 8 or 16 bytes: as p, and whoever sends into the same bytes again has heard that it arrived.
    fn packet(&self, offset: u64, value: u128, bytes: u32, to: Peer, at: At);
    /// g: one element.
    fn g(&self, offset: u64, bytes: u32, from: Peer, at: At) -> u128;
    /// signal_op. `relaxed` leaves out the release.
    fn signal(&self, update: SignalUpdate, to: Peer, relaxed: bool, at: At);
    /// fence of a context for all members.
    fn fence(&self, group: Group, ctx: u32, at: At);
    /// quiet of a context for all members.
    fn quiet(&self, group: Group, ctx: u32, at: At);
    /// flush of a context for all members.
    fn flush(&self, group: Group, ctx: u32, at: At);
    /// Loads of the watched words are those of a wait at this place, until it is over: None.
    fn watching(&self, wait: Option<(&Watch, At)>);
    /// Whether a wait at this line is left out, to see what its program becomes without it.
    fn leaves_out_wait(&self, _at: At) -> bool {
        false
    }
    /// Gives way to other lanes until memory may have changed. Does not return once a PE has failed.
    fn pause(&self, watch: &Watch, at: At);
    /// The block's array of this identity, aligned to 16; what it holds at the block's start is unspecified.
    fn shared(&self, id: u64, bytes: usize, at: At) -> *mut u8;
    /// The same array of the first block of the cluster, which has asked for it and has not ended.
    fn first_shared(&self, id: u64, bytes: usize, at: At) -> *mut u8;
    /// The block's dynamic shared memory and its size in bytes.
    fn dynamic_shared(&self) -> (*mut u8, usize);
    /// cp.async: begins to copy one element; it is in place after `wait_async`, once its group is committed.
    fn copy_async(&self, from: Access, to: Access, at: At);
    /// Makes a group of what the lane has begun to copy.
    fn commit_async(&self);
    /// All but the newest `pending` groups are in place.
    fn wait_async(&self, pending: u32, at: At);
    /// A call begins that goes the network path, on this lane; None: it returns. For timelines: what it does, the machine sees
    /// as loads, stores and doorbells.
    fn reach(&self, _call: Option<&Reach>, _at: At) {}
    /// Stores to a register of a network adapter.
    fn ring(&self, _register: u64, _value: u64, _at: At) {}
    /// Nanoseconds of simulated time.
    fn now_ns(&self) -> u64;
    /// Keeps the record if it is the PE's first, tells every PE, and ends the lane.
    fn fault(&self, record: &FaultRecord) -> !;
    /// Ends the lane: a call has found its stack below [`Current::low`].
    fn out_of_stack(&self, at: At) -> ! {
        panic!("{at}: the lane's stack overflowed")
    }
}

/// A lane and what runs it: set by the machine each time it switches lanes.
#[derive(Clone, Copy)]
pub struct Current<'a> {
    /// The lane.
    pub lane: &'a Lane,
    /// What runs it.
    pub machine: &'a dyn Machine,
    /// From here down its stack has no room for what a call does: no call begins there, because a lane that overflows inside
    /// one can't be ended: it may hold the allocator's lock. 0 where the stack is not looked at.
    pub low: usize,
}

thread_local! {
    static CURRENT: Cell<Option<Current<'static>>> = const { Cell::new(None) };
}

/// Makes a lane the current one of this OS thread, or none.
///
/// # Safety
/// Both references must stay valid until the next call on this thread.
pub unsafe fn set_current(current: Option<Current<'_>>) {
    // SAFETY: the caller keeps both alive until they are replaced, and `current` hands them out for the length of a call only.
    let current = current.map(|c| unsafe { core::mem::transmute::<Current<'_>, Current<'static>>(c) });
    CURRENT.set(current);
}

/// The current lane, which has stack enough for a call.
///
/// # Panics
/// Outside a kernel.
#[track_caller]
pub(crate) fn current() -> Current<'static> {
    let current = running();
    current.need_stack();
    current
}

/// The current lane, for what ends it.
///
/// # Panics
/// Outside a kernel.
#[track_caller]
pub(crate) fn running() -> Current<'static> {
    match CURRENT.get() {
        Some(c) => c,
        None => panic!("this call is for kernels: launch one with collective_launch!, or use shmem_sim::run in a test"),
    }
}

impl Current<'_> {
    /// Ends the lane where its stack has no room for a call.
    #[inline(always)]
    #[track_caller]
    fn need_stack(&self) {
        if stack_pointer() < self.low {
            self.machine.out_of_stack(Location::caller());
        }
    }
}

/// Not the address of a local where that can be helped: it may lie far above, in a caller's large frame.
#[inline(always)]
fn stack_pointer() -> usize {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        let at: usize;
        // SAFETY: only reads a register.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            asm!("mov {}, rsp", out(reg) at, options(nomem, nostack, preserves_flags));
            #[cfg(target_arch = "aarch64")]
            asm!("mov {}, sp", out(reg) at, options(nomem, nostack, preserves_flags));
        }
        at
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let here = 0u8;
        (&raw const here).addr()
    }
}

/// Ends the lane that this is called in, if any, where its stack has no room for a call: for what allocates or locks on a
/// lane's stack and is no call of its [`Machine`].
#[track_caller]
pub fn need_stack() {
    if let Some(current) = CURRENT.get() {
        current.need_stack();
    }
}

/// Whether this thread is inside a kernel's lane.
pub fn in_kernel() -> bool {
    CURRENT.get().is_some()
}
