//! The kernel.
use crate::Field;
use core::ops::Range;
use shmem::collective::Sum;
use shmem::prelude::*;
use shmem::vector::F32x4;

/// Four columns of one thread, and what its warp needs from beside it.
#[derive(Clone, Copy)]
struct Column {
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
    fn of(field: Field, c: u32) -> Self {
        let (pitch, x) = (field.nx / 4, c * Block.size() + Block.rank());
        let beside = match warp::lane_id() {
            0 if x > 0 && x < pitch => Some(4 * x - 1),
            31 if x + 1 < pitch => Some(4 * x + 4),
            _ => None,
        };
        Self { pitch, x, beside }
    }

    /// One step of the rows from `u` to `v`, downwards: each number is loaded once, and stays in registers while it is above, in and
    /// below the row that is computed; four rows are in flight. Returns the sum of the squares of all changes.
    #[inline(always)]
    fn step(self, u: SymSlice<F32x4>, v: SymSlice<F32x4>, rows: Range<u32>) -> f32 {
        let (pitch, end, x) = (self.pitch, rows.end, self.x.min(self.pitch - 1));
        let (mut y, mut changes) = (rows.start, 0.0);
        let (mut above, mut here) = (u.load((y - 1) * pitch + x), u.load(y * pitch + x));
        while y < end {
            let row = |k: u32| {
                // Behind the last row it is that one again, and not stored.
                let y = (y + k).min(end - 1);
                (u.load((y + 1) * pitch + x), self.beside(u, y))
            };
            let ((a, a_beside), (b, b_beside)) = (row(0), row(1));
            let ((c, c_beside), (d, d_beside)) = (row(2), row(3));
            let mut store = |y: u32, new: F32x4, old: F32x4| {
                if self.x < pitch && y < end {
                    v.store(y * pitch + x, new);
                    let F32x4([p, q, r, s]) = new - old;
                    changes += p * p + q * q + (r * r + s * s);
                }
            };
            store(y, self.mean(above, here, a, a_beside), here);
            store(y + 1, self.mean(here, a, b, b_beside), a);
            store(y + 2, self.mean(a, b, c, c_beside), b);
            store(y + 3, self.mean(b, c, d, d_beside), c);
            (above, here) = (c, d);
            y += 4;
        }
        changes
    }

    /// The number in row `y` beside the warp, for its first and its last lane.
    #[inline(always)]
    fn beside(self, u: SymSlice<F32x4>, y: u32) -> f32 {
        match self.beside {
            Some(column) => u.cast::<f32>().load(y * 4 * self.pitch + column),
            None => 0.0,
        }
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

/// What a block does first, then, and last: our first row, which the PE above waits for; our last one, for the PE below; the others.
const UP: u32 = 0;
const DOWN: u32 = 1;
const INSIDE: u32 = 2;

/// So many iterations. `even` holds states 0, 2, .. of this PE's rows, `odd` the others, each with a row of the neighbours' above and
/// below; the rows of all PEs form a ring. `state` is the state that is there, and becomes the one that is there then.
///
/// `halo` has signals `[2][2][block column]`: which even or odd state's boundary row has come, from above and from below. After
/// every `every`-th iteration, if that is not 0, `residual` becomes the sum of the squares of all changes in it, on every PE; `partial`
/// has two numbers for each block.
#[kernel(collective, max_block = 1024)]
pub fn jacobi(
    all: Collective,
    field: Field,
    even: SymSlice<F32x4>,
    odd: SymSlice<F32x4>,
    halo: SymSlice<SignalWord>,
    state: Global<u64>,
    iterations: u32,
    every: u32,
    partial: Global<f32>,
    residual: SymSlice<f32>,
) {
    let (me, n, blocks) = (shmem::my_pe(), shmem::n_pes(), thread::grid_size());
    let (above, below) = ((me + n - 1) % n, (me + 1) % n);
    let (rows, pitch) = (field.rows(me, n), field.nx / 4);
    let (width, columns) = (Block.size(), pitch.div_ceil(Block.size()));
    // Block columns one after the other are one long column, of which each block has an equal part.
    let length = u64::from(columns * rows);
    let part = |block: u32| (u64::from(block) * length / u64::from(blocks)) as u32;
    let (begin, end) = (part(Block.id()), part(Block.id() + 1));
    let start = state.load(0);
    for now in start..start + u64::from(iterations) {
        let signals = |state: u64, side: u32| (2 * (state % 2) as u32 + side) * columns;
        let (u, v) = if now % 2 == 0 { (even, odd) } else { (odd, even) };
        let (mut changes, measure) = (0.0, every != 0 && (now + 1) % u64::from(every) == 0);
        // The rows that neighbours wait for go first, and are on their way while the others are computed.
        for pass in 0..3 {
            for c in begin / rows..end.div_ceil(rows) {
                let piece = match pass {
                    UP => 1..2,
                    DOWN => rows..rows + 1,
                    _ => 2..rows,
                };
                let piece = ours(begin..end, c, rows, piece);
                if piece.is_empty() {
                    continue;
                }
                if pass != INSIDE {
                    shmem::wait_until(Block, halo.at(signals(now, pass) + c), ge(now));
                }
                changes += Column::of(field, c).step(u, v, piece.clone());
                if pass == INSIDE {
                    continue;
                }
                Block.sync();
                let span = |y: u32| {
                    let first = y * pitch + c * width;
                    v.slice(first..first + width.min(pitch - c * width))
                };
                // Whoever sees the signal has our row, and knows that we have read the one that it put before.
                let (to, there) = match pass {
                    UP => (above, field.rows(above, n) + 1),
                    _ => (below, 0),
                };
                let came = halo.at(signals(now + 1, UP + DOWN - pass) + c);
                let row = span(piece.start);
                shmem::put_signal(Block, span(there), row, came.set(now + 1), to);
            }
        }

        // Two sets, because block 0 may still be adding up one of them.
        let mine = (now % 2) as u32 * blocks;
        if measure {
            let changes = Block.sum(changes);
            if Block.leader() {
                partial.store(mine + Block.id(), changes);
            }
        }
        all.grid().sync();
        if measure && Block.id() == 0 {
            let sum = Block.strided(blocks).map(|i| partial.load(mine + i)).sum();
            let sum = Block.sum::<f32>(sum);
            if Block.leader() {
                residual.store(0, sum);
            }
            all.reduce(Block, shmem::world(), Sum, residual, residual);
        }
    }
    // Every block has read it: all have come to a sync of the grid.
    if iterations != 0 && all.grid().leader() {
        state.store(0, start + u64::from(iterations));
    }
}

/// The `rows` of block column `c`, counted from 1, that lie in a part of the long column.
#[inline(always)]
fn ours(part: Range<u32>, c: u32, all: u32, rows: Range<u32>) -> Range<u32> {
    let first = c * all;
    let start = part.start.max(first + rows.start - 1);
    let end = part.end.min(first + rows.end - 1);
    start + 1 - first..(end + 1).saturating_sub(first)
}
