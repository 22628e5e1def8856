//! The last tiles, where they are few: each is made by [`PARTS`] blocks, some of its columns of A and B by each, which then add up.
//!
//! Else all but a few blocks would be done, and those have a whole tile to make when the last rows have come.
use crate::Job;
use core::ops::Range;
use shmem::matrix::PANEL_COLUMNS;
use shmem::matrix::block::{self, COLUMNS, Product, ROWS};
use shmem::prelude::*;
use shmem::registers::unroll;
use shmem::scope::Gpu;
use shmem::vector::{Bf16x2, Bf16x8, F32x2, F32x4};

/// Blocks for a tile.
pub const PARTS: u32 = 8;
/// Tiles at most.
pub const TILES: u32 = 16;
/// Rows that each of them adds up.
const SHARE: u32 = ROWS / PARTS;
/// Numbers of a tile.
const NUMBERS: u32 = ROWS * COLUMNS;
/// Lines of [`Job::parts`].
pub const LINES: usize = (TILES * PARTS * NUMBERS / 4) as usize;

/// What there is to do.
#[derive(Clone, Copy)]
pub struct Split {
    tiles: u32,
    /// Those ahead of the ones that are split.
    whole: u32,
}

/// A part of the `tile`-th tile that is split.
#[derive(Clone, Copy)]
pub struct Part {
    tile: u32,
    part: u32,
}

impl Split {
    /// `blocks` make tiles from the start. No more parts than blocks: each waits for the others of its tile.
    #[inline(always)]
    pub fn new(job: Job, tiles: u32, blocks: u32) -> Self {
        let last = tiles % blocks.max(1);
        let fits = last <= TILES && last * PARTS <= thread::grid_size() && job.k >= PARTS * PANEL_COLUMNS;
        let whole = if fits { tiles - last } else { tiles };
        Self { tiles, whole }
    }

    /// The i-th thing to do: a tile, or a part of it. None behind the last one.
    #[inline(always)]
    pub fn item(self, i: u32) -> Option<(u32, Option<Part>)> {
        if i < self.whole {
            return Some((i, None));
        }
        let (tile, part) = ((i - self.whole) / PARTS, (i - self.whole) % PARTS);
        (self.whole + tile < self.tiles).then_some((self.whole + tile, Some(Part { tile, part })))
    }
}

impl Part {
    /// Its panels.
    #[inline(always)]
    pub fn panels(self, all: u32) -> Range<u32> {
        self.part * all / PARTS..(self.part + 1) * all / PARTS
    }

    /// Leaves the product where the others find it, and adds up some rows of all: always in the same order. `c`: the tile's rows, of
    /// `width` numbers each, of which its own begin at `column`.
    #[inline(always)]
    pub fn add_up(self, job: Job, product: Product, c: Global<bf16>, width: u32, column: u32) {
        let all = job.parts.chunk(self.tile, PARTS * NUMBERS / 4);
        let own = all.chunk(self.part, NUMBERS / 4).cast::<F32x2>();
        product.for_each(|row, at, pair| own.chunk(row, COLUMNS / 2).store(at / 2, F32x2(pair)));
        let done = job.work.word::<Gpu>(crate::SPLIT + self.tile);
        Block.sync();
        if Block.leader() {
            done.add_release(1);
        }
        shmem::wait_until(Block, done, ge(PARTS));
        for i in Block.strided(SHARE * COLUMNS / 8) {
            let (row, at) = (self.part * SHARE + i / (COLUMNS / 8), i % (COLUMNS / 8));
            let mut numbers = [[F32x4::zeroed(); 2]; PARTS as usize];
            unroll::<{ PARTS as usize }>(|p| {
                let lines = all.chunk(p, NUMBERS / 4).chunk(row, COLUMNS / 4);
                numbers[p] = [lines.load(2 * at), lines.load(2 * at + 1)];
            });
            let mut sum = [0.0; 8];
            for part in numbers {
                for j in 0..8 {
                    sum[j] += part[j / 4].0[j % 4];
                }
            }
            c.chunk(row, width)
                .slice(column..column + COLUMNS)
                .cast()
                .store(at, Bf16x8::from_f32(sum));
        }
    }
}

/// A whole tile: as [`Part::add_up`].
#[inline(always)]
pub fn store(product: Product, c: Global<bf16>, width: u32, column: u32) {
    let c = c.cast::<Bf16x2>();
    product.for_each(|row, at, pair| {
        c.chunk(row, width / 2)
            .store(column / 2 + at / 2, Bf16x2::from_f32(pair));
    });
}

const _: () = assert!(block::THREADS <= SHARE * COLUMNS / 8, "each thread adds up something");
