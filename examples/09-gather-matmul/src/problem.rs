//! The host's side: memory and data of one problem, its launches, and a reference in f64.
#![allow(
    clippy::missing_errors_doc,
    reason = "those of the calls in them, and of `check` the first element that is wrong"
)]
use crate::{Job, WORK, gather, gather_matmul, matmul, mover, split};
use anyhow::ensure;
use shmem::matrix::block::{COLUMNS, ROWS, SHARED_BYTES, THREADS};
use shmem::vector::F32x4;
use shmem::{SignalWord, bf16};
use shmem_host::{Buf, Error, Pe, SymBuf, collective_launch};

/// C of `n_pes * rows` by `n`, A of as many rows by `k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows of A that each PE has.
    pub rows: usize,
    /// Columns of each PE's C.
    pub n: usize,
    /// Columns of A and B.
    pub k: usize,
}

/// A shape that the kernels don't multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a PE's rows, n and k are {}, {} and {}: give multiples of {ROWS}, {COLUMNS} and 64, and less than 2^31 elements \
     in each matrix (pad with zeros)", .0.rows, .0.n, .0.k
)]
pub struct ShapeError(pub Shape);

/// Blocks, and how many of them send first.
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    /// All, of which all must be resident.
    pub grid: u32,
    /// Those that send.
    pub movers: u32,
}

/// One PE's matrices.
pub struct Problem<'a> {
    pe: &'a Pe,
    shape: Shape,
    a: SymBuf<bf16>,
    gathered: SymBuf<bf16>,
    ready: SymBuf<SignalWord>,
    b: Buf<bf16>,
    c: Buf<bf16>,
    work: Buf<u32>,
    parts: Buf<F32x4>,
}

impl<'a> Problem<'a> {
    /// Allocates; every PE calls it.
    pub fn new(pe: &'a Pe, shape: Shape) -> anyhow::Result<Self> {
        let Shape { rows, n, k } = shape;
        let pes = pe.n() as usize;
        let fits = [(rows, ROWS), (n, COLUMNS), (k, 64)]
            .into_iter()
            .all(|(x, of)| x != 0 && x % of as usize == 0);
        let small = [pes * rows * k, n * k, pes * rows * n]
            .into_iter()
            .all(|len| len < 1 << 31);
        ensure!(fits && small, ShapeError(shape));
        let work = pe.buffer(WORK)?;
        work.write(&[0; WORK])?;
        Ok(Self {
            pe,
            shape,
            a: pe.alloc(rows * k)?,
            gathered: pe.alloc(2 * pes * rows * k)?,
            ready: pe.signals(pes * rows / mover::ROWS as usize)?,
            b: pe.buffer(n * k)?,
            c: pe.buffer(pes * rows * n)?,
            work,
            parts: pe.buffer(split::LINES)?,
        })
    }

    /// As many blocks as are resident at once, and enough movers for a link.
    pub fn blocks(&self) -> Result<Blocks, Error> {
        let tiles = self.c.len() / (ROWS * COLUMNS) as usize;
        let grid = self.pe.max_collective_grid::<gather_matmul>(THREADS, SHARED_BYTES)?;
        let grid = grid.min(tiles as u32 * split::PARTS);
        Ok(Blocks {
            grid,
            movers: grid.min(11),
        })
    }

    fn job(&self, blocks: Blocks) -> Job {
        Job {
            a: self.a.handle(),
            gathered: self.gathered.handle(),
            ready: self.ready.handle(),
            b: self.b.handle(),
            c: self.c.handle(),
            work: self.work.handle(),
            parts: self.parts.handle(),
            k: self.shape.k as u32,
            movers: blocks.movers,
        }
    }

    /// Enqueues the whole.
    pub fn gather_matmul(&self, blocks: Blocks) -> Result<(), Error> {
        let (pe, grid) = (self.pe, blocks.grid);
        collective_launch!(pe, gather_matmul<<<grid, THREADS, SHARED_BYTES>>>(self.job(blocks)))
    }

    /// Enqueues the multiplication of what lies in the first half of the gathered rows.
    pub fn matmul(&self, blocks: Blocks) -> Result<(), Error> {
        let (pe, grid) = (self.pe, blocks.grid);
        let job = Job {
            a: self.gathered.part(..self.gathered.len() / 2)?,
            ..self.job(blocks)
        };
        collective_launch!(pe, matmul<<<grid, THREADS, SHARED_BYTES>>>(job))
    }

    /// Enqueues the communication.
    pub fn gather(&self, blocks: Blocks) -> Result<(), Error> {
        let (pe, grid) = (self.pe, blocks.movers);
        collective_launch!(pe, gather<<<grid, THREADS, SHARED_BYTES>>>(self.job(blocks)))
    }

    /// Fills A and B with data of this round. `whole`: all of A as if it had been gathered; else nothing has been.
    pub fn fill(&self, round: u32, whole: bool) -> Result<(), Error> {
        let Shape { rows, n, k } = self.shape;
        let (me, pes) = (self.pe.id() as usize, self.pe.n() as usize);
        let values = |matrix, range: std::ops::Range<usize>| range.map(|i| value(round, matrix, i)).collect::<Vec<_>>();
        self.a.write(&values(A, me * rows * k..(me + 1) * rows * k))?;
        self.b.write(&values(B + self.pe.id(), 0..n * k))?;
        self.c.write(&vec![bf16::NAN; pes * rows * n])?;
        if whole {
            let all = values(A, 0..pes * rows * k);
            self.gathered.write_at(0, &all)?;
            return self.gathered.write_at(all.len(), &all);
        }
        self.gathered.write(&vec![bf16::NAN; self.gathered.len()])
    }

    /// Compares the others' rows that the launch of this number, from 1 on, has gathered.
    pub fn check_gathered(&self, round: u32, launch: usize) -> anyhow::Result<()> {
        let Shape { rows, k, .. } = self.shape;
        // The other half may be written already, by who has begun the next launch.
        let mut half = vec![bf16::NAN; self.gathered.len() / 2];
        self.gathered.read_into(launch % 2 * half.len(), &mut half)?;
        for (i, got) in half
            .iter()
            .enumerate()
            .filter(|(i, _)| i / (rows * k) != self.pe.id() as usize)
        {
            let expected = value(round, A, i);
            ensure!(
                *got == expected,
                "round {round}: A[{}, {}] came as {got}, expected {expected}",
                i / k,
                i % k
            );
        }
        Ok(())
    }

    /// Compares C with a reference in f64: all of it where that is little work, else some of it everywhere.
    pub fn check(&self, round: u32) -> anyhow::Result<()> {
        const WORK: usize = 1 << 23;
        let Shape { n, k, .. } = self.shape;
        let c = self.c.to_vec()?;
        // An odd step comes to all columns.
        let step = (c.len() * k).div_ceil(WORK) | 1;
        let run = |matrix: u32, i: usize| -> Vec<f64> {
            let elements = i * k..(i + 1) * k;
            elements.map(|i| f64::from(value(round, matrix, i))).collect()
        };
        let (mut row, mut columns) = ((usize::MAX, vec![]), vec![vec![]; n]);
        for i in (0..c.len()).step_by(step) {
            if row.0 != i / n {
                row = (i / n, run(A, i / n));
            }
            let column = &mut columns[i % n];
            if column.is_empty() {
                *column = run(B + self.pe.id(), i % n);
            }
            let expected: f64 = row.1.iter().zip(&*column).map(|(x, y)| x * y).sum();
            let (got, allowed) = (f64::from(c[i]), expected.abs() / 256.0 + k as f64 * 1e-6);
            ensure!(
                (got - expected).abs() <= allowed,
                "round {round}: C[{}, {}] is {got}, expected {expected} within {allowed}",
                i / n,
                i % n
            );
        }
        Ok(())
    }
}

const A: u32 = 0;
const B: u32 = 1;

/// A number from -1 to 1 that depends on all three and looks random.
fn value(round: u32, matrix: u32, i: usize) -> bf16 {
    let x = (i as u32 ^ (matrix << 27) ^ (round << 23)).wrapping_mul(0x9e37_79b9);
    let x = (x ^ (x >> 15)).wrapping_mul(0x85eb_ca6b);
    bf16::from_f32((x ^ (x >> 13)) as i32 as f32 / (1u32 << 31) as f32)
}
