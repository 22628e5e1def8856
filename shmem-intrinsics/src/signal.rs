//! Signals and counters: words that tell another PE that something has arrived.
//!
//! | type | updated by | one writer at a time | waits |
//! |---|---|---|---|
//! | [`Signal`] | `.set(v)` | yes | all comparisons |
//! | [`Counter`] | `.add(n)` | no | `ge`, `gt` |
//!
//! Take a Signal when the value says *which* message arrived, a Counter when many PEs report to one. Counting tells how
//! many arrived, never which.

use crate::arch::{self, Space, Strength};
use crate::team::{self, Target};
use crate::{KernelArg, Pod, Serial, Sym, Zeroable};

/// A word that is set: 8 bytes. Not for data, so that a wait on a data word doesn't compile.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub struct SignalWord(u64);

/// A word that is added to: 16 bytes, one half for load/store peers and one for network peers, because atomics of a GPU
/// and of a NIC on one word are not atomic with each other.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub struct CounterWord([u64; 2]);

// SAFETY: all bit patterns are numbers.
unsafe impl Zeroable for SignalWord {}
// SAFETY: no padding, no pointers.
unsafe impl Pod for SignalWord {}
// SAFETY: all bit patterns are numbers.
unsafe impl Zeroable for CounterWord {}
// SAFETY: no padding, no pointers.
unsafe impl Pod for CounterWord {}

impl SignalWord {
    /// What was last set. For reading a whole array of signals; a wait tells its word's value itself.
    ///
    /// ```
    /// # use shmem::{SignalWord, Zeroable};
    /// assert_eq!(SignalWord::zeroed().value(), 0);
    /// ```
    pub fn value(self) -> u64 {
        self.0
    }
}

impl CounterWord {
    /// The sum of what was added.
    ///
    /// ```
    /// # use shmem::{CounterWord, Zeroable};
    /// assert_eq!(CounterWord::zeroed().value(), 0);
    /// ```
    pub fn value(self) -> u64 {
        self.0[0].wrapping_add(self.0[1])
    }
}

/// A signal: one element of a `SymSlice<SignalWord>`.
pub type Signal = Sym<SignalWord>;
/// A counter: one element of a `SymSlice<CounterWord>`.
pub type Counter = Sym<CounterWord>;

/// What a signal operation does at its target. Made by [`Signal::set`](Sym::set) and [`Counter::add`](Sym::add).
pub trait Action: Copy {
    /// The word's offset in the heap.
    #[doc(hidden)]
    fn __offset(self) -> u64;
    /// The operand.
    #[doc(hidden)]
    fn __value(self) -> u64;
    /// Adds rather than sets.
    #[doc(hidden)]
    const __ADDS: bool;
}

/// Sets a signal.
#[must_use = "an action does nothing by itself: pass it to put_signal or signal_op"]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Set {
    offset: u64,
    value: u64,
    serial: Serial,
}

/// Adds to a counter.
#[must_use = "an action does nothing by itself: pass it to put_signal or signal_op"]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Add {
    offset: u64,
    value: u64,
    serial: Serial,
}

impl Action for Set {
    fn __offset(self) -> u64 {
        self.offset
    }
    fn __value(self) -> u64 {
        self.value
    }
    const __ADDS: bool = false;
}

impl Action for Add {
    fn __offset(self) -> u64 {
        self.offset
    }
    fn __value(self) -> u64 {
        self.value
    }
    const __ADDS: bool = true;
}

/// | action | its word |
/// |---|---|
/// | `Set` | `SignalWord` |
/// | `Add` | `CounterWord` |
macro_rules! arguments { ($($action:ident: $word:ty;)*) => { $(
    // SAFETY: numbers, laid out alike on both sides; the launch checks the word.
    unsafe impl KernelArg for $action {
        #[cfg(not(target_arch = "nvptx64"))]
        fn regions(&self, visit: &mut dyn FnMut(crate::Region)) {
            visit(crate::Region::Symmetric {
                offset: self.offset,
                bytes: size_of::<$word>() as u64,
                serial: self.serial,
            });
        }
    }
)* } }
arguments! {
    Set: SignalWord;
    Add: CounterWord;
}

impl Sym<SignalWord> {
    /// The action that sets the signal to `value`.
    ///
    /// ```
    /// # use shmem::prelude::*;
    /// # shmem_sim::run(1, 1, 1, || {
    /// let ready = shmem_sim::signals(4);
    /// shmem::signal_op(ready.at(2).set(9), 0);
    /// # shmem::wait_until(Thread, ready.at(2), eq(9));
    /// # }).unwrap();
    /// ```
    #[inline(always)]
    pub fn set(self, value: u64) -> Set {
        Set {
            offset: self.offset(),
            value,
            serial: self.serial(),
        }
    }
}

impl Sym<CounterWord> {
    /// The action that adds `value` to the counter.
    ///
    /// ```
    /// # use shmem::prelude::*;
    /// # shmem_sim::run(1, 1, 8, || {
    /// let arrived = shmem_sim::counters(1).at(0);
    /// shmem::signal_op(arrived.add(1), 0);
    /// # shmem::wait_until(Block, arrived, ge(8));
    /// # }).unwrap();
    /// ```
    #[inline(always)]
    #[expect(
        clippy::should_implement_trait,
        reason = "an action, as NVSHMEM's SIGNAL_ADD; nobody writes `counter + 1`"
    )]
    pub fn add(self, value: u64) -> Add {
        Add {
            offset: self.offset(),
            value,
            serial: self.serial(),
        }
    }
}

/// Applies the action at PE `to`. One thread calls it. Put-like: whoever observes it also observes this thread's earlier
/// memory stores, but earlier puts only with a `fence` between, or use [`put_signal`](crate::put_signal).
///
/// NVSHMEM `nvshmemx_signal_op`; PTX `st.release.sys`, `red.release.sys.add`. Faults with `FaultKind::Pe`.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 1, || {
///     let ready = shmem_sim::signals(1).at(0);
///     shmem::signal_op(ready.set(5), 1 - shmem::my_pe());
///     assert_eq!(shmem::wait_until(Thread, ready, eq(5)), 5);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn signal_op<A: Action>(action: A, to: impl Target) {
    arch::signal(action, team::peer(to));
}

/// Sets this PE's own signal to 0. One thread calls it. Orders nothing: the PE that sets the signal next must do so
/// after this, say once a signal of ours has told it.
///
/// NVSHMEM `nvshmemx_signal_reset`; PTX `st.relaxed.sys`.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 1, || {
///     let ready = shmem_sim::signals(1).at(0);
///     shmem::signal_op(ready.set(1), 1 - shmem::my_pe());
///     shmem::wait_until(Thread, ready, eq(1));
///     shmem::signal_reset(ready);
///     assert_eq!(shmem::signal_fetch(ready), 0);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn signal_reset(signal: Signal) {
    // SAFETY: `at` found it inside a live object.
    unsafe { arch::store(signal.address(), 0u64, Space::Symmetric, Strength::Relaxed) }
}

/// This PE's own signal, now. Orders nothing; a wait acquires.
///
/// OpenSHMEM 1.5 `shmem_signal_fetch`; PTX `ld.relaxed.sys`.
///
/// ```
/// # use shmem::prelude::*;
/// # shmem_sim::run(1, 1, 1, || {
/// let ready = shmem_sim::signals(1).at(0);
/// assert_eq!(shmem::signal_fetch(ready), 0);
/// # }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn signal_fetch(signal: Signal) -> u64 {
    // SAFETY: `at` found it inside a live object.
    let word: SignalWord = unsafe { arch::load(signal.address(), Space::Symmetric, Strength::Relaxed) };
    word.0
}
