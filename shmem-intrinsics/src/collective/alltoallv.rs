//! alltoallv: from everyone a part of its own length.

use super::{Collective, begin, bytes_of, meet};
use crate::fault::{FaultKind, check};
use crate::team::Team;
use crate::tile::Tile;
use crate::{KernelArg, Pod, SymSlice, Zeroable, arch, g, get_nbi};

/// Elements `start..start + len` of an object.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The first.
    pub start: u64,
    /// How many.
    pub len: u64,
}

// SAFETY: two words; its size is its alignment.
unsafe impl Zeroable for Part {}
// SAFETY: as above.
unsafe impl Pod for Part {}
// SAFETY: plain bits, laid out alike on both sides.
unsafe impl KernelArg for Part {}

impl Collective {
    /// Part `sends[i]` of every member's `src` in part `receives[j]` of member i's `dst`, where j is the sender's index. Each
    /// member fills in its own `sends` and `receives`, one for each member, before the call; a part that is sent is as long as
    /// the one it is received in. The parts of `dst` are apart. Not in place.
    ///
    /// MPI `MPI_Alltoallv`. Receivers read the senders' lists and data, so that it costs two barriers and two reads. See the
    /// [module](crate::collective) for who calls, and for faults; `FaultKind::Length` also where a sender's part is of another
    /// length (`b`) than the receiver's (`a`), and `FaultKind::Range` where one is not inside.
    ///
    /// ```
    /// use shmem::collective::Part;
    /// use shmem::prelude::*;
    /// // PE 0 gives PE 1 three elements, and everything else is empty.
    /// shmem_sim::run(2, 1, 32, || {
    ///     let (dst, src) = (shmem_sim::symmetric::<u32>(8), shmem_sim::symmetric::<u32>(8));
    ///     let (sends, receives) = (shmem_sim::symmetric::<Part>(2), shmem_sim::symmetric::<Part>(2));
    ///     let me = shmem::my_pe();
    ///     if Block.leader() {
    ///         let three = Part { start: 5, len: 3 };
    ///         let none = Part::default();
    ///         for pe in 0..2 {
    ///             sends.store(pe, if (me, pe) == (0, 1) { three } else { none });
    ///             receives.store(pe, if (me, pe) == (1, 0) { Part { start: 1, ..three } } else { none });
    ///             src.store(5 + pe, 50 + pe);
    ///         }
    ///         src.store(7, 52);
    ///     }
    ///     shmem_sim::collective().alltoallv(Block, shmem::world(), dst, src, sends, receives);
    ///     if me == 1 {
    ///         assert_eq!([dst.load(1), dst.load(2), dst.load(3)], [50, 51, 52]);
    ///     }
    /// }).unwrap();
    /// ```
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    #[track_caller]
    pub fn alltoallv<T: Pod, G: Tile>(
        self,
        tile: G,
        team: Team,
        dst: SymSlice<T>,
        src: SymSlice<T>,
        sends: SymSlice<Part>,
        receives: SymSlice<Part>,
    ) {
        let (me, n) = (team.my_pe(), team.n_pes());
        for parts in [sends, receives] {
            check(parts.len() == n.into(), FaultKind::Length, n.into(), parts.len());
        }
        super::check_apart(dst, src, None);
        begin::<G, T>(self, tile, team, "alltoallv", "", 0, 0);
        if bytes_of(dst) == 0 && bytes_of(src) == 0 {
            return;
        }
        meet::<G, false>(tile, team);
        let mut k = 0;
        while k < n {
            let index = if me + k < n { me + k } else { me + k - n };
            let (theirs, mine) = (g(sends.at(me), team.pe(index)), receives.load(index));
            check(theirs.len == mine.len, FaultKind::Length, mine.len, theirs.len);
            let whole = |part: Part| part.start..part.start.saturating_add(part.len);
            if mine.len != 0 {
                get_nbi(tile, dst.slice(whole(mine)), src.slice(whole(theirs)), team.pe(index));
            }
            k = arch::next(k);
        }
        meet::<G, true>(tile, team);
    }
}
