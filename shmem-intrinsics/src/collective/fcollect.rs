//! fcollect: everyone's elements to everyone.

use super::boxes::{Exchange, Shares, pieces};
use super::choice::{Algorithm, Call, choose};
use super::{Collective, begin, bytes_of, check_apart, meet, pieces_of};
use crate::fault::{FaultKind, check};
use crate::team::Team;
use crate::tile::Tile;
use crate::{Pod, SymSlice, arch, put_nbi};

impl Collective {
    /// `src` of every member in `dst` of every member, in the order of their indices: `dst` is as long as all of them
    /// together. In place where `src` is the own part of `dst`.
    ///
    /// OpenSHMEM `shmem_fcollect` (9.9.6), NVSHMEM `nvshmem_TYPE_fcollect`, MPI `MPI_Allgather`. See the
    /// [module](crate::collective) for who calls, and for faults.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// shmem_sim::run(3, 1, 32, || {
    ///     let (dst, src) = (shmem_sim::symmetric::<u32>(3), shmem_sim::symmetric::<u32>(1));
    ///     src.store(0, 10 + shmem::my_pe());
    ///     shmem_sim::collective().fcollect(Block, shmem::world(), dst, src);
    ///     assert_eq!([dst.load(0), dst.load(1), dst.load(2)], [10, 11, 12]);
    /// }).unwrap();
    /// ```
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    #[track_caller]
    pub fn fcollect<T: Pod, G: Tile>(self, tile: G, team: Team, dst: SymSlice<T>, src: SymSlice<T>) {
        let n = team.n_pes();
        check(
            dst.len() == src.len() * u64::from(n),
            FaultKind::Length,
            dst.len(),
            src.len() * u64::from(n),
        );
        let bytes = bytes_of(src);
        begin::<G, T>(self, tile, team, "fcollect", "", src.len(), 0);
        if bytes == 0 {
            return;
        }
        let own = dst.chunk(team.my_pe(), src.len());
        let in_place = own.offset() == src.offset();
        if !in_place {
            check_apart(dst, src, None);
        }
        let exchange = Exchange::begin(tile, team);
        let all = bytes * u64::from(n - 1);
        let algorithm = choose(Call::Fcollect, n, bytes, all, self.algorithm);
        if algorithm == Algorithm::Packets && exchange.usable() {
            let (from, mine) = (pieces_of(src), pieces_of(own));
            let count = pieces(bytes);
            for (k, i) in Shares::new(tile, n, count) {
                // SAFETY: both have a piece i.
                unsafe {
                    let piece = from.load::<T>(i);
                    // Its own part comes last.
                    if k + 1 < n {
                        exchange.send(k + 1, i, piece);
                    } else if !in_place {
                        mine.store::<T>(i, piece);
                    }
                }
            }
            for (d, i) in Shares::new(tile, n - 1, count) {
                let to = pieces_of(dst.chunk(exchange.sender(d), src.len()));
                // SAFETY: the part has a piece i.
                unsafe { to.store::<T>(i, exchange.receive(d, i)) };
            }
            exchange.end(tile);
            return;
        }
        meet::<G, false>(tile, team);
        exchange.empty(tile);
        let mut k = u32::from(in_place);
        while k < n {
            put_nbi(tile, own, src, team.pe(exchange.ahead(k)));
            k = arch::next(k);
        }
        meet::<G, true>(tile, team);
    }
}
