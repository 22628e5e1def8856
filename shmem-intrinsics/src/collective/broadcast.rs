//! broadcast: the root's elements to everyone.

use super::boxes::{Exchange, pieces};
use super::choice::{Call, packets, two_shot};
use super::{Collective, begin, bytes_of, check_apart, check_root, meet, pieces_of};
use crate::fault::{FaultKind, check};
use crate::team::Team;
use crate::tile::Tile;
use crate::{Pod, SymSlice, arch, get, get_nbi, put_nbi};

impl Collective {
    /// `src` of the member of index `root`, in `dst` of every member, the root too. In place where `dst` is `src`.
    ///
    /// OpenSHMEM `shmem_broadcast` (9.9.5), NVSHMEM `nvshmem_TYPE_broadcast` and its `_warp` and `_block` forms. See the
    /// [module](crate::collective) for who calls, and for faults.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// shmem_sim::run(3, 1, 64, || {
    ///     let x = shmem_sim::symmetric::<u32>(100);
    ///     for i in Block.strided(100) {
    ///         x.store(i, 1000 * shmem::my_pe() + i);
    ///     }
    ///     shmem_sim::collective().broadcast(Block, shmem::world(), x, x, 2);
    ///     assert_eq!(x.load(99), 2099);
    /// }).unwrap();
    /// ```
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    #[track_caller]
    pub fn broadcast<T: Pod, G: Tile>(self, tile: G, team: Team, dst: SymSlice<T>, src: SymSlice<T>, root: u32) {
        check(dst.len() == src.len(), FaultKind::Length, dst.len(), src.len());
        check_root(team, root);
        check_apart(dst, src, Some(src));
        let bytes = bytes_of(src);
        begin::<G, T>(self, tile, team, "broadcast", "", src.len(), root);
        if bytes == 0 {
            return;
        }
        let exchange = Exchange::begin(tile, team);
        if packets(Call::Broadcast, team.n_pes(), bytes, self.algorithm) && exchange.usable() {
            by_packets(tile, exchange, dst, src, root);
            exchange.end(tile);
            return;
        }
        let two = two_shot(Call::Broadcast, team.n_pes(), bytes, self.algorithm);
        in_passes(tile, exchange, dst, src, root, two);
    }
}

#[inline(always)]
#[track_caller]
fn in_passes<T: Pod, G: Tile>(tile: G, exchange: Exchange, dst: SymSlice<T>, src: SymSlice<T>, root: u32, two: bool) {
    let team = exchange.team;
    exchange.meet_first(tile);
    if exchange.me == root && dst.offset() != src.offset() {
        put_nbi(tile, dst, src, team.pe(root));
    }
    if two {
        // Each fetches a part from the root, and hands it on.
        let (me, n) = (u64::from(exchange.me), u64::from(exchange.n));
        let part = src.len().div_ceil(n).next_multiple_of(16);
        let range = (me * part).min(src.len())..((me + 1) * part).min(src.len());
        let (own, theirs) = (dst.slice(range.clone()), src.slice(range));
        if exchange.me != root {
            get(tile, own, theirs, team.pe(root));
        }
        let from = if exchange.me == root { theirs } else { own };
        let mut k = 1;
        while k < exchange.n {
            let index = exchange.ahead(k);
            if index != root {
                put_nbi(tile, own, from, team.pe(index));
            }
            k = arch::next(k);
        }
    } else if exchange.me != root {
        get_nbi(tile, dst, src, team.pe(root));
    }
    meet::<G, true>(tile, team);
}

/// One exchange. The others send empty packets: the epoch rule wants to hear from everybody.
#[inline(always)]
#[track_caller]
pub(super) fn by_packets<T: Pod, G: Tile>(tile: G, exchange: Exchange, dst: SymSlice<T>, src: SymSlice<T>, root: u32) {
    let (from, to) = (pieces_of(src), pieces_of(dst));
    let (count, size) = (pieces(from.bytes.into()), tile.size());
    if exchange.idles(tile, count) {
        return;
    }
    let copies = exchange.me == root && dst.offset() != src.offset();
    let mut i = tile.rank();
    if exchange.is_pair(tile, count) {
        if i < count {
            // SAFETY: both have a piece i. The root's own is what it sends.
            unsafe {
                let piece = if exchange.me == root { from.load::<T>(i) } else { 0 };
                let other = exchange.swap(i, piece);
                if exchange.me != root || copies {
                    to.store::<T>(i, if exchange.me == root { piece } else { other });
                }
            }
        }
        return;
    }
    if exchange.me == root {
        while i < count {
            // SAFETY: both have a piece i.
            unsafe {
                let piece = from.load::<T>(i);
                exchange.send_to_all(i, piece);
                if copies {
                    to.store::<T>(i, piece);
                }
            }
            i += size;
        }
    } else {
        for k in tile.strided(exchange.n - 1) {
            exchange.send(k + 1, 0, 0);
        }
        let d = exchange.box_of(root);
        while i < count {
            // SAFETY: as above.
            unsafe { to.store::<T>(i, exchange.receive(d, i)) };
            i += size;
        }
    }
    exchange.receive_empty(tile, root);
}
