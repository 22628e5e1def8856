//! `cargo xtask`: the project's own commands. `run` and `test` do their own set-up.

mod bundle;
mod command;
mod examples;
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
    Test,
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

fn main() -> anyhow::Result<()> {
    match Cli::parse().task {
        Task::Setup { dry_run } => setup::setup(dry_run),
        Task::Run {
            name,
            pes,
            backend,
            release,
            arguments,
        } => examples::run(&name, pes, backend, release, &arguments),
        Task::Info => info(),
        Task::Test => test::test(),
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
