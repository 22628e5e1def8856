//! reduce_scatter: everyone's elements, combined; to each its part.

use super::boxes::{Exchange, Shares, pieces};
use super::choice::{Call, packets};
use super::lines::Pass;
use super::op::ReduceOp;
use super::reduce::{combine_all, in_passes, swap_and_combine};
use super::{Collective, begin, bytes_of, check_apart, pieces_of};
use crate::fault::{FaultKind, check};
use crate::team::Team;
use crate::tile::Tile;
use crate::{Pod, SymSlice};
use core::any::type_name;

impl Collective {
    /// Part i of every member's `src`, combined by `op` as [`reduce`](Self::reduce) does it, in the `dst` of member i. `src` has as
    /// many parts as the team has members, each as long as `dst`. In place where `dst` is the own part of `src`.
    ///
    /// NVSHMEM `nvshmem_TYPE_sum_reducescatter`, .., MPI `MPI_Reduce_scatter_block`. See the [module](crate::collective) for
    /// who calls, and for faults.
    ///
    /// ```
    /// use shmem::collective::Sum;
    /// use shmem::prelude::*;
    /// shmem_sim::run(2, 1, 32, || {
    ///     let (dst, src) = (shmem_sim::symmetric::<u32>(4), shmem_sim::symmetric::<u32>(8));
    ///     for i in Block.strided(8) {
    ///         src.store(i, i + shmem::my_pe());
    ///     }
    ///     shmem_sim::collective().reduce_scatter(Block, shmem::world(), Sum, dst, src);
    ///     assert_eq!(dst.load(3), 2 * (4 * shmem::my_pe() + 3) + 1);
    /// }).unwrap();
    /// ```
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    #[track_caller]
    pub fn reduce_scatter<T: Pod, O: ReduceOp<T>, G: Tile>(
        self,
        tile: G,
        team: Team,
        _op: O,
        dst: SymSlice<T>,
        src: SymSlice<T>,
    ) {
        let n = team.n_pes();
        check(
            dst.len() * u64::from(n) == src.len(),
            FaultKind::Length,
            dst.len() * u64::from(n),
            src.len(),
        );
        let bytes = bytes_of(dst);
        begin::<G, T>(self, tile, team, "reduce_scatter", type_name::<O>(), dst.len(), 0);
        if bytes == 0 {
            return;
        }
        let own = src.chunk(team.my_pe(), dst.len());
        check_apart(dst, src, Some(own));
        let exchange = Exchange::begin(tile, team);
        if packets(Call::ReduceScatter, n, bytes, self.algorithm) && exchange.usable() {
            let (from, to) = (pieces_of(own), pieces_of(dst));
            let count = pieces(bytes);
            if exchange.is_pair(tile, count) {
                let (i, theirs) = (tile.rank(), pieces_of(src.chunk(exchange.other(), dst.len())));
                if i < count {
                    // SAFETY: the parts have a piece i.
                    unsafe { swap_and_combine::<T, O>(exchange, i, theirs.load::<T>(i), &from, &to) };
                }
                exchange.end(tile);
                return;
            }
            for (k, i) in Shares::new(tile, n - 1, count) {
                let part = pieces_of(src.chunk(exchange.ahead(k + 1), dst.len()));
                // SAFETY: the part has a piece i.
                exchange.send(k + 1, i, unsafe { part.load::<T>(i) });
            }
            // SAFETY: both have that many pieces.
            unsafe { combine_all::<T, O, G>(tile, exchange, &from, &to, count) };
            exchange.end(tile);
            return;
        }
        let pass = Pass {
            team,
            from: own.offset(),
            to: dst.offset(),
            bytes,
            first: 0,
            count: 0,
        };
        in_passes::<T, O, G>(tile, exchange, pass, false);
    }
}
