//! reduce: everyone's elements, combined, to everyone.

use super::boxes::{Exchange, pieces};
use super::choice::{Call, packets, two_shot};
use super::lines::Pass;
use super::op::ReduceOp;
use super::{Collective, begin, bytes_of, check_apart, meet, pieces_of};
use crate::fault::{FaultKind, check};
use crate::team::Team;
use crate::tile::Tile;
use crate::{Pod, SymSlice, quiet};
use core::any::type_name;

impl Collective {
    /// The elements of every member's `src`, combined by `op` one by one in the order of the members' indices, in every
    /// member's `dst`. In place where `dst` is `src`.
    ///
    /// Integers wrap. Halves are converted to f32, combined, and rounded once at the end. Floats are not reordered: infinities and
    /// NaNs come out as adding one after the other makes them, with the NaN of the machine. See the [`ReduceOp`]s.
    ///
    /// OpenSHMEM `shmem_sum_reduce`, .. (9.9.8), NVSHMEM `nvshmem_TYPE_sum_reduce`, .. and their `_warp` and `_block` forms, MPI
    /// `MPI_Allreduce`. See the [module](crate::collective) for who calls, and for faults.
    ///
    /// ```
    /// use shmem::collective::{Max, Sum};
    /// use shmem::prelude::*;
    /// shmem_sim::run(3, 1, 32, || {
    ///     let (all, world) = (shmem_sim::collective(), shmem::world());
    ///     let (dst, src) = (shmem_sim::symmetric::<f32>(100), shmem_sim::symmetric::<f32>(100));
    ///     for i in Block.strided(100) {
    ///         src.store(i, (shmem::my_pe() * i) as f32);
    ///     }
    ///     all.reduce(Block, world, Sum, dst, src);
    ///     assert_eq!(dst.load(10), 30.0);
    ///     all.reduce(Block, world, Max, src, src);
    ///     assert_eq!(src.load(10), 20.0);
    /// }).unwrap();
    /// ```
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    #[track_caller]
    pub fn reduce<T: Pod, O: ReduceOp<T>, G: Tile>(
        self,
        tile: G,
        team: Team,
        _op: O,
        dst: SymSlice<T>,
        src: SymSlice<T>,
    ) {
        check(dst.len() == src.len(), FaultKind::Length, dst.len(), src.len());
        check_apart(dst, src, Some(src));
        let bytes = bytes_of(src);
        begin::<G, T>(self, tile, team, "reduce", type_name::<O>(), src.len(), 0);
        if bytes == 0 {
            return;
        }
        let exchange = Exchange::begin(tile, team);
        let n = team.n_pes();
        if packets(Call::Reduce, n, bytes, self.algorithm) && exchange.usable() {
            let (from, to) = (pieces_of(src), pieces_of(dst));
            // SAFETY: both have that many pieces.
            unsafe { all_to_all::<T, O, G>(tile, exchange, &from, &to, pieces(bytes)) };
            exchange.end(tile);
            return;
        }
        let taken = bytes.saturating_mul((n - 1).into());
        // In place, nobody else reads the part that this PE combines.
        let puts = two_shot(Call::Reduce, n, taken, self.algorithm) || dst.offset() == src.offset();
        let mut pass = Pass {
            team,
            from: src.offset(),
            to: dst.offset(),
            bytes,
            first: exchange.me,
            count: 0,
        };
        if puts {
            pass = own_part(pass, exchange);
            pass.count = n;
        }
        in_passes::<T, O, G>(tile, exchange, pass, puts);
    }
}

#[inline(always)]
#[track_caller]
pub(super) fn in_passes<T: Pod, O: ReduceOp<T>, G: Tile>(tile: G, exchange: Exchange, pass: Pass, puts: bool) {
    exchange.meet_first(tile);
    pass.run::<T, O, G>(tile);
    // What was put is done before they meet again.
    if puts {
        quiet(tile);
    }
    meet::<G, false>(tile, exchange.team);
}

/// Sends this PE's pieces to all others, and combines them with theirs. A thread sends the pieces that it will write: in place,
/// nobody else reads them.
///
/// # Safety
/// Both have so many pieces.
#[inline(always)]
#[track_caller]
unsafe fn all_to_all<T: Pod, O: ReduceOp<T>, G: Tile>(
    tile: G,
    exchange: Exchange,
    from: &super::boxes::Pieces,
    to: &super::boxes::Pieces,
    count: u32,
) {
    if exchange.idles(tile, count) {
        return;
    }
    let (mut i, size) = (tile.rank(), tile.size());
    if exchange.is_pair(tile, count) {
        if i < count {
            // SAFETY: the caller's.
            unsafe { swap_and_combine::<T, O>(exchange, i, from.load::<T>(i), from, to) };
        }
        return;
    }
    while i < count {
        // SAFETY: as above.
        exchange.send_to_all(i, unsafe { from.load::<T>(i) });
        i += size;
    }
    // SAFETY: the caller's.
    unsafe { combine_all::<T, O, G>(tile, exchange, from, to, count) };
}

/// Piece `i` of two members: `piece` goes to the other, and what comes from it is combined with this one's own.
///
/// # Safety
/// Both have a piece `i`.
#[inline(always)]
#[track_caller]
pub(super) unsafe fn swap_and_combine<T: Pod, O: ReduceOp<T>>(
    exchange: Exchange,
    i: u32,
    piece: u64,
    from: &super::boxes::Pieces,
    to: &super::boxes::Pieces,
) {
    // SAFETY: the caller's.
    let own = unsafe { from.load::<T>(i) };
    let other = exchange.swap(i, piece);
    let (a, b) = if exchange.me == 0 { (own, other) } else { (other, own) };
    let sum = O::__narrow(O::__combine(O::__widen(a), O::__widen(b)));
    // SAFETY: as above.
    unsafe { to.store::<T>(i, sum) };
}

/// Combines this PE's pieces with what all others have sent.
///
/// # Safety
/// Both have so many pieces.
#[inline(always)]
#[track_caller]
pub(super) unsafe fn combine_all<T: Pod, O: ReduceOp<T>, G: Tile>(
    tile: G,
    exchange: Exchange,
    from: &super::boxes::Pieces,
    to: &super::boxes::Pieces,
    count: u32,
) {
    let (mut i, size) = (tile.rank(), tile.size());
    while i < count {
        // SAFETY: the caller's.
        unsafe { to.store::<T>(i, combined::<T, O>(exchange, i, from.load::<T>(i))) };
        i += size;
    }
}

/// Piece `i` of all members, combined in the order of their indices.
#[inline(always)]
#[track_caller]
fn combined<T: Pod, O: ReduceOp<T>>(exchange: Exchange, i: u32, own: u64) -> u64 {
    let mut sum = O::__widen(0);
    exchange.gather(i, own, |first, piece| {
        let wide = O::__widen(piece);
        sum = if first { wide } else { O::__combine(sum, wide) };
    });
    O::__narrow(sum)
}

/// The part of a pass that falls to this PE: whole lines, as far as the alignment allows.
#[inline(always)]
pub(super) fn own_part(pass: Pass, exchange: Exchange) -> Pass {
    let part = pass.bytes.div_ceil(exchange.n.into()).next_multiple_of(16);
    let start = (u64::from(exchange.me) * part).min(pass.bytes);
    Pass {
        from: pass.from + start,
        to: pass.to + start,
        bytes: part.min(pass.bytes - start),
        ..pass
    }
}
