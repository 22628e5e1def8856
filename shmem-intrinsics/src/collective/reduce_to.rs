//! reduce to a root: everyone's elements, combined, to one member.

use super::boxes::{Exchange, pieces};
use super::choice::{Call, packets, two_shot};
use super::lines::Pass;
use super::op::ReduceOp;
use super::reduce::{combine_all, in_passes, own_part};
use super::{Collective, begin, bytes_of, check_apart, check_root, pieces_of};
use crate::fault::{FaultKind, check};
use crate::team::Team;
use crate::tile::Tile;
use crate::{Pod, SymSlice};
use core::any::type_name;

impl Collective {
    /// As [`reduce`](Self::reduce), in `dst` of the member of index `root` alone; that of the others stays as it is.
    ///
    /// MPI `MPI_Reduce`. See the [module](crate::collective) for who calls, and for faults.
    ///
    /// ```
    /// use shmem::collective::Sum;
    /// use shmem::prelude::*;
    /// shmem_sim::run(3, 1, 32, || {
    ///     let (dst, src) = (shmem_sim::symmetric::<u32>(1), shmem_sim::symmetric::<u32>(1));
    ///     src.store(0, 1 + shmem::my_pe());
    ///     shmem_sim::collective().reduce_to(Block, shmem::world(), Sum, dst, src, 1);
    ///     if shmem::my_pe() == 1 {
    ///         assert_eq!(dst.load(0), 6);
    ///     }
    /// }).unwrap();
    /// ```
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    #[track_caller]
    pub fn reduce_to<T: Pod, O: ReduceOp<T>, G: Tile>(
        self,
        tile: G,
        team: Team,
        _op: O,
        dst: SymSlice<T>,
        src: SymSlice<T>,
        root: u32,
    ) {
        check(dst.len() == src.len(), FaultKind::Length, dst.len(), src.len());
        check_root(team, root);
        check_apart(dst, src, Some(src));
        let bytes = bytes_of(src);
        begin::<G, T>(self, tile, team, "reduce_to", type_name::<O>(), src.len(), root);
        if bytes == 0 {
            return;
        }
        let exchange = Exchange::begin(tile, team);
        let n = team.n_pes();
        if packets(Call::ReduceTo, n, bytes, self.algorithm) && exchange.usable() {
            let (from, to, count) = (pieces_of(src), pieces_of(dst), pieces(bytes));
            if exchange.me == root {
                exchange.send_empty(tile, root);
                // SAFETY: both have that many pieces.
                unsafe { combine_all::<T, O, G>(tile, exchange, &from, &to, count) };
            } else {
                let k = exchange.distance(root);
                let (mut i, size) = (tile.rank(), tile.size());
                while i < count {
                    // SAFETY: it has a piece i.
                    unsafe { exchange.send(k, i, from.load::<T>(i)) };
                    i += size;
                }
                exchange.send_empty(tile, root);
                exchange.receive_empty(tile, exchange.me);
            }
            exchange.end(tile);
            return;
        }
        let mut pass = Pass {
            team,
            from: src.offset(),
            to: dst.offset(),
            bytes,
            first: root,
            count: 0,
        };
        let taken = bytes.saturating_mul((n - 1).into());
        let puts = two_shot(Call::ReduceTo, n, taken, self.algorithm) || dst.offset() == src.offset();
        if puts {
            pass = own_part(pass, exchange);
            pass.count = 1;
        } else if exchange.me != root {
            pass.bytes = 0;
        }
        in_passes::<T, O, G>(tile, exchange, pass, puts);
    }
}
