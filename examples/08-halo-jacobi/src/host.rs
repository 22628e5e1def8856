//! The host's side: memory, launches, and the same on the CPU.

use crate::{Field, jacobi};
use anyhow::ensure;
use shmem::SignalWord;
use shmem::bytemuck::cast_slice;
use shmem::vector::F32x4;
use shmem_host::{Buf, Error, Pe, SymBuf, collective_launch};

/// How the kernel is launched.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Blocks, or as many as are resident at once.
    pub blocks: Option<u32>,
    /// Threads of a block: a multiple of 32, at most 640.
    pub threads: u32,
}

/// One PE's part of a field.
pub struct Solver<'a> {
    pe: &'a Pe,
    field: Field,
    config: Config,
    blocks: u32,
    states: [SymBuf<F32x4>; 2],
    halo: SymBuf<SignalWord>,
    state: Buf<u64>,
    partial: Buf<f32>,
    residual: SymBuf<f32>,
}

impl<'a> Solver<'a> {
    /// A field of zeros. Collective.
    ///
    /// # Errors
    /// A field that can't be split so, a configuration that the kernel doesn't have; those of allocations.
    pub fn new(pe: &'a Pe, field: Field, config: Config) -> anyhow::Result<Self> {
        let Field { nx, ny } = field;
        ensure!(
            nx > 0 && nx.is_multiple_of(4) && ny >= 2 * pe.n(),
            "a field of {nx} columns and {ny} rows for {} PEs: take 4, 8, 12, .. columns, and two rows for each PE at least",
            pe.n()
        );
        let Config { blocks, threads } = config;
        ensure!(
            threads > 0 && threads.is_multiple_of(32) && threads <= 640 && blocks != Some(0),
            "{config:?}: a launch has one block at least, and a block 32, 64, .. 640 threads"
        );
        let blocks = match blocks {
            Some(blocks) => blocks,
            None => pe.max_collective_grid::<jacobi>(threads, 0)?,
        };
        // The largest part, whose size all PEs share.
        let numbers = u64::from(field.rows(0, pe.n()) + 2) * u64::from(nx);
        ensure!(
            u32::try_from(numbers).is_ok(),
            "{numbers} numbers on each PE: indices have 32 bits, take more PEs"
        );
        let (columns, pieces) = (
            field.columns(threads) as usize,
            field.pieces(field.rows(pe.id(), pe.n()), threads) as usize,
        );
        Ok(Self {
            pe,
            field,
            config,
            blocks,
            states: [pe.alloc(numbers as usize / 4)?, pe.alloc(numbers as usize / 4)?],
            halo: pe.signals(4 * columns)?,
            state: pe.buffer(2)?,
            partial: pe.buffer(2 * pieces)?,
            residual: pe.alloc(1)?,
        })
    }

    /// Sets each number of the field by its row and column. Collective.
    ///
    /// # Errors
    /// Those of reads, writes and barriers.
    pub fn set(&self, number: impl Fn(u32, u32) -> f32) -> anyhow::Result<()> {
        self.pe.barrier_all()?;
        let Field { nx, ny } = self.field;
        let (first, rows) = (self.first_row(), self.rows());
        let row = |y: u32| (0..nx).map(|x| number(y, x)).collect::<Vec<_>>();
        let now = self.now()?;
        for y in 0..rows + 2 {
            // One row at a time: a large field does not fit the host's memory twice.
            let numbers = row((first + y + ny - 1) % ny);
            now.write_at(y as usize * nx as usize / 4, cast_slice(&numbers))?;
        }
        Ok(self.pe.barrier_all()?)
    }

    /// Enqueues so many iterations, the residual of every `every`-th. Collective; may be captured.
    ///
    /// # Errors
    /// Those of launches.
    pub fn run(&self, iterations: u32, every: u32) -> Result<(), Error> {
        let Self {
            pe,
            field,
            blocks,
            halo,
            state,
            partial,
            residual,
            ..
        } = self;
        let ([even, odd], threads) = (&self.states, self.config.threads);
        collective_launch!(
            pe,
            jacobi<<<*blocks, threads>>>(*field, even, odd, halo, state, iterations, every, partial, residual)
        )
    }

    /// The last residual: the root of the sum of the squares of all changes in one iteration.
    ///
    /// # Errors
    /// Those of kernels.
    pub fn residual(&self) -> Result<f64, Error> {
        Ok(f64::from(self.residual.read(0)?).sqrt())
    }

    /// This PE's rows.
    ///
    /// # Errors
    /// Those of kernels.
    pub fn numbers(&self) -> anyhow::Result<Vec<f32>> {
        let pitch = self.field.nx as usize / 4;
        let mut rows = vec![F32x4([0.0; 4]); self.rows() as usize * pitch];
        self.now()?.read_into(pitch, &mut rows)?;
        Ok(cast_slice(&rows).to_vec())
    }

    /// How many rows this PE has.
    pub fn rows(&self) -> u32 {
        self.field.rows(self.pe.id(), self.pe.n())
    }

    /// The first of its rows, in the whole field.
    pub fn first_row(&self) -> u32 {
        (0..self.pe.id()).map(|pe| self.field.rows(pe, self.pe.n())).sum()
    }

    /// Blocks of a launch.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    fn now(&self) -> anyhow::Result<&SymBuf<F32x4>> {
        Ok(&self.states[(self.state.read(0)? % 2) as usize])
    }
}

/// The field after so many iterations, in f64, by rows; and the residual of the last one.
pub fn reference(field: Field, number: impl Fn(u32, u32) -> f32, iterations: u32) -> (Vec<f64>, f64) {
    let (nx, ny) = (field.nx as usize, field.ny as usize);
    let mut u: Vec<f64> = (0..ny * nx)
        .map(|i| f64::from(number((i / nx) as u32, (i % nx) as u32)))
        .collect();
    let mut residual = 0.0f64;
    for _ in 0..iterations {
        let mut v = u.clone();
        residual = 0.0;
        for y in 0..ny {
            let (up, row, down) = ((y + ny - 1) % ny * nx, y * nx, (y + 1) % ny * nx);
            for x in 1..nx - 1 {
                v[row + x] = 0.25 * (u[row + x - 1] + u[row + x + 1] + u[up + x] + u[down + x]);
                residual += (v[row + x] - u[row + x]).powi(2);
            }
        }
        u = v;
    }
    (u, residual.sqrt())
}
