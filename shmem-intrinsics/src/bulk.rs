//! put, get and put_signal through shared memory by bulk copies (`cp.async.bulk`, TMA), which one thread issues.
//!
//! The plain engine of [`put`](crate::put) needs many threads to fill a link. [`Engine`] needs one: it loads into a ring of
//! stages in shared memory and stores from there, both sides at once, and the block's registers and other warps stay free. Take it
//! where few blocks communicate; `shmem-perf put_bw` and `get_bw` measure both.
//!
//! | call | returns when | on sm_90 and later |
//! |---|---|---|
//! | [`put`](Engine::put) | as [`put`](fn@crate::put): the source may be written again | loads, stores, `cp.async.bulk.wait_group 0`, one tile sync |
//! | [`put_nbi`](Engine::put_nbi) | at once: [`flush`](Engine::flush), then the source may be written again; done after [`quiet`](Engine::quiet) | the same, no wait |
//! | [`put_signal`](Engine::put_signal) | as [`put_signal`](fn@crate::put_signal) | as put, then one release |
//! | [`get`](Engine::get) | the data is in place for every member | the same, the other way |
//! | [`flush`](Engine::flush), [`quiet`](Engine::quiet) | | `wait_group.read 0`, `wait_group 0` |
//!
//! Ordering: what `put`, `put_signal` and `get` move is complete when they return, so that fences, `quiet` and signals order
//! it as they do what the plain calls move. A `put_nbi` is ordered by the engine's own `quiet` alone, not by
//! [`quiet`](fn@crate::quiet), [`fence`](fn@crate::fence), a barrier or a later signal. Dropping an engine does what its `quiet` does.
//!
//! Bytes arrive in any order and pieces: wait on a signal, never on a word that an engine writes.
//!
//! What isn't aligned goes the plain way: the edges up to the first and behind the last whole 16 bytes, and all of a transfer whose two
//! sides lie differently to 16 bytes. So does everything before sm_90, with the same results.
//!
//! ```
//! use shmem::bulk::Engine;
//! use shmem::prelude::*;
//! shmem_sim::run(2, 1, 64, || {
//!     shared!(staging: [u8; 16 << 10]);
//!     let (dst, src) = (shmem_sim::symmetric::<f32>(1000), shmem_sim::symmetric::<f32>(1000));
//!     let (ready, peer) = (shmem_sim::signals(1).at(0), 1 - shmem::my_pe());
//!     for i in Block.strided(1000) {
//!         src.store(i, i as f32);
//!     }
//!     Block.sync();
//!     let mut engine = Engine::new(Block, staging);
//!     engine.put_signal(dst, src, ready.set(1), peer);
//!     shmem::wait_until(Block, ready, eq(1));
//!     assert_eq!(dst.load(999), 999.0);
//! }).unwrap();
//! ```

use crate::arch::{self, Extent};
use crate::fault::{FaultKind, check};
use crate::get::Destination;
use crate::global::Global;
use crate::rma::Source;
use crate::shared::Shared;
use crate::signal::Action;
use crate::sym::SymSlice;
use crate::team::{self, Peer, Target};
use crate::tile::InBlock;
use crate::{Pod, context};

/// Bytes of staging that an [`Engine`] needs at least. Tens of KiB fill a link.
pub const LEAST_STAGING: u64 = 512;

/// A stage has as many bytes as this part of the staging, within bounds.
const PARTS: u64 = 8;
const STAGE_LEAST: u64 = 128;
const STAGE_MOST: u64 = 16 << 10;
/// An mbarrier for each stage.
const STAGES_MOST: u64 = 16;
const ALIGN: u64 = 128;

/// The memory on this side of an [`Engine`]'s transfers: [`SymSlice`], [`Global`], [`Shared`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be copied in bulk",
    note = "bulk copies reach SymSlice, Global and Shared, of the other side's element"
)]
pub trait Memory<T: Pod, G: InBlock>: Source<T, G> + Destination<T, G> {}
impl<T: Pod, G: InBlock> Memory<T, G> for SymSlice<T> {}
impl<T: Pod, G: InBlock> Memory<T, G> for Global<T> {}
impl<T: Pod, G: InBlock> Memory<T, G> for Shared<T> {}

/// The stages, and how far the one thread that issues has come.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Address in shared memory of the mbarriers, one for each stage.
    pub(crate) barriers: u64,
    /// Address in shared memory of the first stage.
    pub(crate) stages: u64,
    /// Bytes of a stage, a multiple of 16.
    pub(crate) bytes: u32,
    /// Stages, at least 2.
    pub(crate) count: u32,
    /// The stage that is used next.
    #[cfg_attr(
        not(target_arch = "nvptx64"),
        expect(dead_code, reason = "the simulator stages nothing")
    )]
    pub(crate) next: u32,
    /// Parity of the phase of its mbarrier.
    #[cfg_attr(
        not(target_arch = "nvptx64"),
        expect(dead_code, reason = "the simulator stages nothing")
    )]
    pub(crate) parity: u32,
}

impl Ring {
    /// `bytes` from `start` on: mbarriers, then stages.
    #[inline(always)]
    fn cut(start: u64, bytes: u64) -> Self {
        let barriers = start.next_multiple_of(8);
        let stages = (barriers + 8 * STAGES_MOST).next_multiple_of(ALIGN);
        let room = start + bytes - stages;
        let each = ((room / PARTS) & !(ALIGN - 1)).clamp(STAGE_LEAST, STAGE_MOST);
        Self {
            barriers,
            stages,
            bytes: each as u32,
            count: (room / each).min(STAGES_MOST) as u32,
            next: 0,
            parity: 0,
        }
    }
}

/// Moves data by bulk copies through a block's shared memory. The [module](crate::bulk) has an example.
///
/// Every member of the tile makes its own and then the same calls. Several engines of one block each have a tile and staging of their own.
#[derive(Debug)]
pub struct Engine<G: InBlock> {
    tile: G,
    ring: Ring,
}

impl<G: InBlock> Engine<G> {
    /// An engine over `staging`, which is nobody else's until the engine is dropped: it holds mbarriers, and stages of up to
    /// 16 KiB. All members call it, after a sync where the memory was used before. Faults with `FaultKind::Staging` below
    /// [`LEAST_STAGING`] bytes.
    ///
    /// ```
    /// use shmem::bulk::Engine;
    /// use shmem::prelude::*;
    /// // An engine for each warp.
    /// shmem_sim::run(2, 1, 64, || {
    ///     shared!(staging: [u8; 2 * 4096]);
    ///     let (dst, src) = (shmem_sim::symmetric::<u32>(200), shmem_sim::symmetric::<u32>(200));
    ///     let mut engine = Engine::new(Warp, staging.chunk(Warp.id(), 4096));
    ///     engine.put(dst.chunk(Warp.id(), 100), src.chunk(Warp.id(), 100), 1 - shmem::my_pe());
    /// }).unwrap();
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn new<S: Pod>(tile: G, staging: Shared<S>) -> Self {
        let bytes = staging.len() * size_of::<S>() as u64;
        check(bytes >= LEAST_STAGING, FaultKind::Staging, bytes, LEAST_STAGING);
        let ring = Ring::cut(staging.start(), bytes);
        arch::bulk_begin(tile, &ring);
        Self { tile, ring }
    }

    /// As [`put`](fn@crate::put): copies `src` to `dst` at PE `to`, both of the same length in elements. All members call it.
    /// Returns when the source may be written again.
    ///
    /// Faults with `FaultKind::Length`, `FaultKind::Pe`, `FaultKind::TimeLimit`. PTX
    /// `cp.async.bulk.shared.global`, `cp.async.bulk.global.shared`; from [`Shared`] only the latter.
    ///
    /// ```
    /// use shmem::bulk::Engine;
    /// use shmem::prelude::*;
    /// shmem_sim::run(2, 1, 32, || {
    ///     shared!(staging: [u8; 4096]);
    ///     shared!(row: [u32; 100]);
    ///     let (dst, peer) = (shmem_sim::symmetric::<u32>(100), 1 - shmem::my_pe());
    ///     for i in Block.strided(100) {
    ///         row.store(i, i);
    ///     }
    ///     Block.sync();
    ///     let mut engine = Engine::new(Block, staging);
    ///     engine.put(dst, row, peer);
    ///     row.store(thread::index(), 0); // reusable
    /// }).unwrap();
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn put<T: Pod>(&mut self, dst: SymSlice<T>, src: impl Memory<T, G>, to: impl Target) {
        let (extent, peer) = prepare::<T>(dst.len(), Source::__len(src), to);
        let src = Source::__span(src);
        arch::bulk_put(self.tile, &mut self.ring, dst.offset(), src, extent, peer, true);
    }

    /// As [`put`](Self::put), but the source may be written again only after [`flush`](Self::flush), and only
    /// [`quiet`](Self::quiet) of this engine orders and completes it. In the engine's own context, whatever context `to` names.
    ///
    /// ```
    /// use shmem::bulk::Engine;
    /// use shmem::prelude::*;
    /// shmem_sim::run(2, 1, 32, || {
    ///     shared!(staging: [u8; 4096]);
    ///     let (dst, src) = (shmem_sim::symmetric::<u32>(256), shmem_sim::symmetric::<u32>(256));
    ///     let mut engine = Engine::new(Block, staging);
    ///     for i in 0..2 {
    ///         engine.put_nbi(dst.chunk(i, 128), src.chunk(i, 128), 1 - shmem::my_pe());
    ///     }
    ///     engine.flush();
    ///     src.store(thread::index(), 1); // reusable, the puts are not done yet
    ///     engine.quiet();
    /// }).unwrap();
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn put_nbi<T: Pod>(&mut self, dst: SymSlice<T>, src: impl Memory<T, G>, to: impl Target) {
        let (extent, peer) = prepare::<T>(dst.len(), Source::__len(src), to);
        let (src, peer) = (
            Source::__span(src),
            Peer {
                ctx: context::BULK,
                ..peer
            },
        );
        arch::bulk_put(self.tile, &mut self.ring, dst.offset(), src, extent, peer, false);
    }

    /// As [`put`](Self::put), then applies `action` at `to`: whoever observes the signal also observes the data. Nothing is
    /// promised for earlier puts. The [module](crate::bulk) has an example.
    #[inline(always)]
    #[track_caller]
    pub fn put_signal<T: Pod>(
        &mut self,
        dst: SymSlice<T>,
        src: impl Memory<T, G>,
        action: impl Action,
        to: impl Target,
    ) {
        let (extent, peer) = prepare::<T>(dst.len(), Source::__len(src), to);
        let src = Source::__span(src);
        arch::bulk_put_signal(self.tile, &mut self.ring, dst.offset(), src, extent, action, peer);
    }

    /// As [`get`](fn@crate::get): copies `src` at PE `from` to `dst` here, both of the same length in elements. All members call
    /// it; at return the data is in place for each of them. What others wrote to `src`, and what the tile did with `dst`, must
    /// be ordered before the call.
    ///
    /// Faults with `FaultKind::Length`, `FaultKind::Pe`, `FaultKind::TimeLimit`. PTX as [`put`](Self::put); into [`Shared`] only
    /// the load.
    ///
    /// ```
    /// use shmem::bulk::Engine;
    /// use shmem::prelude::*;
    /// shmem_sim::run(2, 1, 32, || {
    ///     shared!(staging: [u8; 4096]);
    ///     let src = shmem_sim::symmetric_with::<u32>(100, |pe, i| 1000 * pe + i as u32);
    ///     let (dst, peer) = (shmem_sim::global::<u32>(100), 1 - shmem::my_pe());
    ///     let mut engine = Engine::new(Block, staging);
    ///     engine.get(dst, src, peer);
    ///     assert_eq!(dst.load(99), 1000 * peer + 99);
    /// }).unwrap();
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn get<T: Pod>(&mut self, mut dst: impl Memory<T, G>, src: SymSlice<T>, from: impl Target) {
        let (extent, peer) = prepare::<T>(Destination::__len(&dst), src.len(), from);
        let dst = Destination::__span(&mut dst);
        arch::bulk_get(self.tile, &mut self.ring, dst, src.offset(), extent, peer);
    }

    /// The sources of this engine's earlier nbi puts may be written again. Completes nothing. All members call it.
    /// [`put_nbi`](Self::put_nbi) has an example.
    ///
    /// PTX `cp.async.bulk.wait_group.read 0`.
    #[inline(always)]
    #[track_caller]
    pub fn flush(&mut self) {
        arch::bulk_flush(self.tile, &self.ring);
    }

    /// All that this engine has moved is done: every PE can see it. Nothing else is: that is [`quiet`](fn@crate::quiet)'s. All
    /// members call it. [`put_nbi`](Self::put_nbi) has an example.
    ///
    /// PTX `cp.async.bulk.wait_group 0`, then `fence.sc.sys` by the leader.
    #[inline(always)]
    #[track_caller]
    pub fn quiet(&mut self) {
        arch::bulk_quiet(self.tile, &self.ring);
    }
}

/// The staging is read until the copies are complete, and the block may end behind this.
impl<G: InBlock> Drop for Engine<G> {
    #[inline(always)]
    fn drop(&mut self) {
        arch::bulk_end(self.tile, &self.ring);
    }
}

#[inline(always)]
#[track_caller]
fn prepare<T: Pod>(dst: u64, src: u64, peer: impl Target) -> (Extent, Peer) {
    check(dst == src, FaultKind::Length, dst, src);
    (Extent::of::<T>(dst), team::peer(peer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_staging_holds_its_parts() {
        for start in [0, 16, 100, 4096] {
            for bytes in [LEAST_STAGING, 513, 1000, 4096, 16 << 10, 48 << 10, 227 << 10] {
                let ring = Ring::cut(start, bytes);
                let (each, count) = (u64::from(ring.bytes), u64::from(ring.count));
                assert!(
                    ring.barriers >= start && ring.barriers + 8 * count <= ring.stages,
                    "{ring:?}"
                );
                assert!(ring.stages + each * count <= start + bytes, "{start} {bytes}: {ring:?}");
                assert!(
                    count >= 2 && each.is_multiple_of(16) && ring.stages.is_multiple_of(16),
                    "{start} {bytes}: {ring:?}"
                );
            }
        }
        let ring = Ring::cut(0, (128 << 10) + 128);
        assert_eq!((ring.bytes, ring.count), (16 << 10, 8));
    }
}
