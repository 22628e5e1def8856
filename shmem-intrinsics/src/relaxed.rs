//! Signals and waits that order nothing, for protocols that order by other means: half the latency of the plain forms.
//!
//! Whoever observes a relaxed signal knows that it was sent, and nothing else: data that was put before may be stale. Use
//! [`signal_op`](crate::signal_op) and [`wait_until`](crate::wait_until) unless the number itself is the message.

use crate::arch::{self, Space, Strength};
use crate::signal::Action;
use crate::sym::Sym;
use crate::team::{self, Target};
use crate::tile::Tile;
use crate::wait::{Allows, Condition, Relation, WaitWord, wait_by};

/// As [`signal_op`](crate::signal_op), without the release: it may overtake this thread's earlier stores and puts.
///
/// NVSHMEM `nvshmemx_signal_op` gives no more; PTX `st.relaxed.sys`, `red.relaxed.sys.add`. Faults with `FaultKind::Pe`.
///
/// ```
/// use shmem::prelude::*;
/// use shmem::relaxed;
/// shmem_sim::run(2, 1, 1, || {
///     let tick = shmem_sim::signals(1).at(0);
///     relaxed::signal_op(tick.set(3), 1 - shmem::my_pe());
///     assert_eq!(relaxed::wait_until(Thread, tick, eq(3)), 3);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn signal_op<A: Action>(action: A, to: impl Target) {
    arch::signal_relaxed(action, team::peer(to));
}

/// As [`wait_until`](crate::wait_until), without the acquire: what was ordered before the observed update may still be
/// stale. Bounded all the same.
///
/// PTX `ld.relaxed.sys` in one lane, then the tile's sync. Example at [`signal_op`].
#[inline(always)]
#[track_caller]
pub fn wait_until<G: Tile, T, R: Relation>(
    tile: G,
    word: Sym<T>,
    until: Condition<R, <Sym<T> as WaitWord>::Value>,
) -> <Sym<T> as WaitWord>::Value
where
    Sym<T>: Allows<R>,
{
    wait_by(tile, word, until, || load(word))
}

#[inline(always)]
#[track_caller]
fn load<T>(word: Sym<T>) -> <Sym<T> as WaitWord>::Value
where
    Sym<T>: WaitWord,
{
    let (at, space, relaxed) = (word.address(), Space::Symmetric, Strength::Relaxed);
    // SAFETY: a symmetric wait word lies in a live object, and has 4 or 8 bytes.
    let bits = unsafe {
        if size_of::<<Sym<T> as WaitWord>::Value>() == 4 {
            u64::from(arch::load::<u32>(at, space, relaxed))
        } else {
            arch::load(at, space, relaxed)
        }
    };
    Sym::<T>::__value(bits)
}
