//! Objects that a kernel makes by itself, so that a test or an example needs no host program.

use crate::memory::Heaps;
use shmem::state::{MAX_TEAMS, SystemArea, TeamBlock};
use shmem::{Collective, CounterWord, CtxSet, Global, Pod, Serial, Sharing, SignalWord, SymSlice, Team};
use std::any::TypeId;
use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::Location;
use std::sync::Arc;

/// Symmetric objects begin at multiples of this.
const ALIGNMENT: u64 = 128;

/// Where an object is made, what it holds, and whose it is: a PE's number, or None for all.
type Key = (Location<'static>, TypeId, Option<u32>);

struct Objects {
    heaps: Arc<Heaps>,
    next: u64,
    /// The number of the next context; 0 is the default one.
    next_context: u64,
    made: HashMap<Key, Object>,
    /// By which line, and of which PEs.
    teams: Vec<(Location<'static>, Box<[u32]>)>,
}

struct Object {
    len: u64,
    /// Offset in the heap, or address.
    start: u64,
    /// Memory of an object outside the heaps.
    _memory: Option<Box<[u128]>>,
}

thread_local! {
    /// On a simulator's thread whose world allows it.
    static OBJECTS: RefCell<Option<Objects>> = const { RefCell::new(None) };
}

/// Lets kernels that run on this thread make objects.
pub(crate) fn allow(heaps: Arc<Heaps>) {
    let next = SystemArea::new(heaps.pes()).bytes;
    OBJECTS.set(Some(Objects {
        heaps,
        next,
        next_context: 1,
        made: HashMap::new(),
        teams: Vec::new(),
    }));
}

/// Frees what they have made.
pub(crate) fn forget() {
    OBJECTS.take();
}

impl Objects {
    fn symmetric(&mut self, len: u64, bytes: u64) -> Object {
        let start = self.next;
        let end = start.checked_add(bytes).filter(|&end| end <= self.heaps.bytes());
        let Some(end) = end else {
            panic!(
                "no room for {bytes} bytes: {start} of the heap's {} are taken",
                self.heaps.bytes()
            )
        };
        self.next = end.next_multiple_of(ALIGNMENT);
        Object {
            len,
            start,
            _memory: None,
        }
    }

    /// Where the block of a team is, which the first call makes.
    fn team(&mut self, line: Location<'static>, members: &[u32]) -> u64 {
        let known = self.teams.iter().position(|(at, pes)| *at == line && **pes == *members);
        let number = known.unwrap_or(self.teams.len());
        assert!(number < MAX_TEAMS as usize, "a world has at most {MAX_TEAMS} teams");
        let pes = self.heaps.pes();
        let start = SystemArea::new(pes).teams + number as u64 * TeamBlock::bytes(pes);
        if known.is_none() {
            self.teams.push((line, members.into()));
            let image = TeamBlock::image(pes, members);
            for &pe in members {
                // SAFETY: the block lies in the heap, and no lane has its team yet.
                unsafe {
                    let block = self.heaps.base(pe).add(start as usize);
                    block.copy_from_nonoverlapping(image.as_ptr(), image.len());
                }
            }
        }
        start
    }
}

/// The object of this key; makes it at first. True where it is new.
#[track_caller]
fn object(key: Key, len: usize, bytes: u64, make: impl FnOnce(&mut Objects, u64, u64) -> Object) -> (u64, bool) {
    assert!(
        shmem::hook::in_kernel(),
        "objects are made inside a kernel that shmem_sim::run or shmem_sim::Sim runs"
    );
    shmem::hook::need_stack();
    OBJECTS.with_borrow_mut(|objects| {
        let Some(objects) = objects else {
            panic!("this kernel was launched by a host program, which makes the objects: pass them as arguments")
        };
        let len = len as u64;
        if let Some(object) = objects.made.get(&key) {
            assert!(
                object.len == len,
                "this line has made an object of {} elements, and is asked for {len}",
                object.len
            );
            return (object.start, false);
        }
        let object = make(objects, len, bytes);
        let start = object.start;
        objects.made.insert(key, object);
        (start, true)
    })
}

#[track_caller]
fn bytes<T>(len: usize) -> u64 {
    (len as u64)
        .checked_mul(size_of::<T>() as u64)
        .expect("an object has less than 2^64 bytes")
}

/// A symmetric object of zeros, made at the first call from this source line and the same at every later one, on every
/// PE. Only in kernels under [`run`](crate::run()) and [`Sim`](crate::Sim).
///
/// ```
/// shmem_sim::run(2, 1, 1, || {
///     let x = shmem_sim::symmetric::<u32>(4);
///     shmem::p(x.at(0), 7, 1 - shmem::my_pe());
/// }).unwrap();
/// ```
///
/// # Panics
/// Called elsewhere; with another length from the same line; no room in the heap.
#[track_caller]
pub fn symmetric<T: Pod>(len: usize) -> SymSlice<T> {
    let key = (*Location::caller(), TypeId::of::<T>(), None);
    let (offset, _) = object(key, len, bytes::<T>(len), Objects::symmetric);
    SymSlice::__new(offset, len as u64)
}

/// As [`symmetric`], with `value(pe, i)` as element i on PE `pe`; `value` runs once for each, at the first call.
///
/// ```
/// shmem_sim::run(2, 1, 1, || {
///     let x = shmem_sim::symmetric_with(4, |pe, i| 10 * pe + i as u32);
///     assert_eq!(x.load(3), 10 * shmem::my_pe() + 3);
/// }).unwrap();
/// ```
///
/// # Panics
/// As [`symmetric`].
#[track_caller]
pub fn symmetric_with<T: Pod>(len: usize, value: impl Fn(u32, usize) -> T) -> SymSlice<T> {
    let key = (*Location::caller(), TypeId::of::<T>(), None);
    let (offset, new) = object(key, len, bytes::<T>(len), Objects::symmetric);
    if new {
        let heaps = OBJECTS.with_borrow(|objects| objects.as_ref().map(|objects| Arc::clone(&objects.heaps)));
        let heaps = heaps.expect("an object has just been made");
        for pe in 0..heaps.pes() {
            // SAFETY: inside the heap.
            let start = unsafe { heaps.base(pe).add(offset as usize) }.cast::<T>();
            for i in 0..len {
                // SAFETY: the object has `len` elements, and no lane has its handle yet.
                unsafe { start.add(i).write(value(pe, i)) };
            }
        }
    }
    SymSlice::__new(offset, len as u64)
}

/// Signals of value 0, made as [`symmetric`] makes objects.
///
/// # Panics
/// As [`symmetric`].
#[track_caller]
pub fn signals(len: usize) -> SymSlice<SignalWord> {
    symmetric(len)
}

/// Counters of value 0, made as [`symmetric`] makes objects.
///
/// # Panics
/// As [`symmetric`].
#[track_caller]
pub fn counters(len: usize) -> SymSlice<CounterWord> {
    symmetric(len)
}

/// Local memory of zeros, made as [`symmetric`] makes objects, one for each PE: the same for all its lanes, and no other
/// PE reaches it.
///
/// ```
/// shmem_sim::run(2, 1, 32, || {
///     let x = shmem_sim::global::<f32>(32);
///     x.store(shmem::thread::index(), 0.5);
/// }).unwrap();
/// ```
///
/// # Panics
/// As [`symmetric`].
#[track_caller]
pub fn global<T: Pod>(len: usize) -> Global<T> {
    let key = (*Location::caller(), TypeId::of::<T>(), Some(shmem::my_pe()));
    let (address, _) = object(key, len, bytes::<T>(len), |_, len, bytes| {
        let memory = vec![0u128; bytes.div_ceil(16).max(1) as usize].into_boxed_slice();
        Object {
            len,
            start: memory.as_ptr() as u64,
            _memory: Some(memory),
        }
    });
    Global::__new(address, len as u64)
}

/// Contexts, made as [`symmetric`] makes objects: operations in one are ordered and completed apart from those in others.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 32, || {
///     let ctx = shmem_sim::contexts::<shmem::BlockShared>(2).get(1);
///     let x = shmem_sim::symmetric::<u32>(32);
///     shmem::p(x.at(thread::index()), 1, ctx.to(1 - shmem::my_pe()));
///     ctx.quiet(Block);
/// }).unwrap();
/// ```
///
/// # Panics
/// As [`symmetric`].
#[track_caller]
pub fn contexts<S: Sharing>(len: u32) -> CtxSet<S> {
    let key = (*Location::caller(), TypeId::of::<CtxSet<S>>(), None);
    let (first, _) = object(key, len as usize, 0, |objects, len, _| {
        let start = objects.next_context;
        objects.next_context += len;
        Object {
            len,
            start,
            _memory: None,
        }
    });
    CtxSet::__new(first as u32, len)
}

/// The team of these PEs, indexed in this order, made as [`symmetric`] makes objects. None on a PE that is not among them.
/// Lists that differ make teams of their own, also from the same line.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(4, 1, 32, || {
///     if let Some(odd) = shmem_sim::team(&[1, 3]) {
///         shmem_sim::collective().barrier(Warp, odd);
///     }
/// }).unwrap();
/// ```
///
/// # Panics
/// As [`symmetric`]; a list without PEs, with one twice or with one outside the world; more than 64 teams.
#[track_caller]
pub fn team(members: &[u32]) -> Option<Team> {
    let line = *Location::caller();
    assert!(
        shmem::hook::in_kernel(),
        "objects are made inside a kernel that shmem_sim::run or shmem_sim::Sim runs"
    );
    let n = shmem::n_pes();
    assert!(!members.is_empty(), "a team has members");
    for (i, pe) in members.iter().enumerate() {
        assert!(
            *pe < n && !members[..i].contains(pe),
            "a team lists PEs of the world, each once: {members:?}"
        );
    }
    let start = OBJECTS.with_borrow_mut(|objects| {
        let Some(objects) = objects else {
            panic!("this kernel was launched by a host program, which makes the teams: pass them as arguments")
        };
        objects.team(line, members)
    });
    let index = members.iter().position(|&pe| pe == shmem::my_pe())?;
    Some(Team::__new(start, members, index as u32, Serial::NONE))
}

/// The token of a collective kernel: what `run` launches is one.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 2, 32, || {
///     let all = shmem_sim::collective();
///     all.barrier(all.grid(), shmem::world());
/// }).unwrap();
/// ```
///
/// # Panics
/// Called elsewhere than in a kernel under [`run`](crate::run()) and [`Sim`](crate::Sim).
#[track_caller]
pub fn collective() -> Collective {
    assert!(
        shmem::hook::in_kernel() && OBJECTS.with_borrow(Option::is_some),
        "only a kernel that shmem_sim::run or shmem_sim::Sim runs is known to be collective"
    );
    // SAFETY: `Sim::run` launches the kernel on every PE, and no other in this world.
    unsafe { Collective::__new(0) }
}
