//! Half round trips of packets of each size.

use crate::bench::Bench;
use shmem::packet::Packet;
use shmem::{Global, Kernel, SymSlice};
use shmem_host::{Error, launch};
use shmem_perf::{Ball, packet_pingpong};
use std::cell::Cell;

pub(crate) fn pingpong(b: &Bench) -> anyhow::Result<()> {
    row::<u32>(b)?;
    row::<u64>(b)?;
    row::<[u32; 3]>(b)
}

fn row<T: Ball>(b: &Bench) -> anyhow::Result<()>
where
    packet_pingpong<T>: Kernel<Args = (SymSlice<Packet<T>>, u32, u32, Global<u32>)>,
{
    let (slots, wrong) = (b.pe.alloc::<Packet<T>>(2)?, b.pe.buffer::<u32>(1)?);
    wrong.write(&[0])?;
    // Epochs begin at 1.
    let first = Cell::new(1u32);
    let seconds = b.seconds(4..=u32::MAX, |iters| -> Result<(), Error> {
        if b.in_pair() {
            launch!(b.pe, packet_pingpong::<T><<<1, 1>>>(&slots, first.get(), iters, &wrong))?;
        }
        first.set(first.get() + iters);
        Ok(())
    })?;
    b.judge(wrong.read(0)?.into())?;
    let variant = format!("thread_{}_of_{}", size_of::<T>(), size_of::<Packet<T>>());
    b.us("packet_pingpong", &variant, size_of::<Packet<T>>(), seconds / 2.0);
    Ok(())
}
