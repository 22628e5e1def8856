//! What a collective does with data, and the measurement of one of its calls: in a kernel or on a stream.

use crate::bench::Bench;
use crate::options::ReduceOp;
use shmem::{Global, Kernel, SymSlice};
use shmem_host::{Error, SymBuf};
use shmem_perf::data::{self, Expect, Number, rule};
use std::ops::RangeInclusive;

/// A collective, by what it does with the data.
#[derive(Clone, Copy)]
pub(crate) enum Call {
    Alltoall,
    Bcast,
    Fcollect,
    Reduce(ReduceOp),
    ReduceScatter(ReduceOp),
}

impl Call {
    /// Parts of `bytes` that a PE's result has, and its source, among n.
    fn parts(self, n: usize) -> (usize, usize) {
        match self {
            Self::Alltoall => (n, n),
            Self::Fcollect => (n, 1),
            Self::ReduceScatter(_) => (1, n),
            Self::Bcast | Self::Reduce(_) => (1, 1),
        }
    }

    fn expect(self, b: &Bench, len: usize) -> Expect {
        let (me, len) = (b.pe.id(), len as u64);
        let (rule, op, first) = match self {
            Self::Alltoall => (rule::ALLTOALL, 0, 0),
            Self::Bcast => (rule::COPY, 0, 0),
            Self::Fcollect => (rule::FCOLLECT, 0, 0),
            Self::Reduce(op) => (rule::REDUCE, op.number(), 0),
            Self::ReduceScatter(op) => (rule::REDUCE, op.number(), u64::from(me) * len),
        };
        Expect {
            rule,
            op,
            from: 0,
            me,
            n: b.pe.n(),
            len,
            first,
        }
    }
}

/// Seconds of one call on `len` elements: of each destination of alltoall, of each PE's part of fcollect and reduce_scatter.
/// `launch` is given destination, source and the number of calls. The result is checked.
pub(crate) fn seconds<T: Number>(
    b: &Bench,
    call: Call,
    len: usize,
    bounds: RangeInclusive<u32>,
    launch: impl Fn(&SymBuf<T>, &SymBuf<T>, u32) -> Result<(), Error>,
) -> anyhow::Result<f64>
where
    data::fill<T>: Kernel<Args = (SymSlice<T>, u32, u64)>,
    data::check<T>: Kernel<Args = (SymSlice<T>, Expect, Global<u32>)>,
{
    let (to, from) = call.parts(b.pe.n() as usize);
    let (dst, src) = (b.pe.alloc::<T>(to * len)?, b.pe.alloc::<T>(from * len)?);
    let reduces = matches!(call, Call::Reduce(_) | Call::ReduceScatter(_));
    b.fill(src.handle(), if reduces { 0 } else { from * len })?;
    let seconds = b.seconds(bounds, |calls| launch(&dst, &src, calls))?;
    b.check(true, dst.handle(), call.expect(b, len))?;
    Ok(seconds)
}
