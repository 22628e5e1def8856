//! What one thread computes.
use crate::Field;
use shmem::prelude::*;
use shmem::vector::F32x4;

/// Four columns of one thread, and what its warp needs from beside it.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    /// Vectors of a row.
    pitch: u32,
    /// The vector in its row. Threads beyond the last load that one, and store nothing.
    x: u32,
    /// For the first and the last lane, the column beside the warp's, if there is one.
    beside: Option<u32>,
}

impl Column {
    /// Of block column `c`: a thread has four columns.
    #[inline(always)]
    pub(crate) fn of(field: Field, c: u32) -> Self {
        let (pitch, x) = (field.nx / 4, c * Block.size() + Block.rank());
        let beside = match warp::lane_id() {
            0 if x > 0 && x < pitch => Some(4 * x - 1),
            31 if x + 1 < pitch => Some(4 * x + 4),
            _ => None,
        };
        Self { pitch, x, beside }
    }

    /// One step of four rows from `y` on, or as many as there are up to `end`: all that it needs is in flight at one time. Returns the sum
    /// of the squares of all changes.
    #[inline(always)]
    pub(crate) fn step(self, u: SymSlice<F32x4>, v: SymSlice<F32x4>, y: u32, end: u32) -> f32 {
        let (pitch, x, numbers) = (self.pitch, self.x.min(self.pitch - 1), u.cast::<f32>());
        // Behind the row below the last one it is that one again, and nothing is stored.
        let at = |k: u32| (y + k).min(end);
        let row = |k: u32| u.load(at(k) * pitch + x);
        // Not of the row below the last one, which may not have come there.
        let beside = |k: u32, column: u32| numbers.load(at(k).min(end - 1) * 4 * pitch + column);
        let (above, below) = (u.load((y - 1) * pitch + x), row(4));
        let (a, b, c, d) = (row(0), row(1), row(2), row(3));
        let (p, q, r, s) = match self.beside {
            Some(c) => (beside(0, c), beside(1, c), beside(2, c), beside(3, c)),
            None => (0.0, 0.0, 0.0, 0.0),
        };
        let mut changes = 0.0;
        let mut store = |k: u32, new: F32x4, old: F32x4| {
            if self.x < pitch && y + k < end {
                v.store((y + k) * pitch + x, new);
                let F32x4([p, q, r, s]) = new - old;
                changes += p * p + q * q + (r * r + s * s);
            }
        };
        store(0, self.mean(above, a, b, p), a);
        store(1, self.mean(a, b, c, q), b);
        store(2, self.mean(b, c, d, r), c);
        store(3, self.mean(c, d, below, s), d);
        changes
    }

    /// The means of the four neighbours of each number of `row`. All lanes of a warp call it.
    #[inline(always)]
    fn mean(self, above: F32x4, row: F32x4, below: F32x4, beside: f32) -> F32x4 {
        let F32x4([a, b, c, d]) = row;
        let (left, right) = (warp::shuffle_up(d, 1), warp::shuffle_down(a, 1));
        let left = if warp::lane_id() == 0 { beside } else { left };
        let right = if warp::lane_id() == 31 { beside } else { right };
        let sum = above + below + F32x4([left, a, b, c]) + F32x4([b, c, d, right]);
        let mut mean = F32x4([0.25; 4]) * sum;
        // The first and the last column are given.
        if self.x == 0 {
            mean.0[0] = a;
        }
        if self.x + 1 == self.pitch {
            mean.0[3] = d;
        }
        mean
    }
}
