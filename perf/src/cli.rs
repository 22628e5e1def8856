//! The command line: a subcommand for each benchmark, `all`, `list`, `compare` and `plot`.

use crate::options::{AtomicOp, Datatype, Options, ReduceOp, Scope, Takes};
use crate::output::Format;
use crate::{BENCHMARKS, Benchmark, compare, plot_table, run};
use clap::{Args, Command, FromArgMatches, ValueEnum, value_parser};
use std::path::PathBuf;

/// What `all` takes; a benchmark without a use for it leaves it out.
const ALL: &[Takes] = &[Takes::Sizes, Takes::Iterations];

/// What goes for every benchmark.
#[derive(Args, Clone)]
pub(crate) struct Common {
    /// Where kernels run; default: what SHMEM_BACKEND says, or GPUs if there are any.
    #[arg(long, global = true)]
    backend: Option<Backend>,
    /// PEs of this process; default: what SHMEM_NPES says, or one for each device.
    #[arg(long, global = true, value_parser = value_parser!(u32).range(1..=1024))]
    pes: Option<u32>,
    /// A short run: fewer sizes and shapes, shorter repetitions.
    #[arg(long, global = true)]
    pub(crate) quick: bool,
    /// Leaves the data unchecked.
    #[arg(long, global = true)]
    pub(crate) no_verify: bool,
    /// What is printed; default: a table on a terminal, else csv.
    #[arg(long, global = true)]
    pub(crate) format: Option<Format>,
    /// Also writes the rows to a CSV file.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Also writes the rows to a JSON file.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Also draws SVG plots of what has several sizes.
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) plot: Option<PathBuf>,
    /// Results of a peer, put beside ours: rows of the peer's suite or of torch_baseline.py.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) peer: Vec<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Backend {
    Auto,
    Cuda,
    Sim,
}

impl Common {
    /// Settings of the World, which reads them from the environment as those of a launcher.
    fn to_environment(&self) {
        let backend = self.backend.and_then(|backend| backend.to_possible_value());
        let backend = backend.map(|backend| ("SHMEM_BACKEND", backend.get_name().to_owned()));
        let pes = self.pes.map(|pes| ("SHMEM_NPES", pes.to_string()));
        for (name, value) in backend.into_iter().chain(pes) {
            // SAFETY: the program has one thread yet.
            unsafe { std::env::set_var(name, value) };
        }
    }
}

/// One benchmark's options, with the letters of NVSHMEM's perftests.
#[derive(Args, Clone)]
struct BenchArgs {
    /// The smallest size, in bytes (K, M, G).
    #[arg(short = 'b', long = "min_size", value_name = "BYTES", value_parser = bytes)]
    begin: Option<usize>,
    /// The largest.
    #[arg(short = 'e', long = "max_size", value_name = "BYTES", value_parser = bytes)]
    end: Option<usize>,
    /// From one size to the next.
    #[arg(short = 'f', long = "step", value_name = "FACTOR", value_parser = value_parser!(u32).range(2..))]
    factor: Option<u32>,
    /// Iterations of a repetition; default: as many as take 8 ms.
    #[arg(short = 'n', long = "iters", value_parser = value_parser!(u32).range(1..))]
    iters: Option<u32>,
    /// Iterations of the warm-up; default: as many as of a repetition.
    #[arg(short = 'w', long = "warmup_iters")]
    warmup: Option<u32>,
    /// Repetitions, whose median is the row; default: 5.
    #[arg(short = 'r', long, value_parser = value_parser!(u32).range(1..))]
    repetitions: Option<u32>,
    /// CTAs (thread blocks) of a launch.
    #[arg(short = 'c', long, value_parser = value_parser!(u32).range(1..))]
    ctas: Option<u32>,
    /// Threads per CTA.
    #[arg(short = 't', long = "threads_per_cta")]
    threads: Option<u32>,
    /// Element type.
    #[arg(short = 'd', long)]
    datatype: Option<Datatype>,
    /// What a reduction does.
    #[arg(short = 'o', long = "reduce_op")]
    reduce_op: Option<ReduceOp>,
    /// The atomic operation.
    #[arg(short = 'a', long = "atomic_op")]
    atomic_op: Option<AtomicOp>,
    /// Who calls.
    #[arg(short = 's', long)]
    scope: Option<Scope>,
    /// Both PEs at once, and the sum of both.
    #[arg(long)]
    bidir: bool,
}

fn bytes(text: &str) -> Result<usize, String> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let shift = match unit {
        "" => Some(0),
        "K" | "k" => Some(10),
        "M" | "m" => Some(20),
        "G" | "g" => Some(30),
        _ => None,
    };
    let parsed = digits.parse::<usize>().ok().zip(shift);
    parsed
        .and_then(|(n, shift)| n.checked_mul(1 << shift))
        .ok_or_else(|| "a size is a number of bytes, with K, M or G after it for units of 1024, as in 64K".to_owned())
}

/// A subcommand with those of the options that it has a use for in its help. The others are refused later, with advice.
fn subcommand(name: &'static str, about: &'static str, takes: &[Takes]) -> Command {
    let options: [(Takes, &[&str]); 9] = [
        (Takes::Sizes, &["begin", "end", "factor"]),
        (Takes::Iterations, &["iters", "warmup", "repetitions"]),
        (Takes::Ctas, &["ctas"]),
        (Takes::Threads, &["threads"]),
        (Takes::Datatype, &["datatype"]),
        (Takes::ReduceOp, &["reduce_op"]),
        (Takes::AtomicOp, &["atomic_op"]),
        (Takes::Scope, &["scope"]),
        (Takes::Bidir, &["bidir"]),
    ];
    let unused = options.into_iter().filter(|(kind, _)| !takes.contains(kind));
    unused
        .flat_map(|(_, names)| names)
        .fold(BenchArgs::augment_args(Command::new(name)), |command, name| {
            command.mut_arg(name, |option| option.hide(true))
        })
        .about(about)
}

fn command() -> Command {
    let compare = compare::CompareArgs::augment_args(Command::new("compare"));
    let plot = plot_table::PlotArgs::augment_args(Command::new("plot"));
    let top = Command::new("shmem-perf")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .max_term_width(120)
        .subcommand(subcommand("all", "Every benchmark", ALL))
        .subcommand(Command::new("list").about("What there is"))
        .subcommand(compare.about("Puts results of ours and of peers into one table"))
        .subcommand(plot.about("Draws a table of the examples beside their peers"));
    let benchmark = |benchmark: &Benchmark| {
        let command = subcommand(benchmark.name, benchmark.what, benchmark.takes);
        match benchmark.perftest {
            "" => command,
            perftest => command.alias(perftest),
        }
    };
    Common::augment_args(top.subcommands(BENCHMARKS.iter().map(benchmark)))
        .about("Benchmarks of puts, gets, signals, atomics, collectives and launches, with those of NVSHMEM's perftests among them")
}

pub(crate) fn main() -> anyhow::Result<()> {
    let matches = command().get_matches();
    let Some((name, given)) = matches.subcommand() else {
        return Ok(());
    };
    match name {
        "list" => {
            list();
            return Ok(());
        }
        "compare" => {
            let common = Common::from_arg_matches(given)?;
            let args = compare::CompareArgs::from_arg_matches(given)?;
            return compare::main(&args, common.pes.unwrap_or(2), common.plot.as_deref());
        }
        "plot" => return plot_table::main(&plot_table::PlotArgs::from_arg_matches(given)?),
        _ => {}
    }
    let common = Common::from_arg_matches(given)?;
    let args = BenchArgs::from_arg_matches(given)?;
    let options = Options {
        begin: args.begin,
        end: args.end,
        factor: args.factor.map(|factor| factor as usize),
        iters: args.iters,
        warmup: args.warmup,
        repetitions: args.repetitions,
        ctas: args.ctas,
        threads: args.threads,
        datatype: args.datatype,
        reduce_op: args.reduce_op,
        atomic_op: args.atomic_op,
        scope: args.scope,
        bidir: args.bidir,
        quick: common.quick,
        verify: !common.no_verify,
    };
    let (benchmarks, takes): (Vec<_>, &[Takes]) = match BENCHMARKS.iter().find(|one| one.name == name) {
        Some(one) => (vec![one], one.takes),
        None => (BENCHMARKS.iter().collect(), ALL),
    };
    options.check(name, takes)?;
    common.to_environment();
    run::run(&benchmarks, &options, &common)
}

fn list() {
    for benchmark in BENCHMARKS {
        let perftest = match benchmark.perftest {
            "" => String::new(),
            perftest => format!(" ({perftest})"),
        };
        println!("{:20} {}{perftest}", benchmark.name, benchmark.what);
    }
}
