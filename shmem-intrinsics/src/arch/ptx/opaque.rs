//! Arithmetic behind the optimiser's back, where what it would make of it costs more than it saves.

use core::arch::asm;

/// `k + 1`. A loop that counts by it is not unrolled: its trip count can't be computed.
#[inline(always)]
pub(crate) fn next(k: u32) -> u32 {
    let next: u32;
    // SAFETY: adds.
    unsafe { asm!("add.u32 {n}, {k}, 1;", n = out(reg32) next, k = in(reg32) k, options(nomem, nostack)) };
    next
}

/// `address + bytes`. Addresses of unrolled accesses are made one after the other, and not kept in registers of their own.
#[inline(always)]
pub(crate) fn forward(address: u64, bytes: u64) -> u64 {
    let next: u64;
    // SAFETY: adds.
    unsafe {
        asm!("add.u64 {n}, {a}, {b};", n = out(reg64) next, a = in(reg64) address, b = in(reg64) bytes, options(nomem, nostack));
    };
    next
}

/// A number that nothing is computed of ahead of this place: a loop around a transfer would keep the arithmetic of ways that the transfer does not
/// take in registers, and spill what it needs for the one that it takes.
#[inline(always)]
pub(crate) fn apart(number: u64) -> u64 {
    let same: u64;
    // SAFETY: a move.
    unsafe { asm!("mov.b64 {s}, {n};", s = out(reg64) same, n = in(reg64) number, options(nomem, nostack)) };
    same
}
