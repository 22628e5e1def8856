//! Calls on a stream, without a kernel of one's own: `coll_stream` and the on-stream row of `copy_engine`. Each benchmark
//! enqueues so many of its calls.

use crate::bench::{Bench, Sweep};
use crate::collective_data::{self, Call};
use crate::options::{Datatype, OptionError, ReduceOp, name};
use shmem::collective::{And, Max, Min, Or, Prod, Sum, Xor};
use shmem::{Global, Kernel, SymSlice, bf16, f16};
use shmem_host::{Error, StreamReduce, SymBuf};
use shmem_perf::data::{self, Expect, Number};
use shmem_perf::reductions::Operation;
use std::cell::OnceCell;

/// Fewer than a stream's queue takes without waiting; the peer's suite enqueues as many.
const MOST: u32 = 1000;
/// Calls of a graph; torch_baseline.py has as many.
const IN_GRAPH: u32 = 20;
/// Its sizes.
const TORCH: [usize; 10] = [
    8,
    512,
    4 << 10,
    32 << 10,
    256 << 10,
    1 << 20,
    2 << 20,
    16 << 20,
    128 << 20,
    256 << 20,
];
pub(crate) const SIZES: Sweep = Sweep {
    begin: 4 << 10,
    end: 256 << 20,
    factor: 8,
    simulated: 512,
};

pub(crate) fn barrier(b: &Bench) -> anyhow::Result<()> {
    meeting(b, "barrier_all", || b.pe.stream().barrier_all())
}

pub(crate) fn sync(b: &Bench) -> anyhow::Result<()> {
    meeting(b, "sync_all", || b.pe.stream().sync_all())
}

fn meeting(b: &Bench, variant: &str, call: impl Fn() -> Result<(), Error>) -> anyhow::Result<()> {
    let seconds = b.seconds(2..=MOST, |n| (0..n).try_for_each(|_| call()))?;
    b.us("coll_stream", variant, 0, seconds);
    Ok(())
}

pub(crate) fn put(b: &Bench) -> anyhow::Result<()> {
    b.sizes(SIZES, 4)?
        .into_iter()
        .try_for_each(|bytes| moves(b, "put_on_stream", "put", bytes, true))
}

pub(crate) fn get(b: &Bench) -> anyhow::Result<()> {
    b.sizes(SIZES, 4)?
        .into_iter()
        .try_for_each(|bytes| moves(b, "get_on_stream", "get", bytes, false))
}

/// A row of puts or gets by PE 0, in GB/s.
pub(crate) fn moves(b: &Bench, bench: &str, variant: &str, bytes: usize, puts: bool) -> anyhow::Result<()> {
    let len = bytes / 4;
    let (dst, src) = (b.pe.alloc::<u32>(len)?, b.pe.alloc::<u32>(len)?);
    b.fill(src.handle(), len)?;
    let seconds = b.seconds(2..=MOST, |n| {
        let stream = b.pe.stream();
        (0..n).filter(|_| b.pe.id() == 0).try_for_each(|_| {
            if puts {
                stream.put(&dst, &src, 1)
            } else {
                stream.get(&dst, &src, 1)
            }
        })
    })?;
    b.check_copy(b.pe.id() == u32::from(puts), dst.handle(), u32::from(!puts), len)?;
    b.row(bench, variant, bytes, bytes as f64 / seconds * 1e-9, "GB/s");
    Ok(())
}

pub(crate) fn alltoall(b: &Bench) -> anyhow::Result<()> {
    let world = b.pe.world();
    collective::<u32>(b, Call::Alltoall, "alltoall_int32", &|dst, src| {
        b.pe.stream().alltoall(&world, dst, src)
    })
}

pub(crate) fn bcast(b: &Bench) -> anyhow::Result<()> {
    let world = b.pe.world();
    collective::<u32>(b, Call::Bcast, "broadcast_int32", &|dst, src| {
        b.pe.stream().broadcast(&world, dst, src, 0)
    })
}

pub(crate) fn fcollect(b: &Bench) -> anyhow::Result<()> {
    let world = b.pe.world();
    collective::<u32>(b, Call::Fcollect, "fcollect_int32", &|dst, src| {
        b.pe.stream().fcollect(&world, dst, src)
    })
}

/// Enqueues one call: `dst`, `src`.
type Enqueue<'a, T> = &'a dyn Fn(&SymBuf<T>, &SymBuf<T>) -> Result<(), Error>;

/// Rows of a collective, for each size: call by call, as NVSHMEM's are measured, and from a graph, as those of torch.
fn collective<T: Number>(b: &Bench, call: Call, variant: &str, enqueue: Enqueue<T>) -> anyhow::Result<()>
where
    data::fill<T>: Kernel<Args = (SymSlice<T>, u32, u64)>,
    data::check<T>: Kernel<Args = (SymSlice<T>, Expect, Global<u32>)>,
{
    let in_graph = if b.simulated { 2 } else { IN_GRAPH };
    for bytes in b.sizes(SIZES, size_of::<T>())? {
        let len = bytes / size_of::<T>();
        let seconds = collective_data::seconds(b, call, len, 2..=MOST, |dst: &SymBuf<T>, src: &SymBuf<T>, n| {
            (0..n).try_for_each(|_| enqueue(dst, src))
        })?;
        b.us("coll_stream", variant, bytes, seconds);
    }
    for bytes in graph_sizes(b, call, size_of::<T>())? {
        let len = bytes / size_of::<T>();
        // Captured by the first run, which is a warm-up.
        let graph = OnceCell::new();
        let seconds = collective_data::seconds(b, call, len, 1..=MOST, |dst: &SymBuf<T>, src: &SymBuf<T>, n| {
            let stream = b.pe.stream();
            if graph.get().is_none() {
                let captured = stream.capture(|| (0..in_graph).try_for_each(|_| enqueue(dst, src)))?;
                let _ = graph.set(captured);
            }
            (0..n).try_for_each(|_| graph.get().map_or(Ok(()), |graph| graph.launch(stream)))
        })?;
        b.us(
            "coll_stream",
            &format!("{variant}_graph"),
            bytes,
            seconds / f64::from(in_graph),
        );
    }
    Ok(())
}

/// Those of torch_baseline.py, unless others are asked for. It says alltoall's and reduce_scatter's for all PEs together.
fn graph_sizes(b: &Bench, call: Call, element: usize) -> Result<Vec<usize>, OptionError> {
    let own = [b.options.begin, b.options.end, b.options.factor] == [None; 3];
    if !own || b.simulated {
        return b.sizes(SIZES, element);
    }
    let among = match call {
        Call::Alltoall | Call::ReduceScatter(_) => b.pe.n() as usize,
        _ => 1,
    };
    let most = if b.options.quick { 16 << 20 } else { usize::MAX };
    let sizes = TORCH.iter().filter(|bytes| **bytes <= most).map(|bytes| bytes / among);
    Ok(sizes
        .filter(|bytes| *bytes > 0 && bytes.is_multiple_of(element))
        .collect())
}

/// A reduction of one type and operation.
struct Reduction {
    datatype: Datatype,
    op: ReduceOp,
    reduce: fn(&Bench, &Self) -> anyhow::Result<()>,
    scatter: fn(&Bench, &Self) -> anyhow::Result<()>,
}

/// | type, on the command line | operations |
macro_rules! reductions { ($($t:ident $datatype:ident: $($op:ident)*;)*) => { &[$($(
    Reduction {
        datatype: Datatype::$datatype,
        op: ReduceOp::$op,
        reduce: reduce::<$t, $op>,
        scatter: scatter::<$t, $op>,
    }
),*),*] } }
const REDUCTIONS: &[Reduction] = reductions! {
    f32 Float: Sum Prod Min Max;
    f64 Double: Sum Prod Min Max;
    f16 Fp16: Sum Prod Min Max;
    bf16 Bf16: Sum Prod Min Max;
    i32 Int32: Sum Prod Min Max And Or Xor;
    i64 Int64: Sum Prod Min Max And Or Xor;
};

/// The float sum, and that of bf16, which torch symmetric memory is measured with; or what is asked for.
fn chosen(b: &Bench) -> Result<Vec<&'static Reduction>, OptionError> {
    let op = b.options.reduce_op.unwrap_or(ReduceOp::Sum);
    let bits = matches!(op, ReduceOp::And | ReduceOp::Or | ReduceOp::Xor);
    let datatypes = match b.options.datatype {
        Some(datatype) => vec![datatype],
        None if bits => vec![Datatype::Int32],
        None => vec![Datatype::Float, Datatype::Bf16],
    };
    let found: Vec<_> = REDUCTIONS
        .iter()
        .filter(|one| one.op == op && datatypes.contains(&one.datatype))
        .collect();
    if found.is_empty() {
        return Err(OptionError::BitsOfFloats {
            bench: b.name.to_owned(),
            datatype: name(&datatypes[0]),
            op: name(&op),
        });
    }
    Ok(found)
}

pub(crate) fn reduction(b: &Bench) -> anyhow::Result<()> {
    chosen(b)?.into_iter().try_for_each(|one| (one.reduce)(b, one))
}

pub(crate) fn reducescatter(b: &Bench) -> anyhow::Result<()> {
    chosen(b)?.into_iter().try_for_each(|one| (one.scatter)(b, one))
}

fn reduce<T: Number, O: Operation<T> + StreamReduce<T>>(b: &Bench, one: &Reduction) -> anyhow::Result<()>
where
    data::fill<T>: Kernel<Args = (SymSlice<T>, u32, u64)>,
    data::check<T>: Kernel<Args = (SymSlice<T>, Expect, Global<u32>)>,
{
    let world = b.pe.world();
    let variant = format!("{}_reduce_{}", name(&one.op), name(&one.datatype));
    collective::<T>(b, Call::Reduce(one.op), &variant, &|dst, src| {
        b.pe.stream().reduce(&world, O::VALUE, dst, src)
    })
}

fn scatter<T: Number, O: Operation<T> + StreamReduce<T>>(b: &Bench, one: &Reduction) -> anyhow::Result<()>
where
    data::fill<T>: Kernel<Args = (SymSlice<T>, u32, u64)>,
    data::check<T>: Kernel<Args = (SymSlice<T>, Expect, Global<u32>)>,
{
    let world = b.pe.world();
    let variant = format!("{}_reducescatter_{}", name(&one.op), name(&one.datatype));
    collective::<T>(b, Call::ReduceScatter(one.op), &variant, &|dst, src| {
        b.pe.stream().reduce_scatter(&world, O::VALUE, dst, src)
    })
}
