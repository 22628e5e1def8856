//! What lanes do together. These are LLVM intrinsics, which the compiler knows to be convergent; the same instruction in
//! `asm!` may be copied into both arms of a divergent branch, and then threads wait at different copies (docs: decisions).

unsafe extern "unadjusted" {
    #[link_name = "llvm.nvvm.barrier.cta.sync.all"]
    fn barrier(id: u32);
    #[link_name = "llvm.nvvm.bar.warp.sync"]
    fn bar_warp(mask: u32);
    #[link_name = "llvm.nvvm.shfl.sync.idx.i32"]
    fn shfl_idx(mask: u32, value: u32, lane: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.bfly.i32"]
    fn shfl_bfly(mask: u32, value: u32, bits: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.vote.ballot.sync"]
    fn vote_ballot(mask: u32, predicate: bool) -> u32;
    #[link_name = "llvm.nvvm.activemask"]
    fn activemask() -> u32;
    #[link_name = "llvm.nvvm.vote.any.sync"]
    fn vote_any_(mask: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.vote.all.sync"]
    fn vote_all_(mask: u32, predicate: bool) -> bool;
}

/// All 32 lanes of the warp form one segment.
const WHOLE: u32 = 31;

#[inline(always)]
#[cfg_attr(shmem_timeline, track_caller)]
pub(crate) fn sync_block() {
    span!(crate::tile::Block, SyncBlock);
    // SAFETY: barrier 0 is the block's; threads that have ended don't count.
    unsafe { barrier(0) }
}

#[inline(always)]
pub(crate) fn sync_warp(mask: u32) {
    // SAFETY: the caller is one of the mask's lanes.
    unsafe { bar_warp(mask) }
}

/// The lanes of the warp that are at this call together.
#[inline(always)]
pub(crate) fn lanes_here() -> u32 {
    // SAFETY: asks.
    unsafe { activemask() }
}

#[inline(always)]
pub(crate) fn shuffle_idx(mask: u32, value: u32, from: u32) -> u32 {
    // SAFETY: as above; a lane outside the mask yields an unspecified value.
    unsafe { shfl_idx(mask, value, from, WHOLE) }
}

#[inline(always)]
pub(crate) fn shuffle_xor(mask: u32, value: u32, bits: u32) -> u32 {
    // SAFETY: as above.
    unsafe { shfl_bfly(mask, value, bits, WHOLE) }
}

#[inline(always)]
pub(crate) fn ballot(mask: u32, predicate: bool) -> u32 {
    // SAFETY: as above.
    unsafe { vote_ballot(mask, predicate) }
}

#[inline(always)]
pub(crate) fn vote_any(mask: u32, predicate: bool) -> bool {
    // SAFETY: as above.
    unsafe { vote_any_(mask, predicate) }
}

#[inline(always)]
pub(crate) fn vote_all(mask: u32, predicate: bool) -> bool {
    // SAFETY: as above.
    unsafe { vote_all_(mask, predicate) }
}
