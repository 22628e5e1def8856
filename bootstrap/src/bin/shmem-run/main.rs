//! `shmem-run -n 4 -- ./app arguments`: starts the processes of a job on this machine, and ends all of them when one fails.
//!
//! | file | what it holds |
//! |---|---|
//! | `job` | starting the processes, and what they are told |
//! | `watch` | their ends, signals, the exit code |
//! | `output` | their lines, with the rank before each |
//! | `guard` | ends what they started when shmem-run itself is killed |

mod guard;
mod job;
mod output;
mod watch;

use clap::Parser;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Parser)]
#[command(
    name = "shmem-run",
    about = "Runs a program as the processes of one job on this machine",
    after_help = "Each process gets SHMEM_RANK, SHMEM_SIZE, SHMEM_ROOT and SHMEM_SECRET, and a process group of its own. The exit code is \
                  that of the first process that failed, 128 + the signal if one ended it."
)]
struct Cli {
    /// How many processes.
    #[arg(short = 'n', long = "processes", value_parser = clap::value_parser!(u32).range(1..=4096), required_unless_present = "guard")]
    n: Option<u32>,
    /// Seconds that the others have to end by themselves after one failed, and again after SIGTERM, before SIGKILL.
    #[arg(long, default_value = "2", value_parser = seconds)]
    grace: Duration,
    /// Lines as they are, without the rank.
    #[arg(long)]
    no_prefix: bool,
    /// The guard of a shmem-run.
    #[arg(long, hide = true)]
    guard: bool,
    /// The program and its arguments.
    #[arg(trailing_var_arg = true, required_unless_present = "guard")]
    command: Vec<OsString>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "not a number of seconds".to_string())?;
    Duration::try_from_secs_f64(number).map_err(|e| e.to_string())
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if cli.guard {
        guard::serve();
        return ExitCode::SUCCESS;
    }
    match run(&cli) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("shmem-run: {error:#}");
            // As shells say that a program could not be started.
            ExitCode::from(127)
        }
    }
}

fn run(cli: &Cli) -> anyhow::Result<u8> {
    // Before the first process: none of them must be missed by a signal.
    let signals = watch::signals()?;
    let guard = guard::Guard::start()?;
    let job = job::start(cli.n.unwrap_or(1), &cli.command, !cli.no_prefix, guard)?;
    Ok(watch::watch(job, signals, cli.grace))
}
