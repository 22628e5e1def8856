//! `mbarrier`: each thread's own, and so `asm!`. Without a qualifier an arrival releases and a test acquires, for the block.

use core::arch::asm;

/// # Safety
/// The address is that of a word for barriers, as in all functions of this file.
#[inline(always)]
pub(crate) unsafe fn mbarrier_init(at: u64, arrivals: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("mbarrier.init.shared.b64 [{a}], {n};", a = in(reg32) at as u32, n = in(reg32) arrivals, options(nostack));
    }
}

/// # Safety
/// See [`mbarrier_init`].
#[inline(always)]
pub(crate) unsafe fn mbarrier_invalidate(at: u64) {
    // SAFETY: the caller's promise.
    unsafe { asm!("mbarrier.inval.shared.b64 [{a}];", a = in(reg32) at as u32, options(nostack)) };
}

/// # Safety
/// See [`mbarrier_init`].
#[inline(always)]
pub(crate) unsafe fn mbarrier_arrive(at: u64) -> u64 {
    let state: u64;
    // SAFETY: the caller's promise.
    unsafe {
        asm!("mbarrier.arrive.shared.b64 {s}, [{a}];", s = out(reg64) state, a = in(reg32) at as u32, options(nostack));
    }
    state
}

/// # Safety
/// See [`mbarrier_init`].
#[inline(always)]
pub(crate) unsafe fn mbarrier_arrive_after_copies(at: u64) {
    // SAFETY: the caller's promise.
    unsafe { asm!("cp.async.mbarrier.arrive.noinc.shared.b64 [{a}];", a = in(reg32) at as u32, options(nostack)) };
}

/// # Safety
/// See [`mbarrier_init`].
#[inline(always)]
pub(crate) unsafe fn mbarrier_test(at: u64, state: u64) -> bool {
    let ended: u32;
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "{{ .reg .pred %ended;",
            "mbarrier.test_wait.shared.b64 %ended, [{a}], {s};",
            "selp.u32 {e}, 1, 0, %ended; }}",
            e = out(reg32) ended,
            a = in(reg32) at as u32,
            s = in(reg64) state,
            options(nostack),
        );
    }
    ended != 0
}

/// # Safety
/// See [`mbarrier_init`].
#[inline(always)]
pub(crate) unsafe fn mbarrier_test_parity(at: u64, parity: u32) -> bool {
    let ended: u32;
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "{{ .reg .pred %ended;",
            "mbarrier.test_wait.parity.shared.b64 %ended, [{a}], {p};",
            "selp.u32 {e}, 1, 0, %ended; }}",
            e = out(reg32) ended,
            a = in(reg32) at as u32,
            p = in(reg32) parity,
            options(nostack),
        );
    }
    ended != 0
}
