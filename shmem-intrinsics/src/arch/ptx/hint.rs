//! Accesses with a cache hint.

use super::memory::{bits, load_by_size, store_by_size};
use crate::Pod;
use crate::arch::Space;
use crate::hint::{Hint, Priority};
use crate::slice::assert_element;
use core::arch::asm;

/// # Safety
/// The address is that of a live T in symmetric or global memory.
#[inline(always)]
pub(crate) unsafe fn load_hint<T: Pod, H: Hint>(address: u64, _: Space) -> T {
    const { assert_element::<T>() };
    // SAFETY: the caller's promise.
    unsafe {
        match H::__PRIORITY {
            Priority::NoAllocate => load_by_size!(".global.L1::no_allocate", address, T),
            Priority::EvictFirst => load_by_size!(".global.L1::evict_first", address, T),
            Priority::EvictLast => load_by_size!(".global.L1::evict_last", address, T),
        }
    }
}

/// # Safety
/// The address is that of a live T in symmetric or global memory.
#[inline(always)]
pub(crate) unsafe fn store_hint<T: Pod, H: Hint>(address: u64, value: T, _: Space) {
    const { assert_element::<T>() };
    // SAFETY: the caller's promise.
    unsafe {
        match H::__PRIORITY {
            Priority::NoAllocate => store_by_size!(".global.L1::no_allocate", address, value, T),
            Priority::EvictFirst => store_by_size!(".global.L1::evict_first", address, value, T),
            Priority::EvictLast => store_by_size!(".global.L1::evict_last", address, value, T),
        }
    }
}
