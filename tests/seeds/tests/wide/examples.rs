//! The kernels of the examples among more PEs than their own tests have.

use anyhow::{Context, ensure};
use fused_norm::Algorithm;
use gather_matmul::problem::{Blocks, Problem, Shape};
use shmem_host::Pe;

/// All of them, checked against the CPU by their own references.
pub(crate) fn every_example(pe: &Pe) -> anyhow::Result<()> {
    for program in seeds::programs() {
        if ["examples/simple-shift", "examples/ring", "examples/block-put"].contains(&&*program.name) {
            (program.run)(pe).context(program.name)?;
        }
    }
    norm(pe).context("fused-norm")?;
    for (fp8, hidden) in [(false, 8), (true, 128)] {
        experts(pe, fp8, hidden).context("moe")?;
    }
    rows(pe).context("halo-jacobi")?;
    gups::check::check(pe, (2, 32), 32).context("gups")
}

fn norm(pe: &Pe) -> anyhow::Result<()> {
    // More tokens than two shots share out at once.
    let tokens = pe.n() as usize + 1;
    for by in [Algorithm::Packets, Algorithm::OneShot, Algorithm::TwoShot] {
        fused_norm::reference::check(pe, 72, &[tokens, 2], Some(by), 1)?;
    }
    fused_norm::reference::check(pe, 72, &[3], None, 2)
}

/// More experts than PEs, which don't divide them.
fn experts(pe: &Pe, fp8: bool, hidden: u32) -> anyhow::Result<()> {
    let shape = moe::Shape {
        tokens: 2,
        top: 5,
        experts: pe.n() + 3,
        hidden,
    };
    let config = moe::Config {
        shape,
        fp8,
        packets: None,
        blocks: Some(2),
        threads: 32,
    };
    moe::check(pe, config, moe::Routing::Some, 1)
}

/// Two rows for each PE, and one more: the fewest that there may be.
fn rows(pe: &Pe) -> anyhow::Result<()> {
    let field = halo_jacobi::Field {
        nx: 12,
        ny: 2 * pe.n() + 1,
    };
    let config = halo_jacobi::Config {
        blocks: Some(2),
        threads: 32,
    };
    halo_jacobi::check(pe, field, config, 1, &[(1, 0), (3, 2)])
}

/// Multiplying is what takes the simulator long: one tile for each PE's rows.
pub(crate) fn products(pe: &Pe) -> anyhow::Result<()> {
    let shape = Shape {
        rows: 128,
        n: 256,
        k: 64,
    };
    let problem = Problem::new(pe, shape)?;
    problem.fill(1, false)?;
    pe.barrier_all()?;
    problem.gather_matmul(Blocks { grid: 2, movers: 1 })?;
    // Once more what moves, into the other half.
    problem.gather(Blocks { grid: 2, movers: 1 })?;
    pe.stream().synchronize()?;
    problem.check(1)
}

/// What an example can't do among so many PEs, it says.
pub(crate) fn refused(pe: &Pe) -> anyhow::Result<()> {
    let said = |result: anyhow::Result<()>| result.err().map_or_else(String::new, |error| error.to_string());
    let n = pe.n();
    ensure!(
        said(experts(pe, false, 8)).contains("at most 1024 on 32"),
        "moe on {n} PEs"
    );
    let field = halo_jacobi::Field { nx: 12, ny: 2 * n - 1 };
    let config = halo_jacobi::Config {
        blocks: Some(2),
        threads: 32,
    };
    let error = said(halo_jacobi::check(pe, field, config, 1, &[(1, 0)]));
    ensure!(error.contains(&n.to_string()), "halo-jacobi on {n} PEs: {error}");
    Ok(())
}
