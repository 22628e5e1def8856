//! Device collectives of the world: alltoall, bcast, fcollect, reduction, reducescatter.

use crate::bench::{Bench, Shape, Sweep};
use crate::collective_data::{self, Call};
use crate::options::{Datatype, OptionError, ReduceOp, Scope, name};
use shmem::collective::{And, Max, Min, Or, Prod, Sum, Xor};
use shmem::tile::{Block, Grid, Thread, Warp};
use shmem::{Global, Kernel, SymSlice, bf16, f16};
use shmem_host::{Error, SymBuf};
use shmem_perf::collectives::{self, kind, moves};
use shmem_perf::data::{self, Expect, Number};
use shmem_perf::reductions::{Operation, reduce_scatters, reduces};

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
/// Names of algorithms, by the number that kernels know them by. 0: the size's own choice.
const ALGORITHMS: [&str; 4] = ["", "_packets", "_one_shot", "_two_shot"];

/// A kernel that makes one collective's calls: `dst`, `src`, algorithm, iterations.
type Launch<'a, T> = &'a dyn Fn(Shape, &SymBuf<T>, &SymBuf<T>, u32, u32) -> Result<(), Error>;

pub(crate) fn alltoall(b: &Bench) -> anyhow::Result<()> {
    moving::<{ kind::ALLTOALL }>(b, Call::Alltoall, "alltoall_int32")
}

pub(crate) fn bcast(b: &Bench) -> anyhow::Result<()> {
    moving::<{ kind::BCAST }>(b, Call::Bcast, "broadcast_int32")
}

pub(crate) fn fcollect(b: &Bench) -> anyhow::Result<()> {
    moving::<{ kind::FCOLLECT }>(b, Call::Fcollect, "fcollect_int32")
}

type Args<T> = (SymSlice<T>, SymSlice<T>, u32, u32);

fn moving<const KIND: u32>(b: &Bench, call: Call, variant: &str) -> anyhow::Result<()>
where
    moves<KIND, Thread>: Kernel<Args = Args<u32>>,
    moves<KIND, Warp>: Kernel<Args = Args<u32>>,
    moves<KIND, Block>: Kernel<Args = Args<u32>>,
    moves<KIND, Grid>: Kernel<Args = Args<u32>>,
{
    for scope in b.options.scopes(b.name, &SCOPES)? {
        rows::<u32>(b, call, variant, scope, &|shape, dst, src, algorithm, n| {
            let config = Bench::together(shape);
            match scope {
                Scope::Thread => b.pe.launch(config, moves::<KIND, Thread>(dst, src, algorithm, n)),
                Scope::Warp => b.pe.launch(config, moves::<KIND, Warp>(dst, src, algorithm, n)),
                Scope::Block => b.pe.launch(config, moves::<KIND, Block>(dst, src, algorithm, n)),
                Scope::Grid | Scope::All => b.pe.launch(config, moves::<KIND, Grid>(dst, src, algorithm, n)),
            }
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

pub(crate) fn reduction(b: &Bench) -> anyhow::Result<()> {
    chosen(b)?.into_iter().try_for_each(|one| (one.reduce)(b, one))
}

pub(crate) fn reducescatter(b: &Bench) -> anyhow::Result<()> {
    chosen(b)?.into_iter().try_for_each(|one| (one.scatter)(b, one))
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
    let variant = format!("{}_reduce_{}", name(&one.op), name(&one.datatype));
    rows::<T>(
        b,
        Call::Reduce(one.op),
        &variant,
        one.scope,
        &|shape, dst, src, algorithm, n| {
            b.pe.launch(Bench::together(shape), reduces::<T, O, S>(dst, src, algorithm, n))
        },
    )
}

fn scatter<T: Number, O: Operation<T>, S: collectives::Scope>(b: &Bench, one: &Reduction) -> anyhow::Result<()>
where
    reduce_scatters<T, O, S>: Kernel<Args = Args<T>>,
    data::fill<T>: Kernel<Args = (SymSlice<T>, u32, u64)>,
    data::check<T>: Kernel<Args = (SymSlice<T>, Expect, Global<u32>)>,
{
    let variant = format!("{}_reducescatter_{}", name(&one.op), name(&one.datatype));
    rows::<T>(
        b,
        Call::ReduceScatter(one.op),
        &variant,
        one.scope,
        &|shape, dst, src, algorithm, n| {
            b.pe.launch(
                Bench::together(shape),
                reduce_scatters::<T, O, S>(dst, src, algorithm, n),
            )
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

/// Rows of one scope, for each size: of the size's own choice, and of each algorithm where a block calls.
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
    for bytes in sizes {
        for (algorithm, algorithm_name) in (0..).zip(ALGORITHMS) {
            let wanted = algorithm == 0 || (scope == Scope::Block && has(call, algorithm, bytes, b.pe.n()));
            if bytes >= smallest && wanted {
                let len = bytes / size_of::<T>();
                let seconds = collective_data::seconds(b, call, len, 2..=u32::MAX, |dst, src, n| {
                    launch((blocks, threads), dst, src, algorithm, n)
                })?;
                b.us(
                    "coll_device",
                    &format!("{variant}_{scope_name}{algorithm_name}"),
                    bytes,
                    seconds,
                );
            }
        }
    }
    Ok(())
}
