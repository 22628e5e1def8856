//! Elements of several numbers, which move in one access.

use crate::{KernelArg, Pod, Zeroable, bf16, f16};

/// Two f16 in one word of 4 bytes: what [`fetch_add`](crate::fetch_add) adds pairwise.
///
/// ```
/// use shmem::{F16x2, f16};
/// let pair = F16x2([f16::ONE, f16::from_f32(0.5)]);
/// assert_eq!(pair.0[1].to_f32(), 0.5);
/// ```
#[repr(C, align(4))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Zeroable, Pod)]
pub struct F16x2(pub [f16; 2]);

/// Two bf16 in one word of 4 bytes: what [`fetch_add`](crate::fetch_add) adds pairwise.
///
/// ```
/// use shmem::{Bf16x2, bf16};
/// let pair = Bf16x2([bf16::ONE, bf16::from_f32(0.5)]);
/// assert_eq!(pair.0[1].to_f32(), 0.5);
/// ```
#[repr(C, align(4))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Zeroable, Pod)]
pub struct Bf16x2(pub [bf16; 2]);

// SAFETY: two numbers, laid out alike on both sides.
unsafe impl KernelArg for F16x2 {}
// SAFETY: as above.
unsafe impl KernelArg for Bf16x2 {}
