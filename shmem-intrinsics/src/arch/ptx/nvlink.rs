//! The load/store path: a peer's heap is mapped, and a call is a few instructions. The table of what becomes what is in
//! docs/src/ordering.md. All contexts take the same way.

use super::copy::copy;
use super::memory::{bits, load_by_size, store_by_size};
use super::registers::{globaltimer, heap_base, peer_base, time_limit_ns};
use crate::Pod;
use crate::arch::{Extent, Space, Span, Strength};
use crate::context;
use crate::fault::{FaultKind, fault};
use crate::network;
use crate::signal::Action;
use crate::slice::assert_element;
use crate::state::SystemArea;
use crate::team::Peer;
#[cfg(shmem_timeline)]
use crate::tile::Thread;
use crate::tile::Tile;
use core::arch::asm;
use core::panic::Location;

/// Strong: may be waited on.
///
/// # Safety
/// The offset is that of a live T on the peer, which exists.
#[inline(always)]
#[cfg_attr(shmem_timeline, track_caller)]
pub(crate) unsafe fn store_remote<T: Pod>(offset: u64, value: T, to: Peer) {
    const { assert_element::<T>() };
    span!(Thread, P, to.pe, size_of::<T>() as u64);
    if network::carries(to.pe) {
        // SAFETY: the caller's promise.
        return unsafe { network::store(offset, value, to) };
    }
    // SAFETY: the caller's promise; the heap of every PE is mapped.
    unsafe { store_by_size!(".relaxed.sys.global", peer_base(to.pe) + offset, value, T) }
}

/// # Safety
/// The offset is that of a live T on the peer, which exists.
#[inline(always)]
#[cfg_attr(shmem_timeline, track_caller)]
pub(crate) unsafe fn load_remote<T: Pod>(offset: u64, from: Peer) -> T {
    const { assert_element::<T>() };
    span!(Thread, G, from.pe, size_of::<T>() as u64);
    if network::carries(from.pe) {
        // SAFETY: the caller's promise.
        return unsafe { network::load(offset, from) };
    }
    // SAFETY: the caller's promise; the heap of every PE is mapped.
    unsafe { load_by_size!(".relaxed.sys.global", peer_base(from.pe) + offset, T) }
}

#[inline(always)]
#[track_caller]
pub(crate) fn put<G: Tile>(tile: G, dst: u64, src: Span, extent: Extent, to: Peer, blocking: bool) {
    span!(tile, Put, to.pe, extent.bytes);
    if network::carries(to.pe) {
        return network::put(tile, dst, src, extent, to, blocking);
    }
    copy::<G, true>(tile, peer_base(to.pe) + dst, src, extent, !blocking);
    if blocking {
        tile.sync();
    }
}

/// Over load/store a get is in place at once for the thread that loaded; the others know after the tile's sync.
#[inline(always)]
#[track_caller]
pub(crate) fn get<G: Tile>(tile: G, dst: Span, src: u64, extent: Extent, from: Peer, blocking: bool) {
    span!(tile, Get, from.pe, extent.bytes);
    if network::carries(from.pe) {
        return network::get(tile, dst, src, extent, from, blocking);
    }
    copy::<G, false>(tile, peer_base(from.pe) + src, dst, extent, !blocking);
    if blocking {
        tile.sync();
    }
}

/// The leader's release covers the other members' stores: the tile's sync comes before it, and release is cumulative.
#[inline(always)]
#[track_caller]
pub(crate) fn put_signal<G: Tile, A: Action>(
    tile: G,
    dst: u64,
    src: Span,
    extent: Extent,
    action: A,
    to: Peer,
    blocking: bool,
) {
    span!(tile, PutSignal, to.pe, extent.bytes);
    if network::carries(to.pe) {
        return network::put_signal(tile, dst, src, extent, action, to, blocking);
    }
    copy::<G, true>(tile, peer_base(to.pe) + dst, src, extent, false);
    tile.sync();
    if tile.leader() {
        signal(action, to);
    }
}

#[inline(always)]
#[cfg_attr(shmem_timeline, track_caller)]
pub(crate) fn signal<A: Action>(action: A, to: Peer) {
    span!(Thread, Signal, to.pe, 8);
    if network::carries(to.pe) {
        return network::signal(action, to);
    }
    let (at, value) = (peer_base(to.pe) + action.__offset(), action.__value());
    // SAFETY: the action's word was found inside a live object, which every PE has.
    unsafe {
        if A::__ADDS {
            asm!("red.release.sys.global.add.u64 [{a}], {v};", a = in(reg64) at, v = in(reg64) value, options(nostack));
        } else {
            asm!("st.release.sys.global.u64 [{a}], {v};", a = in(reg64) at, v = in(reg64) value, options(nostack));
        }
    }
}

#[inline(always)]
#[cfg_attr(shmem_timeline, track_caller)]
pub(crate) fn signal_relaxed<A: Action>(action: A, to: Peer) {
    span!(Thread, Signal, to.pe, 8);
    if network::carries(to.pe) {
        return network::signal(action, to);
    }
    let (at, value) = (peer_base(to.pe) + action.__offset(), action.__value());
    // SAFETY: as in `signal`.
    unsafe {
        if A::__ADDS {
            asm!("red.relaxed.sys.global.add.u64 [{a}], {v};", a = in(reg64) at, v = in(reg64) value, options(nostack));
        } else {
            store_by_size!(".relaxed.sys.global", at, value, u64);
        }
    }
}

#[inline(always)]
#[track_caller]
pub(crate) fn fence<G: Tile>(tile: G, _ctx: u32) {
    span!(tile, Fence);
    tile.sync();
    // SAFETY: a fence.
    unsafe { asm!("fence.acq_rel.sys;", options(nostack)) }
}

/// One sequentially consistent fence serves the tile: the syncs around it order every member's accesses with it.
#[inline(always)]
#[track_caller]
pub(crate) fn quiet<G: Tile>(tile: G, ctx: u32) {
    complete::<G, false>(tile, ctx);
}

#[inline(always)]
#[track_caller]
pub(crate) fn quiet_visible<G: Tile>(tile: G, ctx: u32) {
    complete::<G, true>(tile, ctx);
}

#[inline(always)]
#[track_caller]
fn complete<G: Tile, const VISIBLE: bool>(tile: G, ctx: u32) {
    span!(tile, Quiet);
    tile.sync();
    if tile.leader() {
        // SAFETY: a fence.
        unsafe { asm!("fence.sc.sys;", options(nostack)) }
    }
    if network::present() {
        network::quiet::<G, VISIBLE>(tile, ctx);
    }
    tile.sync();
}

/// The start of a barrier (QUIET) or a sync. Members of rank below `n` go on to [`tell`], so that only they need the fence.
#[inline(always)]
#[track_caller]
pub(crate) fn arrive<G: Tile, const QUIET: bool>(tile: G, n: u32) {
    tile.sync();
    if QUIET && tile.rank() < n {
        // SAFETY: a fence.
        unsafe { asm!("fence.sc.sys;", options(nostack)) }
    }
    if QUIET && network::present() {
        network::quiet::<G, true>(tile, context::DEFAULT);
        tile.sync();
    }
}

/// Sets a word at PE `pe` behind everything that the tile did before it arrived.
///
/// # Safety
/// The offset is that of a live word on PE `pe`, which exists.
#[inline(always)]
pub(crate) unsafe fn tell<const QUIET: bool>(offset: u64, value: u64, pe: u32) {
    if network::carries(pe) {
        let to = Peer {
            pe,
            ctx: context::DEFAULT,
        };
        // SAFETY: the caller's promise.
        return unsafe { network::store(offset, value, to) };
    }
    let at = peer_base(pe) + offset;
    // SAFETY: the caller's promise.
    unsafe {
        if QUIET {
            // The fence is done already.
            store_by_size!(".relaxed.sys.global", at, value, u64);
        } else {
            store_by_size!(".release.sys.global", at, value, u64);
        }
    }
}

/// Every member has loaded its share before it issues the stores, so that the tile's sync is enough.
#[inline(always)]
#[track_caller]
pub(crate) fn flush<G: Tile>(tile: G, ctx: u32) {
    span!(tile, Flush);
    tile.sync();
    if network::present() {
        network::quiet::<G, false>(tile, ctx);
        tile.sync();
    }
}

/// The image that the builder makes for Worlds whose PEs are not all reached by load and store.
pub(crate) const HAS_NETWORK: bool = cfg!(shmem_network);

/// # Safety
/// The address is that of an adapter's register.
#[inline(always)]
pub(crate) unsafe fn store_register(address: u64, value: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("st.mmio.relaxed.sys.global.u64 [{a}], {v};", a = in(reg64) address, v = in(reg64) value, options(nostack));
    }
}

/// What a wait looks at: a GPU reports only the value it saw last.
pub(crate) struct Watch;

#[inline(always)]
pub(crate) fn watch(_address: u64, _bytes: usize, _comparison: &'static str, _value: u64) -> Watch {
    Watch
}

#[inline(always)]
pub(crate) fn watch_any(first: Watch, _count: u64, _stride: usize, _each: bool) -> Watch {
    first
}

/// Polls between two looks at the abort word and the clock.
const SPINS: u32 = 256;

/// Calls `ready` until it is true.
#[inline(always)]
#[track_caller]
pub(crate) fn spin(watch: &Watch, ready: impl FnMut() -> bool) {
    poll(watch, ready, |ready| *ready, |_| ());
}

/// Loads until it is `ready`. Looks at the abort word and the clock, and has the caller look at what it loaded, only now and
/// then: each instruction between two loads delays the one that finds it ready.
#[inline(always)]
#[track_caller]
pub(crate) fn poll<V>(_watch: &Watch, mut load: impl FnMut() -> V, ready: impl Fn(&V) -> bool, look: impl Fn(&V)) -> V {
    span!(Thread, Wait);
    let at = Location::caller();
    let (mut spins, mut since) = (0u32, 0u64);
    loop {
        let seen = load();
        if ready(&seen) {
            return seen;
        }
        spins += 1;
        if spins == SPINS {
            spins = 0;
            look(&seen);
            // SAFETY: the abort word lies in the system area of this PE's heap.
            let aborted: u32 =
                unsafe { super::memory::load(heap_base() + SystemArea::ABORT, Space::Symmetric, Strength::Relaxed) };
            if aborted != 0 {
                fault(FaultKind::PeerFailed, 0, 0, at);
            }
            let (now, limit) = (globaltimer(), time_limit_ns());
            if since == 0 {
                since = now;
            } else if limit != 0 && now.wrapping_sub(since) > limit {
                if crate::network::present() {
                    crate::network::look_for_errors();
                }
                fault(FaultKind::TimeLimit, 0, now.wrapping_sub(since), at);
            }
        }
    }
}
