//! `seeds NAME`: runs one program over some seeds, or all programs.
//!
//! A run can be split into chunks: `seeds --first 0 --seeds 500 --out runs`, then `--first 500`. Each adds its lines to the
//! file, the last one a sum of the chunk.
use clap::Parser;
use rustix::time::{ClockId, clock_gettime};
use seeds::{programs, sweep};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
struct Cli {
    /// The programs, all if none is named.
    names: Vec<String>,
    /// How many seeds.
    #[arg(short, long, default_value_t = 4)]
    seeds: u64,
    /// The first one.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Worlds side by side: as many as there are cores if not given.
    #[arg(short, long)]
    jobs: Option<usize>,
    /// A file that the results are added to, instead of standard output, where kernels print as well.
    #[arg(short, long)]
    out: Option<PathBuf>,
    /// Only names the programs.
    #[arg(long)]
    list: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let mut out: Box<dyn Write> = match &cli.out {
        Some(path) => Box::new(File::options().append(true).create(true).open(path)?),
        None => Box::new(std::io::stdout()),
    };
    let seeds = cli.first..cli.first + cli.seeds;
    let (mut ran, mut failures, began) = (0, 0, cpu_seconds());
    for program in programs() {
        if !cli.names.is_empty() && !cli.names.contains(&program.name) {
            continue;
        }
        if cli.list {
            println!("{}", program.name);
            continue;
        }
        let before = cpu_seconds();
        ran += 1;
        match sweep(&program, seeds.clone(), cli.jobs) {
            Ok(()) => writeln!(out, "ok {} {:.3} s", program.name, cpu_seconds() - before)?,
            Err(failed) => {
                writeln!(out, "failed {}: {failed}", program.name)?;
                failures += 1;
            }
        }
    }
    if !cli.list {
        writeln!(
            out,
            "{ran} programs, seeds {} to {}: {failures} failed, {:.1} s of CPU",
            seeds.start,
            seeds.end,
            cpu_seconds() - began
        )?;
    }
    Ok(ExitCode::from(u8::from(failures > 0)))
}

/// CPU time of this process.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
