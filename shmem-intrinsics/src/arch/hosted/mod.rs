//! Without a GPU: every call goes to the machine that runs the current lane.

pub(crate) mod atomic;
mod meet;
mod pick;

pub(crate) use meet::*;
pub(crate) use pick::pick;

use super::{Extent, Space, Span, Strength};
use crate::Pod;
use crate::context;
use crate::fault::FaultKind;
pub(crate) use crate::hook::Watch;
use crate::hook::{self, Access, At, SignalOp, SignalUpdate, Transfer, current};
use crate::network;
use crate::signal::Action;
use crate::state::{DeviceState, FaultRecord, SystemArea};
use crate::team::Peer;
use crate::tile::{Thread, Tile};
use core::panic::Location;

mod async_copy;
mod bulk;
mod cluster;
mod computed;
mod fp8;
mod hint;
mod math;
mod matrix;
mod mbarrier;
mod opaque;
mod packet;
mod reduce;
mod time;
mod vector;
mod warpgroup;

pub(crate) use async_copy::*;
pub(crate) use bulk::*;
pub(crate) use cluster::*;
pub(crate) use computed::*;
pub(crate) use fp8::*;
pub(crate) use hint::*;
pub(crate) use math::*;
pub(crate) use matrix::*;
pub(crate) use mbarrier::*;
pub(crate) use opaque::*;
pub(crate) use packet::*;
pub(crate) use reduce::*;
pub(crate) use time::*;
pub(crate) use vector::*;
pub(crate) use warpgroup::*;

macro_rules! lane_fields { ($($name:ident = $field:ident;)*) => { $(
    #[track_caller]
    pub(crate) fn $name() -> [u32; 3] { current().lane.$field }
)* } }
lane_fields! { thread_idx = thread; block_idx = block; block_dim = block_dim; grid_dim = grid_dim; }

#[track_caller]
fn state() -> &'static DeviceState {
    // SAFETY: the machine keeps a PE's state in place while lanes run.
    unsafe { &*current().lane.state }
}

macro_rules! state_fields { ($($name:ident: $t:ty;)*) => { $(
    #[track_caller]
    pub(crate) fn $name() -> $t { state().$name }
)* } }
/// Where PE `pe`'s heap begins, for this PE's loads and stores. `pe` is in the world.
#[track_caller]
pub(crate) fn peer_base(pe: u32) -> u64 {
    state().peer_base[pe as usize]
}

state_fields! { my_pe: u32; n_pes: u32; heap_base: u64; world_sync: u64; node_sync: u64; node_start: u32; node_size: u32; network: u64; }

#[track_caller]
pub(crate) fn lane_id() -> u32 {
    crate::thread::index() % 32
}

#[track_caller]
pub(crate) fn tile_lane_id<const N: u32>() -> u32 {
    crate::tile::check_divides(N);
    lane_id()
}

#[track_caller]
pub(crate) fn sync_block() {
    current().machine.sync(hook::Group::Block, Location::caller());
}

#[track_caller]
pub(crate) fn sync_warp(mask: u32) {
    current().machine.sync(hook::Group::Warp(mask), Location::caller());
}

#[track_caller]
fn exchange(mask: u32, value: u32) -> [u64; 32] {
    exchange_wide(mask, value.into())
}

#[track_caller]
fn exchange_wide(mask: u32, value: u64) -> [u64; 32] {
    current().machine.exchange(mask, value, Location::caller())
}

#[track_caller]
pub(crate) fn shuffle_idx(mask: u32, value: u32, from: u32) -> u32 {
    exchange(mask, value)[(from % 32) as usize] as u32
}

#[track_caller]
pub(crate) fn shuffle_xor(mask: u32, value: u32, bits: u32) -> u32 {
    exchange(mask, value)[((lane_id() ^ bits) % 32) as usize] as u32
}

#[track_caller]
pub(crate) fn ballot(mask: u32, predicate: bool) -> u32 {
    let all = exchange(mask, predicate.into());
    (0..32)
        .filter(|&i| mask & (1 << i) != 0 && all[i] != 0)
        .fold(0, |bits, i| bits | 1 << i)
}

#[track_caller]
pub(crate) fn vote_any(mask: u32, predicate: bool) -> bool {
    ballot(mask, predicate) != 0
}

#[track_caller]
pub(crate) fn vote_all(mask: u32, predicate: bool) -> bool {
    ballot(mask, !predicate) == 0
}

fn access<T>(address: u64, space: Space, strength: Strength) -> Access {
    Access {
        address,
        bytes: size_of::<T>() as u32,
        space: space.into(),
        strength: match strength {
            Strength::Weak => hook::Strength::Weak,
            Strength::Relaxed => hook::Strength::Relaxed,
            Strength::Acquire => hook::Strength::Acquire,
        },
    }
}

impl From<Space> for hook::Space {
    fn from(space: Space) -> Self {
        match space {
            Space::Symmetric => Self::Symmetric,
            Space::Global => Self::Global,
            Space::Shared => Self::Shared,
            Space::Local => Self::Local,
        }
    }
}

fn to_bits<T: Pod>(value: T) -> u128 {
    let mut bits = 0u128;
    // SAFETY: T is plain bits and at most 16 bytes (checked by `assert_element`).
    unsafe { (&raw mut bits).cast::<T>().write_unaligned(value) };
    bits
}

fn from_bits<T: Pod>(bits: u128) -> T {
    // SAFETY: as in `to_bits`; any bits are a T.
    unsafe { (&raw const bits).cast::<T>().read_unaligned() }
}

/// # Safety
/// The address is that of a live T in this space.
#[track_caller]
pub(crate) unsafe fn load<T: Pod>(address: u64, space: Space, strength: Strength) -> T {
    const { crate::slice::assert_element::<T>() };
    from_bits(
        current()
            .machine
            .load(access::<T>(address, space, strength), Location::caller()),
    )
}

/// # Safety
/// The address is that of a live T in this space.
#[track_caller]
pub(crate) unsafe fn store<T: Pod>(address: u64, value: T, space: Space, strength: Strength) {
    const { crate::slice::assert_element::<T>() };
    current().machine.store(
        access::<T>(address, space, strength),
        to_bits(value),
        Location::caller(),
    );
}

/// # Safety
/// The offset is that of a live T on the peer, which exists.
#[track_caller]
pub(crate) unsafe fn store_remote<T: Pod>(offset: u64, value: T, to: Peer) {
    const { crate::slice::assert_element::<T>() };
    if network::carries(to.pe) {
        let _reach = Reach::begin("p", true, to, size_of::<T>() as u64);
        // SAFETY: the caller's promise.
        return unsafe { network::store(offset, value, to) };
    }
    current().machine.p(
        offset,
        to_bits(value),
        size_of::<T>() as u32,
        bare(to),
        Location::caller(),
    );
}

/// # Safety
/// The offset is that of a live T on the peer, which exists.
#[track_caller]
pub(crate) unsafe fn load_remote<T: Pod>(offset: u64, from: Peer) -> T {
    const { crate::slice::assert_element::<T>() };
    if network::carries(from.pe) {
        let _reach = Reach::begin("g", true, from, size_of::<T>() as u64);
        // SAFETY: the caller's promise.
        return unsafe { network::load(offset, from) };
    }
    from_bits(
        current()
            .machine
            .g(offset, size_of::<T>() as u32, bare(from), Location::caller()),
    )
}

/// The context by its number alone.
fn bare(peer: Peer) -> Peer {
    Peer {
        ctx: context::number_of(peer.ctx).1,
        ..peer
    }
}

#[track_caller]
fn transfer<G: Tile>(tile: G, remote: u64, local: Span, extent: Extent, peer: Peer) -> Transfer {
    Transfer {
        group: tile.group(),
        rank: tile.rank(),
        size: tile.size(),
        remote,
        local: local.address,
        local_space: local.space.into(),
        bytes: extent.bytes,
        element: extent.element,
        peer: bare(peer),
        blocking: true,
        signal: None,
    }
}

#[track_caller]
pub(crate) fn put<G: Tile>(tile: G, dst: u64, src: Span, extent: Extent, to: Peer, blocking: bool) {
    if network::carries(to.pe) {
        let name = if blocking { "put" } else { "put_nbi" };
        let _reach = Reach::begin(name, tile.leader(), to, extent.bytes);
        return network::put(tile, dst, src, extent, to, blocking);
    }
    let transfer = Transfer {
        blocking,
        ..transfer(tile, dst, src, extent, to)
    };
    current().machine.put(&transfer, Location::caller());
}

#[track_caller]
pub(crate) fn get<G: Tile>(tile: G, dst: Span, src: u64, extent: Extent, from: Peer, blocking: bool) {
    if network::carries(from.pe) {
        let name = if blocking { "get" } else { "get_nbi" };
        let _reach = Reach::begin(name, tile.leader(), from, extent.bytes);
        return network::get(tile, dst, src, extent, from, blocking);
    }
    let transfer = Transfer {
        blocking,
        ..transfer(tile, src, dst, extent, from)
    };
    current().machine.get(&transfer, Location::caller());
}

fn update<A: Action>(action: A) -> SignalUpdate {
    SignalUpdate {
        offset: action.__offset(),
        op: if A::__ADDS { SignalOp::Add } else { SignalOp::Set },
        value: action.__value(),
    }
}

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
    if network::carries(to.pe) {
        let _reach = Reach::begin("put_signal", tile.leader(), to, extent.bytes);
        return network::put_signal(tile, dst, src, extent, action, to, blocking);
    }
    let transfer = Transfer {
        signal: Some(update(action)),
        ..transfer(tile, dst, src, extent, to)
    };
    current().machine.put(&transfer, Location::caller());
}

#[track_caller]
pub(crate) fn signal<A: Action>(action: A, to: Peer) {
    if network::carries(to.pe) {
        let _reach = Reach::begin("signal", true, to, 8);
        return network::signal(action, to);
    }
    current()
        .machine
        .signal(update(action), bare(to), false, Location::caller());
}

#[track_caller]
pub(crate) fn signal_relaxed<A: Action>(action: A, to: Peer) {
    if network::carries(to.pe) {
        let _reach = Reach::begin("signal", true, to, 8);
        return network::signal(action, to);
    }
    current()
        .machine
        .signal(update(action), bare(to), true, Location::caller());
}

#[track_caller]
pub(crate) fn fence<G: Tile>(tile: G, ctx: u32) {
    current()
        .machine
        .fence(tile.group(), context::number_of(ctx).1, Location::caller());
}

#[track_caller]
pub(crate) fn quiet<G: Tile>(tile: G, ctx: u32) {
    completed(tile, ctx);
    acknowledged::<G, false>(tile, ctx);
}

/// What does not go by adapters.
#[track_caller]
fn completed<G: Tile>(tile: G, ctx: u32) {
    current()
        .machine
        .quiet(tile.group(), context::number_of(ctx).1, Location::caller());
}

#[track_caller]
pub(crate) fn flush<G: Tile>(tile: G, ctx: u32) {
    current()
        .machine
        .flush(tile.group(), context::number_of(ctx).1, Location::caller());
    acknowledged::<G, false>(tile, ctx);
}

/// A read from each PE pushes what was issued before it into its memory.
#[track_caller]
pub(crate) fn quiet_visible<G: Tile>(tile: G, ctx: u32) {
    completed(tile, ctx);
    if network::present() {
        return acknowledged::<G, true>(tile, ctx);
    }
    let mut pe = tile.rank();
    while pe < n_pes() {
        if peer_base(pe) == 0 {
            let from = bare(Peer { pe, ctx });
            current().machine.g(SystemArea::ABORT, 4, from, Location::caller());
        }
        pe += tile.size();
    }
    tile.sync();
}

/// A call that the network carries, from here until it returns.
struct Reach;

impl Reach {
    #[track_caller]
    fn begin(name: &'static str, leads: bool, peer: Peer, bytes: u64) -> Self {
        let call = hook::Reach {
            name,
            leads,
            pe: peer.pe,
            bytes,
        };
        current().machine.reach(Some(&call), Location::caller());
        Self
    }
}

impl Drop for Reach {
    #[track_caller]
    fn drop(&mut self) {
        current().machine.reach(None, Location::caller());
    }
}

/// What the network carries of the context is acknowledged; VISIBLE: and in memory.
#[track_caller]
fn acknowledged<G: Tile, const VISIBLE: bool>(tile: G, ctx: u32) {
    if network::present() {
        network::quiet::<G, VISIBLE>(tile, ctx);
        tile.sync();
    }
}

/// The lanes of the warp that are at this call together: which they are, is the GPU's business.
#[track_caller]
pub(crate) fn lanes_here() -> u32 {
    1 << lane_id()
}

/// Emulated adapters are always there to be asked.
pub(crate) const HAS_NETWORK: bool = true;

/// # Safety
/// The address is that of an adapter's register.
#[track_caller]
pub(crate) unsafe fn store_register(address: u64, value: u64) {
    current().machine.ring(address, value, Location::caller());
}

#[track_caller]
pub(crate) fn arrive<G: Tile, const QUIET: bool>(tile: G, _n: u32) {
    tile.sync();
    if QUIET {
        completed(Thread, context::DEFAULT);
        if network::present() {
            network::quiet::<G, true>(tile, context::DEFAULT);
            tile.sync();
        }
    }
}

/// # Safety
/// The offset is that of a live word on PE `pe`, which exists.
#[track_caller]
pub(crate) unsafe fn tell<const QUIET: bool>(offset: u64, value: u64, pe: u32) {
    let to = Peer {
        pe,
        ctx: context::DEFAULT,
    };
    if network::carries(pe) {
        // SAFETY: the caller's promise.
        return unsafe { network::store(offset, value, to) };
    }
    let update = SignalUpdate {
        offset,
        op: SignalOp::Set,
        value,
    };
    current().machine.signal(update, to, QUIET, Location::caller());
}

pub(crate) fn watch(address: u64, bytes: usize, comparison: &'static str, value: u64) -> Watch {
    Watch {
        address,
        bytes: bytes as u32,
        comparison,
        value,
        ..Watch::CLOSURE
    }
}

pub(crate) fn watch_any(first: Watch, count: u64, stride: usize, each: bool) -> Watch {
    Watch {
        count,
        stride: stride as u32,
        each,
        ..first
    }
}

#[track_caller]
pub(crate) fn spin(watch: &Watch, ready: impl FnMut() -> bool) {
    if !current().machine.leaves_out_wait(Location::caller()) {
        poll(watch, ready, |ready| *ready, |_| ());
    }
}

#[track_caller]
pub(crate) fn poll<V>(watch: &Watch, mut load: impl FnMut() -> V, ready: impl Fn(&V) -> bool, look: impl Fn(&V)) -> V {
    let (machine, at) = (current().machine, Location::caller());
    machine.watching(Some((watch, at)));
    let mut seen = load();
    while !ready(&seen) && !machine.leaves_out_wait(at) {
        look(&seen);
        machine.pause(watch, at);
        seen = load();
    }
    machine.watching(None);
    seen
}

pub(crate) fn fault(kind: FaultKind, a: u64, b: u64, at: Option<At>) -> ! {
    if !hook::in_kernel() {
        // A handle's own checks, called by a host program: there is nobody to record it.
        let place = at.map(ToString::to_string).unwrap_or_default();
        panic!("{place}: {kind:?} check failed on the host with {a} and {b}");
    }
    // Not its stack's end, which may be near, but the fault is what is to be told.
    let current = hook::running();
    let mut record = FaultRecord {
        ready: 1,
        kind: kind as u32,
        block: current.lane.block,
        thread: current.lane.thread,
        a,
        b,
        ..FaultRecord::EMPTY
    };
    if let Some(at) = at {
        record.locate(at);
    }
    current.machine.fault(&record)
}

const SCRATCH: u64 = 0;
const SCRATCH_BYTES: usize = 16;

#[track_caller]
pub(crate) fn scratch() -> u64 {
    shared(SCRATCH, SCRATCH_BYTES)
}

#[track_caller]
pub(crate) fn shared(id: u64, bytes: usize) -> u64 {
    current().machine.shared(id, bytes, Location::caller()) as u64
}

#[track_caller]
pub(crate) fn dynamic_shared() -> (u64, u64) {
    let (start, bytes) = current().machine.dynamic_shared();
    (start as u64, bytes as u64)
}
