//! alltoall: from everyone the part for oneself.

use super::boxes::{Exchange, exchange_parts, pieces};
use super::choice::{Call, packets};
use super::{Collective, begin, bytes_of, check_apart, meet, pieces_of};
use crate::fault::{FaultKind, check};
use crate::team::Team;
use crate::tile::Tile;
use crate::{Pod, SymSlice, arch, put_nbi};

impl Collective {
    /// Part i of every member's `src` in the `dst` of member i, in the order of the members' indices. Both are of one length, a
    /// multiple of the team's size. Not in place.
    ///
    /// OpenSHMEM `shmem_alltoall` (9.9.7), NVSHMEM `nvshmem_TYPE_alltoall`. See the [module](crate::collective) for who
    /// calls, and for faults.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// shmem_sim::run(2, 1, 32, || {
    ///     let (dst, src) = (shmem_sim::symmetric::<u32>(2), shmem_sim::symmetric::<u32>(2));
    ///     let me = shmem::my_pe();
    ///     if Block.leader() {
    ///         src.store(0, 10 * me);
    ///         src.store(1, 10 * me + 1);
    ///     }
    ///     shmem_sim::collective().alltoall(Block, shmem::world(), dst, src);
    ///     assert_eq!([dst.load(0), dst.load(1)], [me, 10 + me]);
    /// }).unwrap();
    /// ```
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    #[track_caller]
    pub fn alltoall<T: Pod, G: Tile>(self, tile: G, team: Team, dst: SymSlice<T>, src: SymSlice<T>) {
        let n = team.n_pes();
        check(dst.len() == src.len(), FaultKind::Length, dst.len(), src.len());
        let part = src.len() / u64::from(n);
        check(
            part * u64::from(n) == src.len(),
            FaultKind::Length,
            part * u64::from(n),
            src.len(),
        );
        check_apart(dst, src, None);
        let bytes = bytes_of(src.chunk(0, part));
        begin::<G, T>(self, tile, team, "alltoall", "", part, 0);
        if bytes == 0 {
            return;
        }
        let exchange = Exchange::begin(tile, team);
        if packets(Call::Alltoall, n, bytes, self.algorithm) && exchange.usable() {
            let (from, to) = (pieces_of(src.chunk(0, part)), pieces_of(dst.chunk(0, part)));
            // SAFETY: both have that many parts of so many pieces.
            unsafe { exchange_parts::<T, G>(tile, exchange, |index| from.part(index), &to, pieces(bytes)) };
            exchange.end(tile);
            return;
        }
        in_one_pass(tile, exchange, dst, src, part);
    }
}

#[inline(always)]
#[track_caller]
fn in_one_pass<T: Pod, G: Tile>(tile: G, exchange: Exchange, dst: SymSlice<T>, src: SymSlice<T>, part: u64) {
    exchange.meet_first(tile);
    let own = dst.chunk(exchange.me, part);
    let mut k = 0;
    while k < exchange.n {
        let index = exchange.ahead(k);
        put_nbi(tile, own, src.chunk(index, part), exchange.team.pe(index));
        k = arch::next(k);
    }
    meet::<G, true>(tile, exchange.team);
}
