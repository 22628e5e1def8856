//! Calls on a stream, without a kernel of one's own: `coll_stream` and the on-stream row of `copy_engine`. Each benchmark
//! enqueues so many of its calls. Collectives are measured by [`collective_data::seconds`](crate::collective_data::seconds).

use crate::bench::{Bench, Sweep};
use shmem_host::Error;

/// Fewer than a stream's queue takes without waiting; the peer's suite enqueues as many.
const MOST: u32 = 1000;
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
