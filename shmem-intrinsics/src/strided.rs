//! Strided transfers: every n-th element. Strides are in elements; 1 is the plain transfer, which is faster.
//!
//! | call | returns when | NVLink |
//! |---|---|---|
//! | [`iput`], [`iput_nbi`] | reusable; at once | `st.relaxed.sys` by element, eight loads in flight |
//! | [`iget`], [`iget_nbi`] | in place; at once | `ld.relaxed.sys` by element, eight in flight |

use crate::arch::{self, Span, Strength};
use crate::fault::{FaultKind, check};
use crate::get::Destination;
use crate::rma::Source;
use crate::sym::SymSlice;
use crate::team::{self, Target};
use crate::tile::Tile;
use crate::{Index, Pod};

/// Elements that a member has in flight.
const FLIGHT: usize = 8;

/// Element `i * src_stride` of `src` goes to element `i * dst_stride` of `dst` at PE `to`, for i in `0..count`. All members
/// of the tile call it. Returns when the source may be written again.
///
/// OpenSHMEM `shmem_iput`, NVSHMEM `nvshmem_TYPE_iput` and its `_warp` and `_block` forms. Faults with `FaultKind::Index`
/// (the last element's index and the length) where one side is too short, `FaultKind::Pe`.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 32, || {
///     // A column of a 4 x 8 matrix becomes a row of the peer's.
///     let (matrix, row) = (shmem_sim::symmetric::<f32>(32), shmem_sim::symmetric::<f32>(4));
///     shmem::iput(Block, row, matrix, 1, 8, 4, 1 - shmem::my_pe());
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn iput<G: Tile, T: Pod>(
    tile: G,
    dst: SymSlice<T>,
    src: impl Source<T, G>,
    dst_stride: impl Index,
    src_stride: impl Index,
    count: impl Index,
    to: impl Target,
) {
    iput_nbi(tile, dst, src, dst_stride, src_stride, count, to);
    arch::flush(tile, to.__ctx());
}

/// As [`iput`], but returns at once: the source may be written again after `flush` or `quiet`.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 32, || {
///     let x = shmem_sim::symmetric::<u32>(64);
///     shmem::iput_nbi(Warp, x.chunk(0, 32), x.chunk(1, 32), 2, 2, 16, 1 - shmem::my_pe());
///     shmem::quiet(Warp);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn iput_nbi<G: Tile, T: Pod>(
    tile: G,
    dst: SymSlice<T>,
    src: impl Source<T, G>,
    dst_stride: impl Index,
    src_stride: impl Index,
    count: impl Index,
    to: impl Target,
) {
    let (ds, ss, count) = (dst_stride.index(), src_stride.index(), count.index());
    check_reach(count, ds, dst.len());
    check_reach(count, ss, src.__len());
    let (from, pe) = (src.__span(), team::peer(to));
    each::<G, T>(
        tile,
        count,
        // SAFETY: both ends were found inside their objects.
        |i| unsafe { element(from, i * ss) },
        // SAFETY: as above.
        |i, value| unsafe { arch::store_remote(dst.offset() + i * ds * size_of::<T>() as u64, value, pe) },
    );
}

/// Element `i * src_stride` of `src` at PE `from` goes to element `i * dst_stride` of `dst` here, for i in `0..count`. All
/// members of the tile call it; the data is in place at return.
///
/// OpenSHMEM `shmem_iget`, NVSHMEM `nvshmem_TYPE_iget` and its `_warp` and `_block` forms. Faults as [`iput`].
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 32, || {
///     let (src, dst) = (shmem_sim::symmetric::<u32>(30), shmem_sim::global::<u32>(10));
///     shmem::iget(Warp, dst, src, 1, 3, 10, 1 - shmem::my_pe());
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn iget<G: Tile, T: Pod>(
    tile: G,
    dst: impl Destination<T, G>,
    src: SymSlice<T>,
    dst_stride: impl Index,
    src_stride: impl Index,
    count: impl Index,
    from: impl Target,
) {
    strided_get(tile, dst, src, dst_stride, src_stride, count, from);
    tile.sync();
}

/// As [`iget`], but returns at once: the data is in place after `quiet`.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 32, || {
///     let (src, dst) = (shmem_sim::symmetric::<u32>(30), shmem_sim::global::<u32>(10));
///     shmem::iget_nbi(Warp, dst, src, 1, 3, 10, 1 - shmem::my_pe());
///     shmem::quiet(Warp);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn iget_nbi<G: Tile, T: Pod>(
    tile: G,
    dst: impl Destination<T, G> + Copy,
    src: SymSlice<T>,
    dst_stride: impl Index,
    src_stride: impl Index,
    count: impl Index,
    from: impl Target,
) {
    strided_get(tile, dst, src, dst_stride, src_stride, count, from);
}

#[inline(always)]
#[track_caller]
fn strided_get<G: Tile, T: Pod>(
    tile: G,
    mut dst: impl Destination<T, G>,
    src: SymSlice<T>,
    dst_stride: impl Index,
    src_stride: impl Index,
    count: impl Index,
    from: impl Target,
) {
    let (ds, ss, count) = (dst_stride.index(), src_stride.index(), count.index());
    check_reach(count, ds, dst.__len());
    check_reach(count, ss, src.len());
    let (to, pe) = (dst.__span(), team::peer(from));
    each::<G, T>(
        tile,
        count,
        // SAFETY: both ends were found inside their objects.
        |i| unsafe { arch::load_remote(src.offset() + i * ss * size_of::<T>() as u64, pe) },
        // SAFETY: as above.
        |i, value| unsafe {
            arch::store(
                to.address + i * ds * size_of::<T>() as u64,
                value,
                to.space,
                Strength::Weak,
            )
        },
    );
}

/// # Safety
/// Element i of the span is live.
#[inline(always)]
#[track_caller]
unsafe fn element<T: Pod>(span: Span, i: u64) -> T {
    // SAFETY: the caller's promise.
    unsafe { arch::load(span.address + i * size_of::<T>() as u64, span.space, Strength::Weak) }
}

/// The last of `count` elements at this stride is inside.
#[inline(always)]
#[track_caller]
fn check_reach(count: u64, stride: u64, len: u64) {
    if count != 0 {
        // A product that doesn't fit is outside any object.
        let last = (count - 1).saturating_mul(stride);
        check(last < len, FaultKind::Index, last, len);
    }
}

/// This member's share of `0..count`, with a flight of loads before their stores.
#[inline(always)]
#[track_caller]
fn each<G: Tile, T: Pod>(tile: G, count: u64, mut load: impl FnMut(u64) -> T, mut store: impl FnMut(u64, T)) {
    let size = u64::from(tile.size());
    let mut i = u64::from(tile.rank());
    while i < count {
        let mut flight = [T::zeroed(); FLIGHT];
        let mut k = 0;
        while k < FLIGHT {
            if i + k as u64 * size < count {
                flight[k] = load(i + k as u64 * size);
            }
            k += 1;
        }
        k = 0;
        while k < FLIGHT {
            if i + k as u64 * size < count {
                store(i + k as u64 * size, flight[k]);
            }
            k += 1;
        }
        i += FLIGHT as u64 * size;
    }
}
