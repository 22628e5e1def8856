//! The kernels of the benchmarks, with few iterations.

use crate::Check;
use anyhow::ensure;
use shmem::prelude::*;
use shmem_host::{Pe, collective_launch, launch};
use shmem_perf::collectives::{collectives, kind, packet_pingpong};
use shmem_perf::{bandwidth, barriers, call, get_by_block, get_by_thread, p_pingpong, post};
use shmem_perf::{put_signal_by_block, put_signal_by_thread, signal_pingpong};

pub(crate) const PROGRAMS: [(&str, &[u32], Check); 7] = [
    ("perf/bandwidth", &[2, 3], bandwidths),
    ("perf/gets", &[2], gets),
    ("perf/pingpong", &[2, 3], pingpongs),
    ("perf/put_signal", &[2], put_signals),
    ("perf/barriers", &[2, 3, 1], world_barriers),
    ("perf/collectives", &[2, 3, 1], sums),
    ("perf/packets", &[2], packets),
];

fn bandwidths(pe: &Pe) -> anyhow::Result<()> {
    moves::<{ call::PUT }>(pe)?;
    moves::<{ call::PUT_NBI }>(pe)?;
    moves::<{ call::GET }>(pe)?;
    moves::<{ call::GET_NBI }>(pe)
}

fn moves<const CALL: u32>(pe: &Pe) -> anyhow::Result<()>
where
    bandwidth<CALL>: shmem::Kernel<Args = (SymSlice<u32>, SymSlice<u32>, u32, u32, u32)>,
{
    const LEN: usize = 150;
    const WINDOWS: usize = 2;
    let gets = CALL == call::GET || CALL == call::GET_NBI;
    let all = LEN * WINDOWS;
    let (here, there) = (pe.alloc::<u32>(if gets { all } else { LEN })?, pe.alloc::<u32>(all)?);
    let full = |n: usize| (0..n).map(|i| (i % LEN) as u32 + 1).collect::<Vec<_>>();
    here.write(&if gets { vec![0; all] } else { full(LEN) })?;
    there.write(&if gets { full(all) } else { vec![0; all] })?;
    pe.barrier_all()?;
    if pe.id() == 0 {
        launch!(pe, bandwidth::<CALL><<<2, 64>>>(&there, &here, WINDOWS as u32, 1, WINDOWS as u32))?;
    }
    pe.barrier_all()?;
    let (checked, on) = if gets { (&here, 0) } else { (&there, 1) };
    if pe.id() == on {
        ensure!(checked.to_vec()? == full(all), "call {CALL}");
    }
    Ok(pe.barrier_all()?)
}

fn gets(pe: &Pe) -> anyhow::Result<()> {
    let (here, there) = (pe.alloc::<u32>(70)?, pe.alloc::<u32>(4 * 70)?);
    there.write(&(0..4 * 70).collect::<Vec<_>>())?;
    pe.barrier_all()?;
    if pe.id() == 0 {
        for (iters, slot) in [(3, 2), (2, 1)] {
            if slot == 2 {
                launch!(pe, get_by_block<<<1, 64>>>(&here, &there, 1, iters))?;
            } else {
                launch!(pe, get_by_thread<<<1, 1>>>(&here, &there, 1, iters))?;
            }
            ensure!(
                here.to_vec()? == (slot * 70..(slot + 1) * 70).collect::<Vec<_>>(),
                "slot {slot}"
            );
        }
    }
    Ok(pe.barrier_all()?)
}

fn pingpongs(pe: &Pe) -> anyhow::Result<()> {
    const ITERS: u64 = 4;
    let (word, signals) = (pe.alloc::<u64>(1)?, pe.signals(2)?);
    if pe.id() < 2 {
        for base in [0, ITERS] {
            launch!(pe, p_pingpong<<<1, 1>>>(&word, base, ITERS))?;
            let one = |i| signals.handle().slice(i..i + 1);
            launch!(pe, signal_pingpong::<0><<<1, 1>>>(one(0), base, ITERS))?;
            launch!(pe, signal_pingpong::<1><<<1, 1>>>(one(1), base, ITERS))?;
        }
    }
    pe.barrier_all()?;
    if pe.id() < 2 {
        let seen: Vec<u64> = signals.to_vec()?.into_iter().map(SignalWord::value).collect();
        ensure!(word.read(0)? == 2 * ITERS && seen == [2 * ITERS; 2], "{seen:?}");
    }
    Ok(())
}

fn put_signals(pe: &Pe) -> anyhow::Result<()> {
    const LEN: usize = 70;
    let (dst, src) = (pe.alloc::<u32>(LEN)?, pe.alloc::<u32>(LEN)?);
    let signal = pe.signals(1)?;
    for (base, threads) in [(0, 64), (3, 1), (6, 64)] {
        src.write(&(0..LEN as u32).map(|i| i + 100 * base as u32).collect::<Vec<_>>())?;
        pe.barrier_all()?;
        if threads == 1 {
            launch!(pe, put_signal_by_thread<<<1, 1>>>(&dst, &src, &signal, base, 3))?;
        } else {
            launch!(pe, put_signal_by_block<<<1, threads>>>(&dst, &src, &signal, base, 3))?;
        }
        pe.barrier_all()?;
        ensure!(dst.to_vec()? == src.to_vec()?, "base {base}");
        pe.barrier_all()?;
    }
    Ok(())
}

fn world_barriers(pe: &Pe) -> anyhow::Result<()> {
    collective_launch!(pe, barriers::<0><<<1, 1>>>(2))?;
    collective_launch!(pe, barriers::<1><<<1, 32>>>(2))?;
    collective_launch!(pe, barriers::<2><<<1, 64>>>(2))?;
    let board = pe.alloc::<f64>(pe.n() as usize)?;
    collective_launch!(pe, post<<<1, 32>>>(&board, f64::from(pe.id()) + 1.0))?;
    let expected: Vec<f64> = (0..pe.n()).map(|pe| f64::from(pe) + 1.0).collect();
    ensure!(board.to_vec()? == expected, "{:?}", board.to_vec()?);
    Ok(pe.barrier_all()?)
}

/// The sum by each algorithm, by a block and by a grid.
fn sums(pe: &Pe) -> anyhow::Result<()> {
    let (dst, src) = (pe.alloc::<f32>(50)?, pe.alloc::<f32>(50)?);
    src.write(&[pe.id() as f32 + 1.0; 50])?;
    for algorithm in 0..4 {
        dst.write(&[0.0; 50])?;
        pe.barrier_all()?;
        if algorithm % 2 == 0 {
            collective_launch!(pe, collectives::<{ kind::REDUCTION }, 0><<<1, 32>>>(&dst, &src, algorithm, 3))?;
        } else {
            collective_launch!(pe, collectives::<{ kind::REDUCTION }, 1><<<2, 32>>>(&dst, &src, algorithm, 3))?;
        }
        let expected = (pe.n() * (pe.n() + 1) / 2) as f32;
        ensure!(dst.to_vec()? == [expected; 50], "algorithm {algorithm}");
    }
    Ok(())
}

fn packets(pe: &Pe) -> anyhow::Result<()> {
    let (slots, wrong) = (pe.alloc(2)?, pe.buffer::<u32>(1)?);
    wrong.write(&[0])?;
    pe.barrier_all()?;
    launch!(pe, packet_pingpong::<[u32; 3]><<<1, 1>>>(&slots, 1, 6, &wrong))?;
    ensure!(wrong.read(0)? == 0);
    Ok(pe.barrier_all()?)
}
