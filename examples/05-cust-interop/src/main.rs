//! `cargo xtask run cust-interop`, on GPUs: a program with cust's context, stream and buffers adds our heap and a collective
//! launch to its own stream.
use cust::memory::{CopyDestination as _, DeviceBuffer, DevicePointer, DeviceSlice};
use cust::stream::{Stream, StreamFlags};
use cust_interop::scale_to_right;
use shmem_host::{Backend, World, collective_launch};

const LEN: usize = 1024;

fn main() -> anyhow::Result<()> {
    // cust has no simulator.
    World::builder().backend(Backend::Cuda).build()?.run(|pe| {
        let _context = pe.cust_context()?;
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
        let x = DeviceBuffer::from_slice(&[pe.id() as f32 + 1.0; LEN])?;
        let dst = pe.alloc::<f32>(LEN)?;
        // SAFETY: `x` outlives it, and the stream is synchronized below.
        let ours = unsafe { pe.buffer_from_cust(&x) }?;
        pe.with_cust_stream(
            &stream,
            |stream| collective_launch!(pe, scale_to_right<<<1, 256, 0, stream>>>(&dst, &ours, 10.0)),
        )?;
        // cust's own work follows on the same stream: it waits for ours.
        stream.synchronize()?;
        // SAFETY: the elements of `dst`, which lives.
        let there = unsafe { DeviceSlice::from_raw_parts(DevicePointer::from_raw(dst.address()), LEN) };
        let mut got = [0.0; LEN];
        there.copy_to(&mut got)?;
        let left = (pe.id() + pe.n() - 1) % pe.n();
        let expected = (left as f32 + 1.0) * 10.0;
        anyhow::ensure!(got.iter().all(|x| (x - expected).abs() < 1e-3), "{:?}", &got[..4]);
        println!("PE {}/{} received {}", pe.id(), pe.n(), got[0]);
        pe.barrier_all()?;
        Ok(())
    })
}
