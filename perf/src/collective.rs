//! Device collectives of the world: alltoall, bcast, fcollect, reduction, reducescatter.

use crate::bench::{Bench, Shape, Sweep};
use crate::collective_data::{self, Call};
use crate::options::{Datatype, OptionError, ReduceOp, Scope, name};
use shmem::collective::{And, Max, Min, Or, Prod, Sum, Xor};
use shmem::tile::{Block, Grid, Thread, Warp};
use shmem::{Global, Kernel, SymSlice, bf16, f16};
use shmem_host::{Error, SymBuf};
use shmem_perf::collectives::{self, kind, moves, moves_by};
use shmem_perf::data::{self, Expect, Number};
use shmem_perf::reductions::{Operation, reduce_scatters, reduce_scatters_by, reduces, reduces_by};

pub(crate) const SIZES: Sweep = Sweep {
    begin: 8,
    end: 1 << 20,
    factor: 8,
    simulated: 256,
};
/// The largest size of a thread's rows, where none is asked for: it takes long.
const BY_A_THREAD: usize = 4 << 10;
/// Smallest size, and blocks, of the rows by a grid.
const GRID: (usize, u32) = (32 << 10, 32);
const GRID_SIMULATED: (usize, u32) = (256, 2);
const SCOPES: [Scope; 4] = [Scope::Thread, Scope::Warp, Scope::Block, Scope::Grid];
/// Names of algorithms, and the numbers that kernels know them by.
const ALGORITHMS: [(u32, &str); 3] = [(1, "packets"), (2, "one_shot"), (3, "two_shot")];

/// Launches a kernel that makes one collective's calls: `dst`, `src`, iterations.
type Launch<'a, T> = &'a dyn Fn(Shape, &SymBuf<T>, &SymBuf<T>, u32) -> Result<(), Error>;

/// The same by an algorithm, whose number comes first.
type LaunchBy<'a, T> = &'a dyn Fn(u32, Shape, &SymBuf<T>, &SymBuf<T>, u32) -> Result<(), Error>;

pub(crate) fn alltoall(b: &Bench) -> anyhow::Result<()> {
    moving::<{ kind::ALLTOALL }>(b, Call::Alltoall, "alltoall_int32")
}

pub(crate) fn bcast(b: &Bench) -> anyhow::Result<()> {
    moving::<{ kind::BCAST }>(b, Call::Bcast, "broadcast_int32")
}

pub(crate) fn fcollect(b: &Bench) -> anyhow::Result<()> {
    moving::<{ kind::FCOLLECT }>(b, Call::Fcollect, "fcollect_int32")
}

type Args<T> = (SymSlice<T>, SymSlice<T>, u32);

fn moving<const KIND: u32>(b: &Bench, call: Call, variant: &str) -> anyhow::Result<()>
where
    moves<KIND, Thread>: Kernel<Args = Args<u32>>,
    moves<KIND, Warp>: Kernel<Args = Args<u32>>,
    moves<KIND, Block>: Kernel<Args = Args<u32>>,
    moves<KIND, Grid>: Kernel<Args = Args<u32>>,
    moves_by<KIND>: Kernel<Args = (SymSlice<u32>, SymSlice<u32>, u32, u32)>,
{
    let scopes = b.options.scopes(b.name, &SCOPES)?;
    for &scope in &scopes {
        rows::<u32>(b, call, variant, scope, &|shape, dst, src, n| {
            let config = Bench::together(shape);
            match scope {
                Scope::Thread => b.pe.launch(config, moves::<KIND, Thread>(dst, src, n)),
                Scope::Warp => b.pe.launch(config, moves::<KIND, Warp>(dst, src, n)),
                Scope::Block => b.pe.launch(config, moves::<KIND, Block>(dst, src, n)),
                Scope::Grid | Scope::All => b.pe.launch(config, moves::<KIND, Grid>(dst, src, n)),
            }
        })?;
    }
    if scopes.contains(&Scope::Block) {
        by_algorithm::<u32>(b, call, variant, &|algorithm, shape, dst, src, n| {
            b.pe.launch(Bench::together(shape), moves_by::<KIND>(dst, src, algorithm, n))
        })?;
    }
    Ok(())
}

/// A reduction that there are kernels of.
struct Reduction {
    datatype: Datatype,
    op: ReduceOp,
    scope: Scope,
    reduce: fn(&Bench, &Self) -> anyhow::Result<()>,
    scatter: fn(&Bench, &Self) -> anyhow::Result<()>,
}

/// | type and operation | on the command line | scope |
macro_rules! reductions { ($($t:ident $op:ident = $datatype:ident $scope:ident;)*) => { &[$(
    Reduction {
        datatype: Datatype::$datatype,
        op: ReduceOp::$op,
        scope: Scope::$scope,
        reduce: reduce::<$t, $op, $scope>,
        scatter: scatter::<$t, $op, $scope>,
    }
),*] } }
const REDUCTIONS: &[Reduction] = reductions! {
    f32 Sum = Float Thread;
    f32 Sum = Float Warp;
    f32 Sum = Float Block;
    f32 Sum = Float Grid;
    f32 Prod = Float Block;
    f32 Min = Float Block;
    f32 Max = Float Block;
    i32 Sum = Int32 Block;
    i32 And = Int32 Block;
    i32 Or = Int32 Block;
    i32 Xor = Int32 Block;
    i64 Sum = Int64 Block;
    f64 Sum = Double Block;
    f16 Sum = Fp16 Block;
    bf16 Sum = Bf16 Block;
};

impl Reduction {
    /// Whether there is a kernel of it by each algorithm as well.
    fn has_algorithms(&self) -> bool {
        (self.datatype, self.op, self.scope) == (Datatype::Float, ReduceOp::Sum, Scope::Block)
    }

    /// The row's name, up to the scope.
    fn variant(&self, call: &str) -> String {
        format!("{}_{call}_{}", name(&self.op), name(&self.datatype))
    }
}

pub(crate) fn reduction(b: &Bench) -> anyhow::Result<()> {
    for one in chosen(b)? {
        (one.reduce)(b, one)?;
        if one.has_algorithms() {
            let call = Call::Reduce(one.op);
            by_algorithm::<f32>(b, call, &one.variant("reduce"), &|algorithm, shape, dst, src, n| {
                b.pe.launch(Bench::together(shape), reduces_by(dst, src, algorithm, n))
            })?;
        }
    }
    Ok(())
}

pub(crate) fn reducescatter(b: &Bench) -> anyhow::Result<()> {
    for one in chosen(b)? {
        (one.scatter)(b, one)?;
        if one.has_algorithms() {
            let call = Call::ReduceScatter(one.op);
            by_algorithm::<f32>(
                b,
                call,
                &one.variant("reducescatter"),
                &|algorithm, shape, dst, src, n| {
                    b.pe.launch(Bench::together(shape), reduce_scatters_by(dst, src, algorithm, n))
                },
            )?;
        }
    }
    Ok(())
}

/// Those that the options ask for: where they say nothing, the float sum by each scope.
fn chosen(b: &Bench) -> Result<Vec<&'static Reduction>, OptionError> {
    let datatype = b.options.datatype.unwrap_or(match b.options.reduce_op {
        Some(ReduceOp::And | ReduceOp::Or | ReduceOp::Xor) => Datatype::Int32,
        _ => Datatype::Float,
    });
    let op = b.options.reduce_op.unwrap_or(ReduceOp::Sum);
    let scopes = b.options.scopes(b.name, &SCOPES)?;
    let found: Vec<_> = REDUCTIONS
        .iter()
        .filter(|one| (one.datatype, one.op) == (datatype, op) && scopes.contains(&one.scope))
        .collect();
    if found.is_empty() {
        let text = |one: &Reduction| format!("{} {} {}", name(&one.datatype), name(&one.op), name(&one.scope));
        return Err(OptionError::NoKernel {
            bench: b.name.to_owned(),
            datatype: name(&datatype),
            op: name(&op),
            scope: b.options.scope.map_or_else(|| "any".to_owned(), |scope| name(&scope)),
            has: REDUCTIONS.iter().map(text).collect(),
        });
    }
    Ok(found)
}

fn reduce<T: Number, O: Operation<T>, S: collectives::Scope>(b: &Bench, one: &Reduction) -> anyhow::Result<()>
where
    reduces<T, O, S>: Kernel<Args = Args<T>>,
    data::fill<T>: Kernel<Args = (SymSlice<T>, u32, u64)>,
    data::check<T>: Kernel<Args = (SymSlice<T>, Expect, Global<u32>)>,
{
    let call = Call::Reduce(one.op);
    rows::<T>(b, call, &one.variant("reduce"), one.scope, &|shape, dst, src, n| {
        b.pe.launch(Bench::together(shape), reduces::<T, O, S>(dst, src, n))
    })
}

fn scatter<T: Number, O: Operation<T>, S: collectives::Scope>(b: &Bench, one: &Reduction) -> anyhow::Result<()>
where
    reduce_scatters<T, O, S>: Kernel<Args = Args<T>>,
    data::fill<T>: Kernel<Args = (SymSlice<T>, u32, u64)>,
    data::check<T>: Kernel<Args = (SymSlice<T>, Expect, Global<u32>)>,
{
    let call = Call::ReduceScatter(one.op);
    rows::<T>(
        b,
        call,
        &one.variant("reducescatter"),
        one.scope,
        &|shape, dst, src, n| {
            b.pe.launch(Bench::together(shape), reduce_scatters::<T, O, S>(dst, src, n))
        },
    )
}

/// Whether the call has the algorithm for so many bytes.
fn has(call: Call, algorithm: u32, bytes: usize, n: u32) -> bool {
    match algorithm {
        1 => bytes as u64 <= shmem::collective::room(n),
        3 => matches!(call, Call::Bcast | Call::Reduce(_)),
        _ => true,
    }
}

/// Rows of one scope, for each size.
fn rows<T: Number>(b: &Bench, call: Call, variant: &str, scope: Scope, launch: Launch<T>) -> anyhow::Result<()>
where
    data::fill<T>: Kernel<Args = (SymSlice<T>, u32, u64)>,
    data::check<T>: Kernel<Args = (SymSlice<T>, Expect, Global<u32>)>,
{
    let (smallest, blocks) = if b.simulated { GRID_SIMULATED } else { GRID };
    let (blocks, smallest) = match scope {
        Scope::Grid => (b.options.ctas.unwrap_or(blocks), b.options.begin.unwrap_or(smallest)),
        _ => (1, 0),
    };
    let threads = b.threads_of(scope)?;
    let scope_name = match scope {
        Scope::Grid => format!("grid_g{blocks}_t{threads}"),
        other => name(&other),
    };
    let mut sizes = b.sizes(SIZES, size_of::<T>())?;
    if scope == Scope::Thread && b.options.end.is_none() {
        sizes.retain(|bytes| *bytes <= BY_A_THREAD);
    }
    for bytes in sizes.into_iter().filter(|bytes| *bytes >= smallest) {
        let seconds = collective_data::seconds(b, call, bytes / size_of::<T>(), 2..=u32::MAX, |dst, src, n| {
            launch((blocks, threads), dst, src, n)
        })?;
        b.us("coll_device", &format!("{variant}_{scope_name}"), bytes, seconds);
    }
    Ok(())
}

/// Rows of a block by each algorithm that the call has, for each size.
fn by_algorithm<T: Number>(b: &Bench, call: Call, variant: &str, launch: LaunchBy<T>) -> anyhow::Result<()>
where
    data::fill<T>: Kernel<Args = (SymSlice<T>, u32, u64)>,
    data::check<T>: Kernel<Args = (SymSlice<T>, Expect, Global<u32>)>,
{
    let shape = (1, b.threads_of(Scope::Block)?);
    for bytes in b.sizes(SIZES, size_of::<T>())? {
        for (algorithm, name) in ALGORITHMS {
            if has(call, algorithm, bytes, b.pe.n()) {
                let len = bytes / size_of::<T>();
                let seconds = collective_data::seconds(b, call, len, 2..=u32::MAX, |dst, src, n| {
                    launch(algorithm, shape, dst, src, n)
                })?;
                b.us("coll_device", &format!("{variant}_block_{name}"), bytes, seconds);
            }
        }
    }
    Ok(())
}
