//! Cache hints mean nothing here.
#![expect(clippy::extra_unused_type_parameters, reason = "the hint counts on a GPU")]

use super::{Space, Strength, load, store};
use crate::Pod;
use crate::hint::Hint;

/// # Safety
/// The address is that of a live T in this space.
#[track_caller]
pub(crate) unsafe fn load_hint<T: Pod, H: Hint>(address: u64, space: Space) -> T {
    // SAFETY: the caller's promise.
    unsafe { load(address, space, Strength::Weak) }
}

/// # Safety
/// The address is that of a live T in this space.
#[track_caller]
pub(crate) unsafe fn store_hint<T: Pod, H: Hint>(address: u64, value: T, space: Space) {
    // SAFETY: the caller's promise.
    unsafe { store(address, value, space, Strength::Weak) }
}
