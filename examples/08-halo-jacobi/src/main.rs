//! `cargo xtask run halo-jacobi`: solves a field, and compares with the CPU. With `--bench` it measures iterations of a large one.

use anyhow::ensure;
use clap::Parser;
use halo_jacobi::{Config, Field, Solver, reference};
use shmem_host::{Pe, World};

#[derive(Parser)]
struct Args {
    /// Measures, and prints rows of CSV.
    #[arg(long)]
    bench: bool,
    /// Columns and rows of what is measured.
    #[arg(long, default_value_t = 16384)]
    size: u32,
    /// Blocks of a launch [default: as many as are resident]
    #[arg(long)]
    blocks: Option<u32>,
    /// Threads of a block.
    #[arg(long, default_value_t = 128)]
    threads: u32,
    /// Iterations between two residuals.
    #[arg(long, default_value_t = 100)]
    every: u32,
    /// Iterations of a launch. With 1, launches are measured in a graph of 100.
    #[arg(long, default_value_t = 100)]
    per_launch: u32,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    World::from_env()?.run(|pe| if args.bench { bench(&pe, &args) } else { solve(&pe) })
}

/// What is given at the first and the last column: a wave along them. The field between is 0.
fn start(field: Field) -> impl Fn(u32, u32) -> f32 {
    move |y, x| {
        if x == 0 || x + 1 == field.nx {
            (std::f32::consts::TAU * y as f32 / field.ny as f32).sin()
        } else {
            0.0
        }
    }
}

/// Until an iteration changes next to nothing.
fn solve(pe: &Pe) -> anyhow::Result<()> {
    const EVERY: u32 = 20;
    let simulated = pe.device_name() == "the simulator";
    let (nx, ny, blocks) = if simulated { (16, 10, Some(2)) } else { (260, 67, None) };
    let ny = ny.max(2 * pe.n());
    let (field, config) = (Field { nx, ny }, Config { blocks, threads: 32 });
    let (solver, start) = (Solver::new(pe, field, config)?, start(field));
    solver.set(&start)?;
    let (mut iterations, mut first, mut residual) = (0, 0.0, f64::INFINITY);
    while residual > 1e-2 * first {
        solver.run(EVERY, EVERY)?;
        residual = solver.residual()?;
        if iterations == 0 {
            first = residual;
        }
        iterations += EVERY;
        ensure!(
            iterations < 10_000,
            "the residual is {residual} after {iterations} iterations"
        );
    }
    let (expected, last) = reference(field, &start, iterations);
    ensure!(
        (residual / last - 1.0).abs() < 1e-2,
        "the residual is {residual}, expected {last}"
    );
    let own = expected.chunks(field.nx as usize).skip(solver.first_row() as usize);
    let error = solver
        .numbers()?
        .iter()
        .zip(own.flatten())
        .map(|(got, expected)| (f64::from(*got) - expected).abs())
        .fold(0.0, f64::max);
    ensure!(error < 1e-5, "{error} off after {iterations} iterations");
    println!(
        "PE {}/{}: {iterations} iterations, residual {residual:.3e}, largest error {error:.1e}",
        pe.id(),
        pe.n()
    );
    Ok(pe.barrier_all()?)
}

fn bench(pe: &Pe, args: &Args) -> anyhow::Result<()> {
    const LAUNCHES: u32 = 100;
    const REPETITIONS: usize = 7;
    let (field, stream) = (
        Field {
            nx: args.size,
            ny: args.size,
        },
        pe.stream(),
    );
    let Args {
        blocks,
        threads,
        every,
        per_launch,
        ..
    } = *args;
    let solver = Solver::new(pe, field, Config { blocks, threads })?;
    solver.set(start(field))?;
    let graph = if per_launch == 1 {
        Some(stream.capture(|| (0..LAUNCHES).try_for_each(|_| solver.run(1, every)))?)
    } else {
        None
    };
    let mut seconds = Vec::new();
    // The first two are warm-ups.
    for repetition in 0..REPETITIONS + 2 {
        pe.barrier_all()?;
        let took = match &graph {
            Some(graph) => stream.timed(|| graph.launch(stream))? / LAUNCHES,
            None => stream.timed(|| solver.run(per_launch, every))? / per_launch,
        };
        if repetition >= 2 {
            seconds.push(took.as_secs_f64());
        }
    }
    seconds.sort_by(f64::total_cmp);
    let us = seconds[REPETITIONS / 2] * 1e6;
    if pe.id() == 0 {
        let (size, n, date) = (args.size, pe.n(), time::OffsetDateTime::now_utc().date());
        let gbps = f64::from(size) * f64::from(size) * 8e-3 / us / f64::from(n);
        eprintln!(
            "# {} blocks x {threads}, {per_launch} per launch: {gbps:.0} GB/s on each PE",
            solver.blocks()
        );
        println!("example,shape,ours,peer,peer_name,unit,date");
        println!("halo-jacobi,{size}x{size} on {n},{us:.1},,,us,{date}");
    }
    Ok(pe.barrier_all()?)
}
