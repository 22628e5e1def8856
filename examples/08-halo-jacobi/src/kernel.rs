//! The kernel.
use crate::Field;
use crate::column::Column;
use core::ops::Range;
use shmem::collective::Sum;
use shmem::prelude::*;
use shmem::scope::Gpu;
use shmem::vector::F32x4;

/// Where a neighbour is.
const UP: u32 = 0;
const DOWN: u32 = 1;

/// What goes to and fro between neighbours. These are calls, because they are rare: inlined, they would take registers from the
/// rows that every block computes.
#[derive(Clone, Copy)]
struct Halo {
    field: Field,
    signals: SymSlice<SignalWord>,
}

impl Halo {
    /// Says that the boundary row of a state has come from that side.
    #[inline(always)]
    fn signal(self, state: u64, side: u32, c: u32) -> Signal {
        let set = 2 * (state % 2) as u32 + side;
        self.signals.at(set * self.field.columns(Block.size()) + c)
    }

    /// Waits for the row of a state, of block column `c`.
    #[inline(never)]
    fn wait(self, state: u64, side: u32, c: u32) {
        shmem::wait_until(Block, self.signal(state, side, c), ge(state));
    }

    /// Puts our row of a state to the neighbour on that side. Whoever sees the signal has it, and knows that we have read the one that it
    /// put before.
    #[inline(never)]
    fn send(self, v: SymSlice<F32x4>, state: u64, side: u32, c: u32) {
        let (me, n, pitch) = (shmem::my_pe(), shmem::n_pes(), self.field.nx / 4);
        let (to, row, there) = if side == UP {
            let above = (me + n - 1) % n;
            (above, 1, self.field.rows(above, n) + 1)
        } else {
            ((me + 1) % n, self.field.rows(me, n), 0)
        };
        let span = |y: u32| {
            let first = c * Block.size();
            v.slice(y * pitch + first..y * pitch + pitch.min(first + Block.size()))
        };
        let came = self.signal(state, UP + DOWN - side, c).set(state);
        shmem::put_signal(Block, span(there), span(row), came, to);
    }
}

/// Which state is there, and which number a block has drawn last: places in `state`.
const NOW: u32 = 0;
const DRAWN: u32 = 1;

/// So many iterations. `even` holds states 0, 2, .. of this PE's rows, `odd` the others, each with a row of the neighbours' above and
/// below; the rows of all PEs form a ring. `state` has the state that is there, which becomes the one that is there then, and how many
/// numbers blocks have drawn: both 0 at first.
///
/// `signals` are `[2][2][block column]`: which even or odd state's boundary row has come, from above and from below. After
/// every `every`-th iteration, if that is not 0, `residual` becomes the sum of the squares of all changes in it, on every PE; `partial`
/// has two numbers for each piece.
#[kernel(collective, max_block = 640)]
pub fn jacobi(
    all: Collective,
    field: Field,
    even: SymSlice<F32x4>,
    odd: SymSlice<F32x4>,
    signals: SymSlice<SignalWord>,
    state: Global<u64>,
    iterations: u32,
    every: u32,
    partial: Global<f32>,
    residual: SymSlice<f32>,
) {
    let (rows, width) = (field.rows(shmem::my_pe(), shmem::n_pes()), Block.size());
    let (columns, pieces) = (field.columns(width), field.pieces(rows, width));
    let halo = Halo { field, signals };
    // In each iteration blocks draw every piece's number, and one more each that says that there is none left.
    let draws = u64::from(pieces + thread::grid_size());
    let start = state.load(NOW);
    for now in start..start + u64::from(iterations) {
        let (u, v) = if now % 2 == 0 { (even, odd) } else { (odd, even) };
        let measure = every != 0 && (now + 1) % u64::from(every) == 0;
        // Two sets, because block 0 may still be adding up one of them.
        let mine = (now % 2) as u32 * pieces;
        loop {
            let drawn = if Block.leader() {
                state.word::<Gpu>(DRAWN).fetch_add(1)
            } else {
                0
            };
            let piece = (Block.broadcast(drawn) - now * draws) as u32;
            if piece >= pieces {
                break;
            }
            let (c, own) = (piece % columns, field.piece(rows, piece / columns));
            let (first, last) = (own.start == 1, own.end == rows + 1);
            if first {
                halo.wait(now, UP, c);
            }
            if last {
                halo.wait(now, DOWN, c);
            }
            let column = Column::of(field, c);
            let changes = own.clone().step_by(4).map(|y| column.step(u, v, y, own.end)).sum();
            if measure {
                let changes = Block.sum(changes);
                if Block.leader() {
                    partial.store(mine + piece, changes);
                }
            }
            if first || last {
                Block.sync();
            }
            if first {
                halo.send(v, now + 1, UP, c);
            }
            if last {
                halo.send(v, now + 1, DOWN, c);
            }
        }

        all.grid().sync();
        if measure && Block.id() == 0 {
            add_up(all, partial, mine..mine + pieces, residual);
        }
    }
    // Every block has read it: all have come to a sync of the grid.
    if iterations != 0 && all.grid().leader() {
        state.store(NOW, start + u64::from(iterations));
    }
}

/// Of one block on each PE.
#[inline(never)]
fn add_up(all: Collective, partial: Global<f32>, mine: Range<u32>, residual: SymSlice<f32>) {
    let sum = Block
        .strided(mine.end - mine.start)
        .map(|i| partial.load(mine.start + i))
        .sum();
    let sum = Block.sum::<f32>(sum);
    if Block.leader() {
        residual.store(0, sum);
    }
    all.reduce(Block, shmem::world(), Sum, residual, residual);
}
