//! What a benchmark may be told, by the names that NVSHMEM's perftests have for it.

use clap::ValueEnum;
use shmem_perf::data;

/// An element type of the collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Datatype {
    /// f32
    #[value(alias = "f32")]
    Float,
    /// f64
    #[value(alias = "f64")]
    Double,
    /// i32
    #[value(aliases = ["int", "i32", "int32_t"])]
    Int32,
    /// i64
    #[value(aliases = ["long", "longlong", "i64", "int64_t"])]
    Int64,
    /// f16
    #[value(alias = "f16")]
    Fp16,
    /// bf16
    Bf16,
}

/// What a reduction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReduceOp {
    Sum,
    Prod,
    Min,
    Max,
    And,
    Or,
    Xor,
}

impl ReduceOp {
    /// As kernels know it.
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Sum => data::op::SUM,
            Self::Prod => data::op::PROD,
            Self::Min => data::op::MIN,
            Self::Max => data::op::MAX,
            Self::And => data::op::AND,
            Self::Or => data::op::OR,
            Self::Xor => data::op::XOR,
        }
    }
}

/// An atomic operation, on words of 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum AtomicOp {
    Inc,
    Add,
    And,
    Or,
    Xor,
    Set,
    Swap,
    FetchInc,
    FetchAdd,
    FetchAnd,
    FetchOr,
    FetchXor,
    CompareSwap,
}

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scope {
    Thread,
    Warp,
    Block,
    /// All blocks of a launch; collectives only.
    Grid,
    /// Each that the benchmark has.
    All,
}

/// The name on the command line and in rows.
pub(crate) fn name(value: &impl ValueEnum) -> String {
    value
        .to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
}

/// One kind of option, where a benchmark has a use for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// `-b`, `-e`, `-f`
    Sizes,
    /// `-n`, `-w`, `-r`
    Iterations,
    /// `-c`
    Ctas,
    /// `-t`
    Threads,
    /// `-d`
    Datatype,
    /// `-o`
    ReduceOp,
    /// `-a`
    AtomicOp,
    /// `-s`
    Scope,
    /// `--bidir`
    Bidir,
}

/// What was asked for. None: the benchmark's own choice, which is that of the peer's suite.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) begin: Option<usize>,
    pub(crate) end: Option<usize>,
    pub(crate) factor: Option<usize>,
    pub(crate) iters: Option<u32>,
    pub(crate) warmup: Option<u32>,
    pub(crate) repetitions: Option<u32>,
    pub(crate) ctas: Option<u32>,
    pub(crate) threads: Option<u32>,
    pub(crate) datatype: Option<Datatype>,
    pub(crate) reduce_op: Option<ReduceOp>,
    pub(crate) atomic_op: Option<AtomicOp>,
    pub(crate) scope: Option<Scope>,
    pub(crate) bidir: bool,
    pub(crate) quick: bool,
    pub(crate) verify: bool,
}

/// Options that don't fit each other, or the benchmark.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OptionError {
    #[error("{bench} has no use for {option}: it takes {takes}")]
    NotTaken {
        bench: String,
        option: &'static str,
        takes: String,
    },
    #[error("-b {begin} is more than -e {end}: the sizes go from -b up to -e")]
    Order { begin: usize, end: usize },
    #[error("{option} {bytes}: {bench} moves elements of {element} bytes, so give a multiple of {element}, not 0")]
    Element {
        bench: String,
        option: &'static str,
        bytes: usize,
        element: usize,
    },
    #[error("-t {threads}: {who} takes {} threads per block", if *most == 1 { "1".to_owned() } else { format!("1 to {most}") })]
    Threads { who: String, threads: u32, most: u32 },
    #[error("-s {scope}: {bench} takes {}", takes.join(", "))]
    Scope {
        bench: String,
        scope: String,
        takes: Vec<String>,
    },
    #[error("-d {datatype} -o {op} -s {scope}: {bench} has no kernel for it; there are {}", has.join("; "))]
    NoKernel {
        bench: String,
        datatype: String,
        op: String,
        scope: String,
        has: Vec<String>,
    },
    #[error("-d {datatype} -o {op}: {bench} takes and, or, xor of int32 and int64 alone")]
    BitsOfFloats {
        bench: String,
        datatype: String,
        op: String,
    },
    #[error("-a {op}: its values do not rise, so that nobody can wait for the next; {bench} takes the others")]
    NotRising { bench: String, op: String },
    #[error("-d {datatype}: {bench} moves words of 4 or 8 bytes; give float, double, int32 or int64")]
    Width { bench: String, datatype: String },
}

impl Options {
    /// The options that were given, by kind.
    fn given(&self) -> Vec<(Takes, &'static str)> {
        let all = [
            (self.begin.is_some(), Takes::Sizes, "-b"),
            (self.end.is_some(), Takes::Sizes, "-e"),
            (self.factor.is_some(), Takes::Sizes, "-f"),
            (self.iters.is_some(), Takes::Iterations, "-n"),
            (self.warmup.is_some(), Takes::Iterations, "-w"),
            (self.repetitions.is_some(), Takes::Iterations, "-r"),
            (self.ctas.is_some(), Takes::Ctas, "-c"),
            (self.threads.is_some(), Takes::Threads, "-t"),
            (self.datatype.is_some(), Takes::Datatype, "-d"),
            (self.reduce_op.is_some(), Takes::ReduceOp, "-o"),
            (self.atomic_op.is_some(), Takes::AtomicOp, "-a"),
            (self.scope.is_some(), Takes::Scope, "-s"),
            (self.bidir, Takes::Bidir, "--bidir"),
        ];
        all.into_iter()
            .filter(|(given, ..)| *given)
            .map(|(_, takes, option)| (takes, option))
            .collect()
    }

    /// Refuses what the benchmark has no use for, and what no benchmark can do.
    pub(crate) fn check(&self, bench: &str, takes: &[Takes]) -> Result<(), OptionError> {
        if let Some((_, option)) = self.given().into_iter().find(|(kind, _)| !takes.contains(kind)) {
            return Err(OptionError::NotTaken {
                bench: bench.to_owned(),
                option,
                takes: texts(takes),
            });
        }
        match (self.begin, self.end) {
            (Some(begin), Some(end)) if begin > end => Err(OptionError::Order { begin, end }),
            _ => Ok(()),
        }
    }

    /// The threads asked for, or `default`; at most `most`.
    pub(crate) fn threads(&self, who: &str, default: u32, most: u32) -> Result<u32, OptionError> {
        match self.threads {
            Some(threads) if threads == 0 || threads > most => Err(OptionError::Threads {
                who: who.to_owned(),
                threads,
                most,
            }),
            threads => Ok(threads.unwrap_or(default)),
        }
    }

    /// The scopes to measure: the one asked for, or all that there are.
    pub(crate) fn scopes(&self, bench: &str, all: &[Scope]) -> Result<Vec<Scope>, OptionError> {
        match self.scope {
            None | Some(Scope::All) => Ok(all.to_vec()),
            Some(scope) if all.contains(&scope) => Ok(vec![scope]),
            Some(scope) => Err(OptionError::Scope {
                bench: bench.to_owned(),
                scope: name(&scope),
                takes: all.iter().map(name).collect(),
            }),
        }
    }

    /// Refuses sizes that are not made of elements.
    pub(crate) fn elements(&self, bench: &str, element: usize) -> Result<(), OptionError> {
        for (option, bytes) in [("-b", self.begin), ("-e", self.end)] {
            if let Some(bytes) = bytes.filter(|bytes| *bytes == 0 || !bytes.is_multiple_of(element)) {
                return Err(OptionError::Element {
                    bench: bench.to_owned(),
                    option,
                    bytes,
                    element,
                });
            }
        }
        Ok(())
    }
}

fn texts(takes: &[Takes]) -> String {
    if takes.is_empty() {
        return "none of these options".to_owned();
    }
    let text = |takes: &Takes| match takes {
        Takes::Sizes => "-b -e -f",
        Takes::Iterations => "-n -w -r",
        Takes::Ctas => "-c",
        Takes::Threads => "-t",
        Takes::Datatype => "-d",
        Takes::ReduceOp => "-o",
        Takes::AtomicOp => "-a",
        Takes::Scope => "-s",
        Takes::Bidir => "--bidir",
    };
    takes.iter().map(text).collect::<Vec<_>>().join(" ")
}
