//! `seeds NAME`: runs one program over some seeds.
use clap::Parser;
use seeds::{programs, sweep};
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
    /// Only names the programs.
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut code = ExitCode::SUCCESS;
    for program in programs() {
        if !cli.names.is_empty() && !cli.names.contains(&program.name) {
            continue;
        }
        if cli.list {
            println!("{}", program.name);
            continue;
        }
        let began = std::time::Instant::now();
        match sweep(&program, cli.first..cli.first + cli.seeds, cli.jobs) {
            Ok(()) => println!("ok {} {:.3}", program.name, began.elapsed().as_secs_f64()),
            Err(failed) => {
                println!("failed {}: {failed}", program.name);
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}
