//! fence, quiet, flush: what comes before what, and when it is done. The contract is docs/src/ordering.md. These are of the
//! default context; others have them as methods of [`Ctx`](crate::Ctx).
//!
//! | call | afterwards | PTX |
//! |---|---|---|
//! | [`fence`] | later operations to a PE take effect there behind the earlier ones | `fence.acq_rel.sys` by every member |
//! | [`flush`] | sources of nbi puts may be written again | tile sync only |
//! | [`quiet`] | every earlier operation is done | `fence.sc.sys` by the leader, syncs around |
//! | [`quiet_visible`] | and every PE sees it, over a network too | the same |

use crate::arch;
use crate::context;
use crate::network;
use crate::tile::Tile;

/// Puts, signals and stores to symmetric memory that the tile made before the fence take effect at each PE ahead of those
/// that it makes to that PE after. Completes nothing. All members call it.
///
/// OpenSHMEM `shmem_fence`, NVSHMEM `nvshmem_fence`.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 32, || {
///     let (data, ready) = (shmem_sim::symmetric::<u32>(32), shmem_sim::signals(1).at(0));
///     let peer = 1 - shmem::my_pe();
///     shmem::p(data.at(thread::index()), 9, peer);
///     shmem::fence(Block);
///     if Block.leader() {
///         shmem::signal_op(ready.set(1), peer);
///     }
///     shmem::wait_until(Block, ready, eq(1));
///     assert_eq!(data.load(thread::index()), 9);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn fence<G: Tile>(tile: G) {
    arch::fence(tile, context::DEFAULT);
}

/// Everything that the tile issued before is done: over load/store every PE can see it. All members call it.
///
/// OpenSHMEM `shmem_quiet`, NVSHMEM `nvshmem_quiet`.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 1, || {
///     let x = shmem_sim::symmetric::<u32>(2);
///     shmem::p(x.at(0), 1, 0);
///     shmem::quiet(Thread);
///     shmem::p(x.at(1), 1, 1); // whoever sees this finds the first one done
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn quiet<G: Tile>(tile: G) {
    arch::quiet(tile, context::DEFAULT);
}

/// The sources of the tile's earlier nbi puts may be written again. Orders and completes nothing else. All members call it.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 32, || {
///     let (dst, src) = (shmem_sim::symmetric::<u32>(32), shmem_sim::symmetric::<u32>(32));
///     shmem::put_nbi(Warp, dst, src, 1 - shmem::my_pe());
///     shmem::flush(Warp);
///     src.store(Warp.rank(), 5);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn flush<G: Tile>(tile: G) {
    arch::flush(tile, context::DEFAULT);
}

/// As [`quiet`], and every PE sees what was issued, whichever way it looks. All members call it.
///
/// [`quiet`] does that over load and store. Over a network it waits until targets have acknowledged: then only later operations
/// to that PE, and whoever observes them, are sure to see the earlier ones. This one also waits for a read from each PE that was
/// issued to, which pushes what came before it into memory. No counterpart in OpenSHMEM.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 1, || {
///     let x = shmem_sim::symmetric::<u32>(2);
///     let me = shmem::my_pe();
///     shmem::p(x.at(me), 1, 1 - me);
///     shmem::quiet_visible(Thread);
///     assert_eq!(shmem::g(x.at(me), 1 - me), 1);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn quiet_visible<G: Tile>(tile: G) {
    arch::quiet_visible(tile, context::DEFAULT);
}

/// For the host's own kernels: what earlier kernels gave to the network, in any context, is in memory. All members call it.
#[doc(hidden)]
#[inline(always)]
#[track_caller]
pub fn __complete<G: Tile>(tile: G) {
    if network::present() {
        network::quiet_all(tile);
        tile.sync();
    }
}
