//! Where a fair look at several words begins.

use core::arch::asm;

/// A number below n, another one at each call; 0 where n is.
#[inline(always)]
pub(crate) fn pick(n: u64) -> u64 {
    let clock: u32;
    // SAFETY: reads a register. Volatile: two calls must not share one reading.
    unsafe { asm!("mov.u32 {c}, %clock;", c = out(reg32) clock, options(nomem, nostack)) };
    // The clock's low bits change most; the product has them at the top.
    let spread = u64::from(clock.wrapping_mul(0x9e37_79b9));
    spread * n.min(u64::from(u32::MAX)) >> 32
}
