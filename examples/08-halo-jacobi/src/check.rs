//! Iterations, and the same in f64 on the CPU: what tests run.

use crate::{Config, Field, Solver, reference};
use anyhow::ensure;
use shmem_host::Pe;

/// A number in `0..1` for each place of each field.
fn number(seed: u64, y: u32, x: u32) -> f32 {
    let key = seed << 40 ^ u64::from(y) << 20 ^ u64::from(x);
    let h = (key ^ key >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (h >> 40) as f32 / (1 << 24) as f32
}

/// Runs of so many iterations and a residual every so many, of a field that follows from the seed. Collective.
///
/// # Errors
/// What is wrong.
pub fn check(pe: &Pe, field: Field, config: Config, seed: u64, runs: &[(u32, u32)]) -> anyhow::Result<()> {
    let (solver, start) = (Solver::new(pe, field, config)?, |y, x| number(seed, y, x));
    solver.set(start)?;
    let mut iterations = 0;
    for &(count, every) in runs {
        solver.run(count, every)?;
        iterations += count;
        let (expected, residual) = reference(field, start, iterations);
        let own = expected.chunks(field.nx as usize).skip(solver.first_row() as usize);
        for (i, (got, expected)) in solver.numbers()?.iter().zip(own.flatten()).enumerate() {
            ensure!(
                (f64::from(*got) - expected).abs() < 1e-6,
                "{iterations} iterations of {field:?}, {config:?}: number {i} is {got}, expected {expected}"
            );
        }
        if every != 0 && iterations.is_multiple_of(every) {
            let got = solver.residual()?;
            ensure!(
                (got - residual).abs() <= 1e-5 * residual,
                "{iterations} iterations of {field:?}: the residual is {got}, expected {residual}"
            );
        }
    }
    Ok(pe.barrier_all()?)
}
