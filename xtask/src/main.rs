//! `cargo xtask`: the project's own commands. `run` and `test` do their own set-up.

mod bundle;
mod command;
mod examples;
mod gallery;
mod mutants;
mod ptx;
mod setup;
mod stub;
mod test;

use clap::{Parser, Subcommand, ValueEnum};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Set-up, examples, tests, bundles for GPU nodes")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Finds or installs the device compiler and the PTX tools.
    Setup {
        /// Only says what would be done.
        #[arg(long)]
        dry_run: bool,
    },
    /// Runs an example, on GPUs where there are any, else on the simulator.
    Run {
        /// Its name: simple-shift, ring, ..
        name: String,
        /// How many PEs.
        #[arg(short = 'n', long = "pes")]
        pes: Option<u32>,
        /// One process for each PE, through shmem-run.
        #[arg(long)]
        processes: bool,
        /// Where kernels run.
        #[arg(long, default_value = "auto")]
        backend: Backend,
        /// Optimised build.
        #[arg(long)]
        release: bool,
        /// What the example itself is given.
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Prints settings with their sources, devices and versions.
    Info,
    /// Runs every test: unit, doc, compile-fail, conformance on the simulator, PTX and SASS.
    Test {
        /// 10,000 seeds of every kernel, every kernel for every architecture, PTX also for later GPUs than it is meant for, the
        /// conformance suite at its full size unoptimised too, and each call that orders left out in turn: takes hours.
        #[arg(long)]
        full: bool,
        /// Only what goes over one path, with every PE on it: conformance, random programs, seeds of every shipped kernel, and
        /// the simulator's litmus tests.
        #[arg(long)]
        path: Option<Path>,
    },
    /// Runs every planted communication bug and its fixed twin on the simulator, and prints what was found.
    Gallery {
        /// Seeds of each twin; bugs get a tenth.
        #[arg(long, default_value_t = 10_000)]
        seeds: u64,
        /// Prints every report whole.
        #[arg(long)]
        reports: bool,
        /// Puts the table into docs/src/gallery.md.
        #[arg(long)]
        write: bool,
    },
    /// Leaves each call that orders out of the shipped kernels, in turn: does the simulator notice?
    Mutants {
        /// Seeds of each.
        #[arg(long, default_value_t = 36)]
        seeds: u64,
        /// Only programs whose name contains this.
        #[arg(long)]
        only: Option<String>,
        /// Where the table goes besides.
        #[arg(short, long)]
        output: Option<std::path::PathBuf>,
    },
    /// Formatting, clippy, documentation: all without warnings.
    Lint,
    /// Builds a folder of programs that runs on a GPU node without cargo.
    Bundle {
        /// Packages: examples, conformance, shmem-perf.
        #[arg(required = true)]
        names: Vec<String>,
        /// The folder.
        #[arg(short, long, default_value = "bundle")]
        output: std::path::PathBuf,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Backend {
    Auto,
    Sim,
    Cuda,
}

/// As `SHMEM_PATH` takes it.
#[derive(Clone, Copy, ValueEnum)]
enum Path {
    LoadStore,
    /// Emulated network adapters carry everything.
    Ibgda,
    /// Load and store inside a node, emulated adapters between nodes.
    Mixed,
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().task {
        Task::Setup { dry_run } => setup::setup(dry_run),
        Task::Run {
            name,
            pes,
            processes,
            backend,
            release,
            arguments,
        } => {
            let pes = if processes {
                examples::Pes::Processes(pes.unwrap_or(4))
            } else {
                examples::Pes::Threads(pes)
            };
            examples::run(&name, &pes, backend, release, &arguments)
        }
        Task::Test { full, path: None } => test::test(full),
        Task::Test { full, path: Some(path) } => test::over(path, full),
        Task::Mutants { seeds, only, output } => mutants::mutants(seeds, only.as_deref(), output.as_deref()),
        Task::Gallery { seeds, reports, write } => gallery::gallery(seeds, reports, write),
        Task::Info => info(),
        Task::Lint => test::lint(),
        Task::Bundle { names, output } => bundle::bundle(&names, &output),
    }
}

fn info() -> anyhow::Result<()> {
    setup::setup(true)?;
    command::run(&mut command::cargo(&[
        "run",
        "--quiet",
        "--package",
        "shmem-host",
        "--example",
        "info",
    ]))
}
