//! fcollect: everyone's elements to everyone.

use super::boxes::{Exchange, exchange_parts, pieces};
use super::choice::{Call, packets};
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
        if packets(Call::Fcollect, n, bytes, self.algorithm) && exchange.usable() {
            let to = pieces_of(dst.chunk(0, src.len()));
            // SAFETY: `dst` has a part of so many pieces for each member.
            unsafe { exchange_parts::<T, G>(tile, exchange, |_| pieces_of(src), &to, pieces(bytes)) };
            exchange.end(tile);
            return;
        }
        in_one_pass(tile, exchange, own, src);
    }
}

#[inline(always)]
#[track_caller]
fn in_one_pass<T: Pod, G: Tile>(tile: G, exchange: Exchange, own: SymSlice<T>, src: SymSlice<T>) {
    exchange.meet_first(tile);
    let mut k = u32::from(own.offset() == src.offset());
    while k < exchange.n {
        put_nbi(tile, own, src, exchange.team.pe(exchange.ahead(k)));
        k = arch::next(k);
    }
    meet::<G, true>(tile, exchange.team);
}
