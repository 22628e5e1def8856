//! By warpgroups, four warps each: the tensor cores read both panels from shared memory, a panel ahead of what the threads wait
//! for.

use super::{Ahead, By, COLUMNS, Product, ROWS, Stages};
use crate::async_copy::{commit, wait_group};
use crate::matrix::{Halves, Strip, row_start};
use crate::tile::Block;
use crate::{Shared, arch, warp};

/// Rows of a warpgroup.
const GROUP_ROWS: u32 = 64;
/// Panels on their way. Of four stages the others are two panels that may be multiplied at one time: the slower warpgroup's and
/// the faster one's.
const AHEAD: u32 = 2;

/// As [`block::multiply_with`](super::multiply_with). Only where the image is for sm_90a: in another one there are no products in it, and
/// the result is nothing.
///
/// PTX `cp.async`, `wgmma.mma_async.sync.aligned.m64n256k16`. On the simulator products are complete as soon as they begin.
///
/// ```
/// use shmem::matrix::{Strip, block};
/// use shmem::prelude::*;
/// use shmem::vector::F16x2;
/// shmem_sim::Sim::new(1).block(block::THREADS).shared_bytes(block::SHARED_BYTES as usize).run(|| {
///     let a = shmem_sim::symmetric_with(128 * 128, |_, i| f16::from_f32((i / 128 % 16) as f32));
///     let b = shmem_sim::symmetric_with(256 * 128, |_, i| f16::from_f32((i / 128 % 16) as f32));
///     let (a, b) = (Strip::<F16x2, 128>::new(a.cast(), 128), Strip::new(b.cast(), 128));
///     block::warpgroups::multiply(a, b, shmem::shared::dynamic(), &mut ()).for_each(|row, column, pair| {
///         assert_eq!(pair, [column, column + 1].map(|column| (128 * (row % 16) * (column % 16)) as f32));
///     });
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn multiply<T: Halves>(
    a: Strip<T, ROWS>,
    b: Strip<T, COLUMNS>,
    lines: Shared<T::Line>,
    with: &mut impl Ahead,
) -> Product {
    let stages = Stages::new(a, b, lines);
    // Alike in all lanes, which the compiler is to know.
    let row = warp::shuffle(warp::warp_id(), 0) / 4 % 2 * GROUP_ROWS;
    let mut sums = [[0.0; 4]; 32];
    // Of the panel that is copied: `ahead` stands here once, so that it is inlined and the sums stay in registers.
    let mut k = 0;
    while k < stages.panels + AHEAD {
        if k >= AHEAD {
            wait_group::<{ AHEAD - 1 }>();
            // Everyone's part of the panel is here, and everyone has waited for the products of the last but one.
            arch::show_panels(Block);
            let (a, b) = stages.stage(k - AHEAD);
            // SAFETY: 64 and 256 rows of panels that begin at multiples of 1024 bytes. They are written again by the copies of
            // four panels later, after a sync that follows everyone's wait for these products. `end_products` is ahead of any
            // use of the sums.
            unsafe { T::begin_products(&mut sums, a.start + row_start(row), b.start) };
        }
        if k < stages.panels {
            with.ahead(k);
        }
        arch::wait_products::<1>();
        stages.copy(k);
        commit();
        k += 1;
    }
    arch::end_products(&mut sums);
    Product {
        sums,
        by: By::Warpgroups,
    }
}
