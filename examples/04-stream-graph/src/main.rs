//! `cargo xtask run stream-graph`: each PE's vector goes round the ring, and every PE adds them all up. Puts and waits are on
//! the stream, and one step of the ring is a graph that is launched again and again.
use shmem::ge;
use shmem_host::{World, launch};
use stream_graph::add;

const LEN: usize = 1000;

fn main() -> anyhow::Result<()> {
    World::from_env()?.run(|pe| {
        let (inbox, arrived) = (pe.alloc::<u32>(LEN)?, pe.counters(1)?);
        let (sum, passing) = (pe.buffer::<u32>(LEN)?, pe.buffer::<u32>(LEN)?);
        let mine: Vec<u32> = (0..LEN as u32).map(|i| i + pe.id()).collect();
        sum.write(&mine)?;
        passing.write(&mine)?;
        let (stream, right) = (pe.stream(), (pe.id() + 1) % pe.n());
        let step = stream.capture(|| {
            stream.put_signal(&inbox, &passing, arrived.at(0)?.add(1), right)?;
            stream.signal_wait(arrived.at(0)?, ge(1))?;
            stream.barrier_all()?;
            launch!(pe, add<<<1, 256>>>(&sum, &passing, &inbox))?;
            stream.sync_all() // nobody overwrites what another still reads
        })?;
        for _ in 1..pe.n() {
            step.launch(stream)?;
        }
        let (sum, n) = (sum.to_vec()?, pe.n());
        let expected = |i: u32| n * i + n * (n - 1) / 2;
        anyhow::ensure!((0..).zip(&sum).all(|(i, x)| *x == expected(i)), "{sum:?}");
        println!("PE {}/{n}: sum[1] = {}", pe.id(), sum[1]);
        Ok(())
    })
}
