//! Latencies: half round trips between PE 0 and PE 1, one-sided gets, barriers. Microseconds.

use crate::measure::{Row, per_iteration};
use shmem_host::{Pe, collective_launch, launch};
use shmem_perf::{barriers, get_by_block, get_by_thread, p_pingpong};
use shmem_perf::{put_signal_by_block, put_signal_by_thread, signal_pingpong};
use std::cell::Cell;

fn row(bench: &'static str, variant: &str, bytes: usize, seconds: f64) -> Row {
    Row {
        bench,
        variant: variant.to_owned(),
        bytes,
        value: seconds * 1e6,
        unit: "us",
    }
}

/// Words that the signal ping-pong is tried on, 512 bytes apart.
const PLACES: usize = 8;

/// p, signal and put_signal ping-pongs.
pub(crate) fn pingpongs(pe: &Pe, mut print: impl FnMut(Row)) -> anyhow::Result<()> {
    let (word, signal) = (pe.alloc::<u64>(1)?, pe.signals(PLACES * 64)?);
    let buffer = 1 << 18;
    let (dst, src) = (pe.alloc::<u32>(buffer)?, pe.alloc::<u32>(buffer)?);
    // Values rise from launch to launch; PEs other than the pair keep still.
    let base = Cell::new(0u64);
    let measured = |launch: &dyn Fn(u64, u64) -> Result<(), shmem_host::Error>| {
        base.set(0);
        pe.barrier_all()?;
        word.write(&[0])?;
        signal.write(&[shmem::Zeroable::zeroed(); PLACES * 64])?;
        pe.barrier_all()?;
        let seconds = per_iteration(pe, 100, |iters| {
            if pe.id() < 2 {
                launch(base.get(), iters.into())?;
            }
            base.set(base.get() + u64::from(iters));
            Ok(())
        })?;
        anyhow::Ok(seconds / 2.0)
    };
    let t = measured(&|b, n| launch!(pe, p_pingpong<<<1, 1>>>(&word, b, n)))?;
    print(row("p_pingpong", "thread", 8, t));
    // Which slice of the L2 cache a word lies in makes a difference of up to a tenth: the median of some places.
    let (mut relaxed, mut acquiring) = (vec![], vec![]);
    for place in 0..PLACES {
        let one = signal.handle().slice(place * 64..place * 64 + 1);
        relaxed.push(measured(
            &|b, n| launch!(pe, signal_pingpong::<0><<<1, 1>>>(one, b, n)),
        )?);
        acquiring.push(measured(
            &|b, n| launch!(pe, signal_pingpong::<1><<<1, 1>>>(one, b, n)),
        )?);
    }
    for (kind, mut times) in [("relaxed", relaxed), ("acquiring", acquiring)] {
        times.sort_by(f64::total_cmp);
        print(row("signal_pingpong", &format!("{kind}_best"), 8, times[0]));
        print(row("signal_pingpong", kind, 8, times[PLACES / 2]));
        print(row("signal_pingpong", &format!("{kind}_worst"), 8, times[PLACES - 1]));
    }
    let t = measured(&|b, n| {
        let (dst, src) = (dst.handle().slice(0..2), src.handle().slice(0..2));
        launch!(pe, put_signal_by_thread<<<1, 1>>>(dst, src, &signal, b, n))
    })?;
    print(row("put_signal_pingpong", "thread", 8, t));
    for bytes in [8u64, 128 << 10, 1 << 20] {
        let t = measured(&|b, n| {
            let (dst, src) = (dst.handle().slice(0..bytes / 4), src.handle().slice(0..bytes / 4));
            launch!(pe, put_signal_by_block<<<1, 1024>>>(dst, src, &signal, b, n))
        })?;
        print(row("put_signal_pingpong", "block", bytes as usize, t));
    }
    Ok(())
}

/// get by one thread and by one block.
pub(crate) fn gets(pe: &Pe, mut print: impl FnMut(Row)) -> anyhow::Result<()> {
    for (block, sizes) in [
        (false, [8usize, 1 << 10, 64 << 10]),
        (true, [1 << 10, 64 << 10, 1 << 20]),
    ] {
        for bytes in sizes {
            let here = pe.alloc::<u32>(bytes / 4)?;
            let there = pe.alloc::<u32>(((4 << 20) / bytes).max(4) * bytes / 4)?;
            let seconds = per_iteration(pe, 4, |iters| match (pe.id(), block) {
                (0, false) => launch!(pe, get_by_thread<<<1, 1>>>(&here, &there, 1, iters)),
                (0, true) => launch!(pe, get_by_block<<<1, 1024>>>(&here, &there, 1, iters)),
                _ => Ok(()),
            })?;
            print(row(
                "get_latency",
                if block { "block" } else { "thread" },
                bytes,
                seconds,
            ));
        }
    }
    Ok(())
}

/// Barriers of the world by each tile.
pub(crate) fn world_barriers(pe: &Pe, mut print: impl FnMut(Row)) -> anyhow::Result<()> {
    let seconds = per_iteration(pe, 10, |n| collective_launch!(pe, barriers::<0><<<1, 1>>>(n)))?;
    print(row("barrier_all", "thread", 0, seconds));
    let seconds = per_iteration(pe, 10, |n| collective_launch!(pe, barriers::<1><<<1, 32>>>(n)))?;
    print(row("barrier_all", "warp", 0, seconds));
    let seconds = per_iteration(pe, 10, |n| collective_launch!(pe, barriers::<2><<<1, 1024>>>(n)))?;
    print(row("barrier_all", "block", 0, seconds));
    Ok(())
}
