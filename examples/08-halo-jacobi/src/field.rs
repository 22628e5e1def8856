//! What is solved.
use shmem::prelude::*;

/// The whole field, in numbers.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelArg)]
pub struct Field {
    /// Columns, a multiple of 4.
    pub nx: u32,
    /// Rows of all PEs together, at least two for each.
    pub ny: u32,
}

impl Field {
    /// Rows of a PE: the first `ny % n` PEs have one more than the others.
    #[inline(always)]
    pub fn rows(self, pe: u32, n: u32) -> u32 {
        self.ny / n + u32::from(pe < self.ny % n)
    }
}
