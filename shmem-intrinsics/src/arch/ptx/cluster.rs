//! Thread-block clusters, which sm_90 brought. The comments are the builder's: an image for an older architecture gets what
//! stands behind them, with which each block is a cluster of its own.

use super::converge::sync_block;
use super::registers::scratch;
use core::arch::asm;

unsafe extern "unadjusted" {
    #[link_name = "llvm.nvvm.activemask"]
    fn activemask() -> u32;
}

macro_rules! registers { ($($name:ident = $register:literal or $before:literal;)*) => { $(
    #[inline(always)]
    pub(crate) fn $name() -> u32 {
        let value: u32;
        // SAFETY: reads a register.
        unsafe {
            asm!(
                concat!("mov.u32 {v}, ", $register, "; // shmem-before-90 mov.u32 {v}, ", $before, ";"),
                v = out(reg32) value,
                options(pure, nomem, nostack),
            );
        }
        value
    }
)* } }
registers! {
    cluster_block_rank = "%cluster_ctarank" or "0";
    cluster_blocks = "%cluster_nctarank" or "1";
    idx_x = "%clusterid.x" or "%ctaid.x";
    idx_y = "%clusterid.y" or "%ctaid.y";
    idx_z = "%clusterid.z" or "%ctaid.z";
    dim_x = "%nclusterid.x" or "%nctaid.x";
    dim_y = "%nclusterid.y" or "%nctaid.y";
    dim_z = "%nclusterid.z" or "%nctaid.z";
}

#[inline(always)]
pub(crate) fn cluster_idx() -> [u32; 3] {
    [idx_x(), idx_y(), idx_z()]
}

/// Clusters of the grid.
#[inline(always)]
pub(crate) fn cluster_dim() -> [u32; 3] {
    [dim_x(), dim_y(), dim_z()]
}

/// The block syncs, which is all that there is before sm_90, and then the cluster. By default the arrival releases and the
/// wait acquires.
#[inline(always)]
pub(crate) fn sync_cluster() {
    sync_block();
    // SAFETY: every thread comes here. LLVM has an intrinsic, which it refuses to compile for older architectures; the call
    // before the asm! keeps it in one piece. Not `.aligned`: each thread counts by itself.
    unsafe {
        activemask();
        asm!(
            "barrier.cluster.arrive; // shmem-before-90",
            "barrier.cluster.wait; // shmem-before-90",
            options(nostack),
        );
    }
}

/// The cluster's word for broadcasts, the second of its first block.
#[inline(always)]
pub(crate) fn cluster_scratch() -> u64 {
    let value: u64;
    // SAFETY: every block has the word at this address, and the first one has not ended: it syncs with this thread later.
    unsafe {
        asm!(
            "mapa.shared::cluster.u32 {at}, {own}, 0; // shmem-before-90 mov.u32 {at}, {own};",
            "ld.shared::cluster.u64 {v}, [{at}]; // shmem-before-90 ld.shared.u64 {v}, [{at}];",
            at = out(reg32) _,
            own = in(reg32) scratch() as u32 + 8,
            v = out(reg64) value,
            options(nostack),
        );
    }
    value
}
