//! One instruction per access, by size, space and strength. `asm!`, because the compiler must neither split a 16-byte
//! access nor reason about memory that peers write.

use crate::Pod;
use crate::arch::{Space, Strength};
use crate::slice::assert_element;
use core::arch::asm;

/// The bits of `value` as another plain type of the same size.
#[inline(always)]
pub(super) fn bits<A: Copy, B: Copy>(value: A) -> B {
    assert!(size_of::<A>() == size_of::<B>());
    // SAFETY: same size, both plain bits.
    unsafe { core::mem::transmute_copy(&value) }
}

/// `ld<qualifier>.<type>` for each size. A plain load is `readonly`; an acquiring one is not, so that the compiler moves
/// nothing ahead of it.
macro_rules! load_by_size {
    ($qualifier:literal, $address:expr, $t:ty) => { load_by_size!($qualifier, $address, $t, nostack, readonly) };
    ($qualifier:literal, $address:expr, $t:ty, $($option:ident),+) => {{
        let a: u64 = $address;
        match size_of::<$t>() {
            1 => { let r: u16; asm!(concat!("ld", $qualifier, ".u8 {r}, [{a}];"), r = out(reg16) r, a = in(reg64) a, options($($option),+)); bits(r as u8) }
            2 => { let r: u16; asm!(concat!("ld", $qualifier, ".u16 {r}, [{a}];"), r = out(reg16) r, a = in(reg64) a, options($($option),+)); bits(r) }
            4 => { let r: u32; asm!(concat!("ld", $qualifier, ".u32 {r}, [{a}];"), r = out(reg32) r, a = in(reg64) a, options($($option),+)); bits(r) }
            8 => { let r: u64; asm!(concat!("ld", $qualifier, ".u64 {r}, [{a}];"), r = out(reg64) r, a = in(reg64) a, options($($option),+)); bits(r) }
            _ => { let (x, y): (u64, u64); asm!(concat!("ld", $qualifier, ".v2.u64 {{{x}, {y}}}, [{a}];"), x = out(reg64) x, y = out(reg64) y, a = in(reg64) a, options($($option),+)); bits([x, y]) }
        }
    }};
}
pub(super) use load_by_size;

/// `st<qualifier>.<type>` for each size.
macro_rules! store_by_size {
    ($qualifier:literal, $address:expr, $value:expr, $t:ty) => {{
        let a: u64 = $address;
        let v: $t = $value;
        match size_of::<$t>() {
            1 => { let v: u8 = bits(v); asm!(concat!("st", $qualifier, ".u8 [{a}], {v};"), v = in(reg16) v as u16, a = in(reg64) a, options(nostack)) }
            2 => { let v: u16 = bits(v); asm!(concat!("st", $qualifier, ".u16 [{a}], {v};"), v = in(reg16) v, a = in(reg64) a, options(nostack)) }
            4 => { let v: u32 = bits(v); asm!(concat!("st", $qualifier, ".u32 [{a}], {v};"), v = in(reg32) v, a = in(reg64) a, options(nostack)) }
            8 => { let v: u64 = bits(v); asm!(concat!("st", $qualifier, ".u64 [{a}], {v};"), v = in(reg64) v, a = in(reg64) a, options(nostack)) }
            _ => { let v: [u64; 2] = bits(v); asm!(concat!("st", $qualifier, ".v2.u64 [{a}], {{{x}, {y}}};"), x = in(reg64) v[0], y = in(reg64) v[1], a = in(reg64) a, options(nostack)) }
        }
    }};
}
pub(super) use store_by_size;

/// # Safety
/// The address is that of a live T in this space.
#[inline(always)]
pub(crate) unsafe fn load<T: Pod>(address: u64, space: Space, strength: Strength) -> T {
    const { assert_element::<T>() };
    // SAFETY: the caller's promise.
    unsafe {
        match (space, strength) {
            (Space::Shared, _) => load_by_size!(".shared", address, T),
            (Space::Local, _) => load_by_size!("", address, T),
            (_, Strength::Weak) => load_by_size!(".global", address, T),
            (_, Strength::Relaxed) => load_by_size!(".relaxed.sys.global", address, T),
            (_, Strength::Acquire) => load_by_size!(".acquire.sys.global", address, T, nostack),
        }
    }
}

/// # Safety
/// The address is that of a live T in this space.
#[inline(always)]
pub(crate) unsafe fn store<T: Pod>(address: u64, value: T, space: Space, strength: Strength) {
    const { assert_element::<T>() };
    // SAFETY: the caller's promise.
    unsafe {
        match (space, strength) {
            (Space::Shared, _) => store_by_size!(".shared", address, value, T),
            (Space::Local, _) => store_by_size!("", address, value, T),
            (_, Strength::Weak) => store_by_size!(".global", address, value, T),
            (_, _) => store_by_size!(".relaxed.sys.global", address, value, T),
        }
    }
}
