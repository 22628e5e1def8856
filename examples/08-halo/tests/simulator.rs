//! Fields of many shapes on the simulator, against the same iterations in f64.
use halo_jacobi::{Config, Field, Solver, reference};
use shmem_host::{Backend, World};

/// A number in `0..1` for each place of each field.
fn number(seed: u64, y: u32, x: u32) -> f32 {
    let key = seed << 40 ^ u64::from(y) << 20 ^ u64::from(x);
    let h = (key ^ key >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (h >> 40) as f32 / (1 << 24) as f32
}

/// Runs, with a residual at the end of each.
fn check(pes: u32, seed: u64, field: Field, config: Config, runs: &[(u32, u32)]) -> anyhow::Result<()> {
    let world = World::builder().backend(Backend::Sim).pes(pes).seed(seed).build()?;
    world.run(|pe| {
        let (solver, start) = (Solver::new(&pe, field, config)?, |y, x| number(seed, y, x));
        solver.set(start)?;
        let mut iterations = 0;
        for &(count, every) in runs {
            solver.run(count, every)?;
            iterations += count;
            let (expected, residual) = reference(field, start, iterations);
            let own = expected.chunks(field.nx as usize).skip(solver.first_row() as usize);
            for (i, (got, expected)) in solver.numbers()?.iter().zip(own.flatten()).enumerate() {
                anyhow::ensure!(
                    (f64::from(*got) - expected).abs() < 1e-6,
                    "{iterations} iterations of {field:?} on {pes}, {config:?}: number {i} is {got}, expected {expected}"
                );
            }
            if every != 0 && iterations.is_multiple_of(every) {
                let got = solver.residual()?;
                anyhow::ensure!(
                    (got - residual).abs() <= 1e-5 * residual,
                    "{iterations} iterations of {field:?} on {pes}: the residual is {got}, expected {residual}"
                );
            }
        }
        Ok(pe.barrier_all()?)
    })
}

#[test]
fn shapes() {
    // Few rows for each PE, parts that end anywhere in a block column, more blocks than rows, a width that fills no block.
    let shapes = [(4, 8, 1), (12, 9, 3), (132, 8, 2), (256, 21, 5), (300, 14, 4)];
    for (seed, (nx, ny, blocks)) in (0..).zip(shapes) {
        for pes in 1..=4 {
            let config = Config {
                blocks: Some(blocks),
                threads: if seed % 2 == 0 { 32 } else { 64 },
            };
            check(pes, seed, Field { nx, ny }, config, &[(1, 0), (3, 2), (2, 1)]).unwrap();
        }
    }
}
