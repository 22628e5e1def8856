//! What is solved.
use core::ops::Range;
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

    /// Columns of blocks of so many threads, four numbers for each.
    #[inline(always)]
    pub fn columns(self, threads: u32) -> u32 {
        (self.nx / 4).div_ceil(threads)
    }

    /// Pieces, which blocks take one after the other: eight rows of a block column, or what is left of them.
    #[inline(always)]
    pub fn pieces(self, rows: u32, threads: u32) -> u32 {
        rows.div_ceil(PIECE) * self.columns(threads)
    }

    /// The rows, counted from 1, of the `i`-th piece of a block column: the first ones come first, which the PE above waits for, then the last
    /// ones, for the PE below, then the others downwards. What is computed at one time lies side by side in memory.
    #[inline(always)]
    pub fn piece(self, rows: u32, i: u32) -> Range<u32> {
        let i = match i {
            0 => 0,
            1 => (rows - 1) / PIECE,
            i => i - 1,
        };
        PIECE * i + 1..rows.min(PIECE * (i + 1)) + 1
    }
}

/// Rows of a piece.
const PIECE: u32 = 8;
