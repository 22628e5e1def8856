//! Collectives on a stream. One kernel moves bytes, one for each type combines elements: it is told which call and which
//! operation, so that a World has few of them to load. Signed integers go by the unsigned kernel of their size.
//!
//! The host chooses blocks and algorithm, alike on all members. Several blocks are launched so that all are resident.
use shmem::collective::Part;
use shmem::collective::by_blocks::{self, Named, Plan};
use shmem::prelude::*;

/// broadcast, fcollect, alltoall.
#[kernel(programmatic, max_block = 512)]
pub fn moves(team: Team, dst: SymSlice<u8>, src: SymSlice<u8>, plan: Plan) {
    by_blocks::moves(team, dst, src, plan);
}

/// alltoallv.
#[kernel(programmatic, max_block = 512)]
pub fn moves_parts(
    team: Team,
    dst: SymSlice<u8>,
    src: SymSlice<u8>,
    sends: SymSlice<Part>,
    receives: SymSlice<Part>,
    element: u32,
    plan: Plan,
) {
    by_blocks::moves_parts(team, dst, src, sends, receives, element, plan);
}

/// reduce, `reduce_to`, `reduce_scatter`.
#[kernel(programmatic, max_block = 512, for<u8>, for<u16>, for<u32>, for<u64>, for<f16>, for<bf16>, for<f32>, for<f64>)]
pub fn reduces<T: Named>(team: Team, dst: SymSlice<T>, src: SymSlice<T>, plan: Plan) {
    by_blocks::reduces(team, dst, src, plan);
}
