//! `cp.async`: each thread's own, and so `asm!`. Shared addresses are those of the shared window, as everywhere here.

use crate::Pod;
use crate::arch::Space;
use core::arch::asm;

/// # Safety
/// Both are addresses of a live T, of 4, 8 or 16 bytes.
#[inline(always)]
pub(crate) unsafe fn copy_async<T: Pod>(shared: u64, global: u64, _: Space) {
    let shared = shared as u32;
    // SAFETY: the caller's promise.
    unsafe {
        match size_of::<T>() {
            4 => {
                asm!("cp.async.ca.shared.global [{s}], [{g}], 4;", s = in(reg32) shared, g = in(reg64) global, options(nostack))
            }
            8 => {
                asm!("cp.async.ca.shared.global [{s}], [{g}], 8;", s = in(reg32) shared, g = in(reg64) global, options(nostack))
            }
            _ => {
                asm!("cp.async.cg.shared.global [{s}], [{g}], 16;", s = in(reg32) shared, g = in(reg64) global, options(nostack))
            }
        }
    }
}

#[inline(always)]
pub(crate) fn commit_async() {
    // SAFETY: ends a group.
    unsafe { asm!("cp.async.commit_group;", options(nostack)) };
}

#[inline(always)]
pub(crate) fn wait_async<const N: u32>() {
    // SAFETY: waits.
    unsafe { asm!("cp.async.wait_group {n};", n = const N, options(nostack)) };
}
