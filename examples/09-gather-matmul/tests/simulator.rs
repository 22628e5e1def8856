//! Random shapes, blocks and seeds on the simulator: one to four PEs, several launches one after the other.
use anyhow::{Context, ensure};
use gather_matmul::problem::{Blocks, Problem, Shape, ShapeError};
use shmem_host::{Backend, Pe, World};

fn on_world(pes: u32, seed: u64, check: impl Fn(&Pe) -> anyhow::Result<()> + Sync) {
    let world = World::builder()
        .backend(Backend::Sim)
        .pes(pes)
        .seed(seed)
        .build()
        .unwrap();
    if let Err(error) = world.run(|pe| check(&pe)) {
        panic!("{pes} PEs, seed {seed}: {error:?}");
    }
}

/// A number below `below` from a seed and a place.
fn random(seed: u64, place: u64, below: u64) -> usize {
    let x = (seed * 31 + place + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (((x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33) % below) as usize
}

fn launches(pes: u32, seed: u64, launches: u32) {
    let shape = Shape {
        rows: 128 * (1 + random(seed, 0, 2)),
        n: 256,
        k: 64 * (1 + random(seed, 1, 5)),
    };
    let grid = 1 + random(seed, 2, 3) as u32;
    let blocks = Blocks {
        grid,
        movers: 1 + random(seed, 3, grid.into()) as u32,
    };
    on_world(pes, seed, |pe| {
        let problem = Problem::new(pe, shape)?;
        let run = || {
            for round in 0..launches {
                problem.fill(round, false)?;
                pe.barrier_all()?;
                problem.gather_matmul(blocks)?;
                pe.stream().synchronize()?;
                problem.check(round)?;
            }
            anyhow::Ok(())
        };
        run().with_context(|| format!("{shape:?}, {blocks:?}"))
    });
}

#[test]
fn random_shapes() {
    for (pes, seeds) in [(1, 0..2), (2, 2..4), (3, 4..6), (4, 6..7)] {
        for seed in seeds {
            launches(pes, seed, 2);
        }
    }
}

/// The last tile is made by eight blocks: of one, and of three where two blocks begin with tiles and six send first.
#[test]
fn a_tile_is_split() {
    let shape = Shape {
        rows: 128,
        n: 256,
        k: 576,
    };
    for (pes, movers, seeds) in [(1, 1, 0..2), (3, 6, 0..1)] {
        for seed in seeds {
            on_world(pes, seed, |pe| {
                let problem = Problem::new(pe, shape)?;
                for round in 0..2 {
                    problem.fill(round, false)?;
                    pe.barrier_all()?;
                    problem.gather_matmul(Blocks { grid: 8, movers })?;
                    pe.barrier_all()?;
                    problem.check(round)?;
                }
                Ok(())
            });
        }
    }
}

/// Columns that are put with two signals, the second one's fewer.
#[test]
fn columns_come_one_after_the_other() {
    let (shape, blocks) = (
        Shape {
            rows: 128,
            n: 256,
            k: 576,
        },
        Blocks { grid: 2, movers: 1 },
    );
    for seed in 0..3 {
        on_world(2, seed, |pe| {
            let problem = Problem::new(pe, shape)?;
            problem.fill(1, false)?;
            pe.barrier_all()?;
            problem.gather_matmul(blocks)?;
            pe.barrier_all()?;
            problem.check(1)
        });
    }
}

/// Without a barrier between them, so that one PE is ahead of another.
#[test]
fn launches_back_to_back() {
    let (shape, blocks) = (
        Shape {
            rows: 128,
            n: 256,
            k: 64,
        },
        Blocks { grid: 2, movers: 1 },
    );
    for seed in 0..4 {
        on_world(3, seed, |pe| {
            let problem = Problem::new(pe, shape)?;
            problem.fill(1, false)?;
            pe.barrier_all()?;
            for _ in 0..3 {
                problem.gather_matmul(blocks)?;
            }
            problem.gather(blocks)?;
            pe.barrier_all()?;
            problem.check(1)
        });
    }
}

#[test]
fn multiplication_alone() {
    on_world(2, 0, |pe| {
        let problem = Problem::new(
            pe,
            Shape {
                rows: 128,
                n: 512,
                k: 128,
            },
        )?;
        problem.fill(2, true)?;
        problem.matmul(Blocks { grid: 3, movers: 1 })?;
        problem.check(2)
    });
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    on_world(1, 0, |pe| {
        for (rows, n, k) in [(100, 256, 64), (128, 128, 64), (128, 256, 32), (0, 256, 64)] {
            let shape = Shape { rows, n, k };
            let error = Problem::new(pe, shape).err().context("it was taken")?;
            ensure!(error.downcast_ref() == Some(&ShapeError(shape)), "{error}");
            ensure!(error.to_string().contains("multiples of 128, 256 and 64"), "{error}");
        }
        Ok(())
    });
}
