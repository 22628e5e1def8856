//! Ring all-reduce, by chunks: reduce-scatter, then all-gather. One signal for each step and chunk.
use core::ops::Add;
use shmem::prelude::*;

pub trait Element: Pod + KernelArg + Add<Output = Self> {}
impl Element for f32 {}
impl Element for i32 {}

/// What a ring needs besides the data.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Ring<T: Pod> {
    /// One shard for each step of the reduce-scatter, so that a fast left neighbour never overwrites what is still read.
    pub inbox: SymSlice<T>,
    /// As large as a shard; the plain form leaves it alone.
    pub stage: SymSlice<T>,
    /// `2 * (n - 1)` for each chunk of a shard.
    pub ready: SymSlice<SignalWord>,
    /// Grows by one with each call.
    pub epoch: u64,
}

/// The chunks of a shard that this block handles.
#[inline(always)]
fn chunks_of_block(chunks: u32) -> impl Iterator<Item = u32> {
    (Block.id()..chunks).step_by(thread::grid_size() as usize)
}

/// Afterwards `data` is the sum of every PE's `data`. Its length is a multiple of `n * CHUNK`.
#[kernel(collective, for<f32, 256>, for<i32, 256>)]
pub fn all_reduce<T: Element, const CHUNK: u32>(_all: Collective, data: SymSlice<T>, ring: Ring<T>) {
    let (me, n) = (shmem::my_pe(), shmem::n_pes());
    let right = (me + 1) % n;
    let shard = data.len() as u32 / n;
    let chunks = shard / CHUNK;
    let data = |pe: u32, c: u32| data.chunk(pe % n, shard).chunk(c, CHUNK);
    let inbox = |step: u32, c: u32| ring.inbox.chunk(step, shard).chunk(c, CHUNK);
    let ready = |step: u32, c: u32| ring.ready.at(step * chunks + c);
    // In each step we send the shard that we have just added to, and receive the one before it.
    for step in 0..n - 1 {
        for c in chunks_of_block(chunks) {
            let (sent, received) = (data(me + n - step, c), data(me + 2 * n - step - 1, c));
            shmem::put_signal(Block, inbox(step, c), sent, ready(step, c).set(ring.epoch), right);
            shmem::wait_until(Block, ready(step, c), eq(ring.epoch));
            for i in Block.strided(CHUNK) {
                received.store(i, received.load(i) + inbox(step, c).load(i));
            }
            Block.sync();
        }
    }
    gather::<T, CHUNK>(data, ready, n - 1, chunks, ring.epoch);
}

/// The same, with the sum computed on its way to the right: what arrives is read once, and never stored before it is whole.
#[kernel(collective, for<f32, 256>, for<i32, 256>)]
pub fn all_reduce_fused<T: Element, const CHUNK: u32>(_all: Collective, data: SymSlice<T>, ring: Ring<T>) {
    let (me, n) = (shmem::my_pe(), shmem::n_pes());
    let right = (me + 1) % n;
    let shard = data.len() as u32 / n;
    let chunks = shard / CHUNK;
    let data = |pe: u32, c: u32| data.chunk(pe % n, shard).chunk(c, CHUNK);
    let inbox = |step: u32, c: u32| ring.inbox.chunk(step, shard).chunk(c, CHUNK);
    let ready = |step: u32, c: u32| ring.ready.at(step * chunks + c);
    for c in chunks_of_block(chunks) {
        shmem::put_signal(Block, inbox(0, c), data(me, c), ready(0, c).set(ring.epoch), right);
    }
    for step in 1..n {
        for c in chunks_of_block(chunks) {
            let (got, own) = (inbox(step - 1, c), data(me + n - step, c));
            shmem::wait_until(Block, ready(step - 1, c), eq(ring.epoch));
            if step < n - 1 {
                let sum = shmem::computed(ring.stage.chunk(c, CHUNK), |i| own.load(i) + got.load(i));
                shmem::put_signal(Block, inbox(step, c), sum, ready(step, c).set(ring.epoch), right);
            } else {
                for i in Block.strided(CHUNK) {
                    own.store(i, own.load(i) + got.load(i));
                }
                Block.sync();
            }
        }
    }
    gather::<T, CHUNK>(data, ready, n - 1, chunks, ring.epoch);
}

/// The reduced shards travel round, straight into the data. Signals from `first` on.
#[inline(always)]
fn gather<T: Element, const CHUNK: u32>(
    data: impl Fn(u32, u32) -> SymSlice<T>,
    ready: impl Fn(u32, u32) -> Signal,
    first: u32,
    chunks: u32,
    epoch: u64,
) {
    let (me, n) = (shmem::my_pe(), shmem::n_pes());
    for step in 0..n - 1 {
        for c in chunks_of_block(chunks) {
            // Our own reduced shard is our right neighbour's; then on goes what has come.
            let shard = data(me + 1 + n - step, c);
            shmem::put_signal(Block, shard, shard, ready(first + step, c).set(epoch), (me + 1) % n);
            shmem::wait_until(Block, ready(first + step, c), eq(epoch));
        }
    }
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::numbers::small;
    use anyhow::ensure;
    use shmem_host::{Pe, collective_launch};

    const CHUNK: usize = 256;

    /// Both forms, of floats and of integers, several calls after one another.
    pub fn check(pe: &Pe) -> anyhow::Result<()> {
        check_type(pe, (5, 4), |x| x, |a, b| (a - b).abs() < 1e-5)?;
        check_type(pe, (5, 4), |x| (x * 128.0) as i32, |a, b| a == b)
    }

    /// Little data, for runs of many seeds.
    pub fn check_small(pe: &Pe) -> anyhow::Result<()> {
        check_type(pe, (2, 3), |x| (x * 128.0) as i32, |a, b| a == b)
    }

    fn check_type<T: Element>(
        pe: &Pe,
        (chunks, calls): (usize, u64),
        number: fn(f32) -> T,
        same: fn(T, T) -> bool,
    ) -> anyhow::Result<()>
    where
        all_reduce<T, 256>: shmem::Kernel<Args = (SymSlice<T>, Ring<T>)>,
        all_reduce_fused<T, 256>: shmem::Kernel<Args = (SymSlice<T>, Ring<T>)>,
    {
        let n = pe.n() as usize;
        let shard = chunks * CHUNK;
        let data = pe.alloc::<T>(n * shard)?;
        let (inbox, stage) = (pe.alloc::<T>(n.max(2) * shard)?, pe.alloc::<T>(shard)?);
        let ready = pe.signals(2 * n * chunks)?;
        for epoch in 1..=calls {
            let value = |pe: u32, i: usize| number(small(epoch as u32, pe, i));
            data.write(&(0..n * shard).map(|i| value(pe.id(), i)).collect::<Vec<T>>())?;
            pe.barrier_all()?;
            let ring = Ring {
                inbox: inbox.handle(),
                stage: stage.handle(),
                ready: ready.handle(),
                epoch,
            };
            if epoch % 2 == 0 {
                collective_launch!(pe, all_reduce_fused::<T, 256><<<2, 64>>>(&data, ring))?;
            } else {
                collective_launch!(pe, all_reduce::<T, 256><<<2, 64>>>(&data, ring))?;
            }
            pe.barrier_all()?;
            for (i, got) in data.to_vec()?.into_iter().enumerate() {
                let expected = (1..pe.n()).fold(value(0, i), |sum, from| sum + value(from, i));
                ensure!(same(got, expected), "call {epoch}, element {i} of {}", n * shard);
            }
        }
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::{check, check_small};
