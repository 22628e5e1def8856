//! A tile of a product by a block: `a * b^T` of 128 rows and 256.
//!
//! | file | how | PTX |
//! |---|---|---|
//! | [`warps`] | each of eight warps multiplies 64 x 64 | `ldmatrix`, `mma.sync` |
//! | [`warpgroups`] | each of two warpgroups multiplies 64 x 256, straight from shared memory | `wgmma`, on sm_90a alone |

use super::{Halves, Panel, Strip, place};
use crate::fault::{FaultKind, check};
use crate::registers::unroll;
use crate::tile::Block;
use crate::{Shared, arch, warp};

pub mod warpgroups;
pub mod warps;

/// Threads of the block that calls [`multiply`].
pub const THREADS: u32 = 256;
/// Rows of its tile.
pub const ROWS: u32 = 128;
/// Columns of its tile.
pub const COLUMNS: u32 = 256;
/// Bytes of shared memory that [`multiply`] takes: 193 KiB.
pub const SHARED_BYTES: u32 = STAGES * STAGE_LINES * super::LINE_BYTES as u32 + ALIGN;

/// Panels in shared memory: one that is multiplied, the others under way.
const STAGES: u32 = 4;
const STAGE_LINES: u32 = (ROWS + COLUMNS) * super::ROW_LINES;
/// Bytes, of panels' addresses.
const ALIGN: u32 = 1024;

/// [`ROWS`] x [`COLUMNS`] numbers that the threads of a block hold among them, 128 each.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    /// Runs of 8 columns, each with 16 rows for a warp, as `mma` has them.
    sums: [[f32; 4]; 32],
    by: By,
}

/// Where a warp's runs lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    /// Four by eight.
    Warps,
    /// Side by side.
    Warpgroups,
}

/// `a * b^T`: the product of [`ROWS`] rows by [`COLUMNS`] columns, each of which is a row of `b`, as weights are stored. A
/// block of [`THREADS`] threads calls it, all of them, with [`SHARED_BYTES`] of shared memory in `lines`, which it may use again
/// after a sync.
///
/// By [`warpgroups`] where the image is for sm_90a, else by [`warps`]. Panels stream through shared memory ahead of the one
/// that is multiplied. Takes most of a thread's 255 registers. Sums as [`mma`](super::mma) has them.
///
/// Faults with `FaultKind::Length` where strips have different numbers of panels, `a` and `b`, or none; `FaultKind::Tile` for
/// another block size, `FaultKind::Range` for too little memory.
///
/// ```
/// use shmem::matrix::{Strip, block};
/// use shmem::prelude::*;
/// use shmem::vector::Bf16x2;
/// shmem_sim::Sim::new(1).block(block::THREADS).shared_bytes(block::SHARED_BYTES as usize).run(|| {
///     // Rows of A hold their number, rows of B ones: 64 times the row.
///     let a = shmem_sim::symmetric_with::<bf16>(128 * 64, |_, i| bf16::from_f32((i / 64) as f32));
///     let b = shmem_sim::symmetric_with::<bf16>(256 * 64, |_, _| bf16::ONE);
///     let c = shmem_sim::global::<f32>(128 * 256);
///     let (a, b) = (Strip::<Bf16x2, 128>::new(a.cast(), 64), Strip::new(b.cast(), 64));
///     block::multiply(a, b, shmem::shared::dynamic()).for_each(|row, column, pair| {
///         c.chunk(row, 256).store(column, pair[0]);
///         c.chunk(row, 256).store(column + 1, pair[1]);
///     });
///     Block.sync();
///     assert_eq!(c.load(100 * 256 + thread::index()), 6400.0);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn multiply<T: Halves>(a: Strip<T, ROWS>, b: Strip<T, COLUMNS>, lines: Shared<T::Line>) -> Product {
    multiply_with(a, b, lines, &mut ())
}

/// Work of a block beside a product: see [`multiply_with`]. A trait and not a closure, so that it can be `#[inline(always)]`: a call
/// would keep the sums from staying in registers.
pub trait Ahead {
    /// Called by all threads before panel `k` of both strips is read, for each panel in order.
    fn ahead(&mut self, k: u32);
}

/// Nothing.
impl Ahead for () {
    #[inline(always)]
    fn ahead(&mut self, _: u32) {}
}

/// As [`multiply`], with other work beside the products: all threads call `with.ahead(k)` two or three panels ahead of the products
/// of panel k. There they may wait for rows that are still coming, and do what takes no longer than the products of a
/// panel. What it holds in registers lies beside the sums: a dozen words are left.
///
/// ```
/// use shmem::matrix::{Strip, block};
/// use shmem::prelude::*;
/// use shmem::vector::Bf16x2;
/// struct Arriving(SymSlice<bf16>);
/// impl block::Ahead for Arriving {
///     #[inline(always)]
///     fn ahead(&mut self, k: u32) {
///         for i in Block.strided(128) {
///             self.0.chunk(i, 128).chunk(k, 64).store(0, bf16::ONE);
///         }
///         Block.sync();
///     }
/// }
/// shmem_sim::Sim::new(1).block(block::THREADS).shared_bytes(block::SHARED_BYTES as usize).run(|| {
///     let a = shmem_sim::symmetric::<bf16>(128 * 128);
///     let b = shmem_sim::symmetric_with::<bf16>(256 * 128, |_, _| bf16::ONE);
///     let (rows, columns) = (Strip::<Bf16x2, 128>::new(a.cast(), 128), Strip::new(b.cast(), 128));
///     let sums = block::multiply_with(rows, columns, shmem::shared::dynamic(), &mut Arriving(a));
///     sums.for_each(|_, _, pair| assert_eq!(pair, [2.0; 2]));
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn multiply_with<T: Halves>(
    a: Strip<T, ROWS>,
    b: Strip<T, COLUMNS>,
    lines: Shared<T::Line>,
    with: &mut impl Ahead,
) -> Product {
    if arch::has_wgmma() {
        warpgroups::multiply(a, b, lines, with)
    } else {
        warps::multiply(a, b, lines, with)
    }
}

/// What both ways have in common.
struct Stages<T: Halves> {
    a: Strip<T, ROWS>,
    b: Strip<T, COLUMNS>,
    lines: Shared<T::Line>,
    panels: u32,
}

impl<T: Halves> Stages<T> {
    #[inline(always)]
    #[track_caller]
    fn new(a: Strip<T, ROWS>, b: Strip<T, COLUMNS>, lines: Shared<T::Line>) -> Self {
        let panels = a.panels();
        let (of_a, of_b) = (u64::from(panels), u64::from(b.panels()));
        check(of_a == of_b && of_a != 0, FaultKind::Length, of_a, of_b);
        let skip = lines.start().wrapping_neg() % u64::from(ALIGN) / super::LINE_BYTES;
        let lines = lines.slice(skip..skip + u64::from(STAGES * STAGE_LINES));
        Self { a, b, lines, panels }
    }

    /// Where panel k lies.
    #[inline(always)]
    #[track_caller]
    fn stage(&self, k: u32) -> (Panel<T, ROWS>, Panel<T, COLUMNS>) {
        let lines = self.lines.chunk(k % STAGES, STAGE_LINES);
        let (a, b) = (Panel::<T, ROWS>::LINES, STAGE_LINES);
        (Panel::new(lines.slice(0..a)), Panel::new(lines.slice(a..b)))
    }

    /// Begins to copy a quarter of panel k, if there is one.
    #[inline(always)]
    #[track_caller]
    fn copy_quarter(&self, k: u32, i: u32) {
        if k < self.panels {
            const A: u32 = ROWS / 4;
            const B: u32 = COLUMNS / 4;
            let (a, b) = self.stage(k);
            a.rows::<A>(i).copy_async::<THREADS, _>(Block, self.a.rows::<A>(i), k);
            b.rows::<B>(i).copy_async::<THREADS, _>(Block, self.b.rows::<B>(i), k);
        }
    }

    #[inline(always)]
    #[track_caller]
    fn copy(&self, k: u32) {
        unroll::<4>(|i| self.copy_quarter(k, i as u32));
    }
}

impl Product {
    /// Calls `f` with row, column and the numbers there and in the next column, for each pair that this thread holds. One
    /// thread's own.
    #[inline(always)]
    #[track_caller]
    pub fn for_each(self, mut f: impl FnMut(u32, u32, [f32; 2])) {
        let (warp, (row_in, column_in)) = (warp::warp_id() % 8, place(warp::lane_id(), 0));
        // Few calls in one closure, which is inlined then, and the numbers stay in registers.
        unroll::<16>(|i| {
            unroll::<4>(|q| {
                let (run, half) = (2 * i + q / 2, q % 2);
                let (row, column) = match self.by {
                    By::Warps => (warp % 2 * 64 + run as u32 / 8 * 16, warp / 2 * 64 + run as u32 % 8 * 8),
                    By::Warpgroups => (warp * 16, run as u32 * 8),
                };
                let sum = self.sums[run];
                f(
                    row + 8 * half as u32 + row_in,
                    column + column_in,
                    [sum[2 * half], sum[2 * half + 1]],
                );
            });
        });
    }
}
