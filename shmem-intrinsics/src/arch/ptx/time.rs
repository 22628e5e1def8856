//! Clocks, and sleeping.

use core::arch::asm;

#[inline(always)]
pub(crate) fn clock() -> u64 {
    let cycles: u64;
    // SAFETY: reads a register. Not pure: two readings differ.
    unsafe { asm!("mov.u64 {c}, %clock64;", c = out(reg64) cycles, options(nostack)) };
    cycles
}

#[inline(always)]
pub(crate) fn nanosleep(ns: u32) {
    // SAFETY: delays the thread.
    unsafe { asm!("nanosleep.u32 {ns};", ns = in(reg32) ns, options(nostack)) };
}
