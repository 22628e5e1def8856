//! The kernels of the benchmarks, with few iterations.

use crate::Check;
use anyhow::ensure;
use shmem::collective::Sum;
use shmem::prelude::*;
use shmem_host::{Pe, collective_launch, launch};
use shmem_perf::collectives::{kind, moves as collectives};
use shmem_perf::data::{Expect, check, fill, rule};
use shmem_perf::reductions::{reduce_scatters, reduces, reduces_by};
use shmem_perf::{amo, atomic_latency, atomic_pingpong, atomic_rate, g_chain, order, p_then, word, word_bw};
use shmem_perf::{
    bandwidth, barriers, bulk_bandwidth, call, get_by_block, get_by_thread, p_pingpong, packet_pingpong, post,
};
use shmem_perf::{
    put_pingpong_by_block, put_quiet_by_warp, put_signal_by_block, put_signal_by_thread, put_signal_in_bulk,
    signal_pingpong,
};

pub(crate) const PROGRAMS: [(&str, &[u32], Check); 11] = [
    ("perf/bandwidth", &[2, 3], bandwidths),
    ("perf/gets", &[2], gets),
    ("perf/pingpong", &[2, 3], pingpongs),
    ("perf/put_signal", &[2], put_signals),
    ("perf/barriers", &[2, 3, 1], world_barriers),
    ("perf/collectives", &[2, 3, 1], sums),
    ("perf/packets", &[2], packets),
    ("perf/words", &[2, 3], words),
    ("perf/atomics", &[2, 3], atomics),
    ("perf/latencies", &[2], latencies),
    ("perf/moves", &[2, 3, 1], moved),
];

fn bandwidths(pe: &Pe) -> anyhow::Result<()> {
    moves::<{ call::PUT }>(pe)?;
    moves::<{ call::PUT_NBI }>(pe)?;
    moves::<{ call::GET }>(pe)?;
    moves::<{ call::GET_NBI }>(pe)?;
    bulk_moves::<{ call::PUT }>(pe)?;
    bulk_moves::<{ call::PUT_NBI }>(pe)?;
    bulk_moves::<{ call::GET }>(pe)
}

type Moves = (SymSlice<u32>, SymSlice<u32>, u32, u32, u32);

fn moves<const CALL: u32>(pe: &Pe) -> anyhow::Result<()>
where
    bandwidth<CALL>: shmem::Kernel<Args = Moves>,
{
    move_by(
        pe,
        CALL,
        |there, here, windows| launch!(pe, bandwidth::<CALL><<<2, 64>>>(there, here, windows, 1, windows)),
    )
}

fn bulk_moves<const CALL: u32>(pe: &Pe) -> anyhow::Result<()>
where
    bulk_bandwidth<CALL>: shmem::Kernel<Args = Moves>,
{
    move_by(
        pe,
        CALL,
        |there, here, windows| launch!(pe, bulk_bandwidth::<CALL><<<2, 64, 1 << 10>>>(there, here, windows, 1, windows)),
    )
}

fn move_by(
    pe: &Pe,
    call: u32,
    launch: impl Fn(SymSlice<u32>, SymSlice<u32>, u32) -> Result<(), shmem_host::Error>,
) -> anyhow::Result<()> {
    const LEN: usize = 150;
    const WINDOWS: usize = 2;
    let gets = call == call::GET || call == call::GET_NBI;
    let all = LEN * WINDOWS;
    let (here, there) = (pe.alloc::<u32>(if gets { all } else { LEN })?, pe.alloc::<u32>(all)?);
    let full = |n: usize| (0..n).map(|i| (i % LEN) as u32 + 1).collect::<Vec<_>>();
    here.write(&if gets { vec![0; all] } else { full(LEN) })?;
    there.write(&if gets { full(all) } else { vec![0; all] })?;
    pe.barrier_all()?;
    if pe.id() == 0 {
        launch(there.handle(), here.handle(), WINDOWS as u32)?;
    }
    pe.barrier_all()?;
    let (checked, on) = if gets { (&here, 0) } else { (&there, 1) };
    if pe.id() == on {
        ensure!(checked.to_vec()? == full(all), "call {call}");
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
                launch!(pe, get_by_block<<<1, 64>>>(&here, &there, 70, 1, iters))?;
            } else {
                launch!(pe, get_by_thread<<<1, 1>>>(&here, &there, 70, 1, iters))?;
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
    for (base, threads) in [(0, 64), (3, 1), (6, 64), (9, 32), (12, 64)] {
        src.write(&(0..LEN as u32).map(|i| i + 100 * base as u32).collect::<Vec<_>>())?;
        pe.barrier_all()?;
        if base == 12 {
            launch!(pe, put_signal_in_bulk<<<1, threads, 1 << 10>>>(&dst, &src, signal.at(0)?, base, 3))?;
        } else if threads == 32 {
            launch!(pe, put_pingpong_by_block<<<1, threads>>>(&dst, &src, signal.at(0)?, base, 3))?;
        } else if threads == 1 {
            launch!(pe, put_signal_by_thread<<<1, 1>>>(&dst, &src, signal.at(0)?, base, 3))?;
        } else {
            launch!(pe, put_signal_by_block<<<1, threads>>>(&dst, &src, signal.at(0)?, base, 3))?;
        }
        pe.barrier_all()?;
        ensure!(dst.to_vec()? == src.to_vec()?, "base {base}");
        pe.barrier_all()?;
    }
    Ok(())
}

fn world_barriers(pe: &Pe) -> anyhow::Result<()> {
    collective_launch!(pe, barriers::<0, 1><<<1, 1>>>(2))?;
    collective_launch!(pe, barriers::<1, 1><<<1, 32>>>(2))?;
    collective_launch!(pe, barriers::<2, 1><<<1, 64>>>(2))?;
    collective_launch!(pe, barriers::<2, 0><<<1, 64>>>(2))?;
    let board = pe.alloc::<f64>(pe.n() as usize)?;
    collective_launch!(pe, post<<<1, 32>>>(&board, f64::from(pe.id()) + 1.0))?;
    let expected: Vec<f64> = (0..pe.n()).map(|pe| f64::from(pe) + 1.0).collect();
    ensure!(board.to_vec()? == expected, "{:?}", board.to_vec()?);
    Ok(pe.barrier_all()?)
}

/// The sum by the size's choice and by each algorithm, by a block and by a grid.
fn sums(pe: &Pe) -> anyhow::Result<()> {
    let (dst, src) = (pe.alloc::<f32>(50)?, pe.alloc::<f32>(50)?);
    src.write(&[pe.id() as f32 + 1.0; 50])?;
    for algorithm in 0..5 {
        dst.write(&[0.0; 50])?;
        pe.barrier_all()?;
        match algorithm {
            0 => collective_launch!(pe, reduces::<f32, Sum, Block><<<1, 32>>>(&dst, &src, 3)),
            4 => collective_launch!(pe, reduces::<f32, Sum, Grid><<<2, 32>>>(&dst, &src, 3)),
            _ => collective_launch!(pe, reduces_by<<<1, 32>>>(&dst, &src, algorithm, 3)),
        }?;
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

/// p, g and stores through ptr.
fn words(pe: &Pe) -> anyhow::Result<()> {
    let (there, here) = (pe.alloc::<u32>(2 * 70)?, pe.alloc::<u32>(70)?);
    // What is not reached by load and store has no ptr.
    let reached = pe.node().n_pes() == pe.n();
    for call in [word::P, word::G, word::ST]
        .into_iter()
        .filter(|call| reached || *call != word::ST)
    {
        let (from, to) = if call == word::G {
            (&there, &here)
        } else {
            (&here, &there)
        };
        from.write(&(0..from.len()).map(|i| (i % 70) as u32 + call).collect::<Vec<_>>())?;
        pe.barrier_all()?;
        if pe.id() == 0 {
            match call {
                word::P => launch!(pe, word_bw::<u32, { word::P }><<<2, 32>>>(&there, &here, 2, 1, 2)),
                word::ST => launch!(pe, word_bw::<u32, { word::ST }><<<2, 32>>>(&there, &here, 2, 1, 2)),
                _ => launch!(pe, word_bw::<u32, { word::G }><<<2, 32>>>(&there, &here, 2, 1, 2)),
            }?;
        }
        pe.barrier_all()?;
        if pe.id() == u32::from(call != word::G) {
            let expected: Vec<_> = (0..to.len()).map(|i| (i % 70) as u32 + call).collect();
            ensure!(to.to_vec()? == expected, "call {call}");
        }
        pe.barrier_all()?;
    }
    Ok(())
}

fn atomics(pe: &Pe) -> anyhow::Result<()> {
    let (words, last) = (pe.alloc::<u64>(64 + 2)?, pe.buffer::<u64>(1)?);
    let (word, ball) = (words.at(64)?, words.at(65)?);
    if pe.id() == 0 {
        launch!(pe, atomic_rate<<<2, 32>>>(amo::ADD, words.part(..64)?, 1, 1, 3))?;
        launch!(pe, atomic_rate<<<2, 32>>>(amo::INC, words.part(..64)?, 0, 1, 1))?;
        launch!(pe, atomic_latency<<<1, 1>>>(amo::FETCH_ADD, word, &last, 1, 4))?;
        launch!(pe, atomic_latency<<<1, 1>>>(amo::ADD, word, &last, 1, 3))?;
    }
    pe.barrier_all()?;
    if pe.id() == 1 {
        let mut expected = vec![3; 64];
        expected[0] = 3 + 64;
        ensure!(
            words.to_vec()?[..64] == expected && words.read(64)? == 7,
            "{:?}",
            words.to_vec()?
        );
    }
    pe.barrier_all()?;
    for (base, op) in [
        (0, amo::XOR),
        (3, amo::COMPARE_SWAP),
        (6, amo::FETCH_INC),
        (9, amo::SET),
    ] {
        if pe.id() < 2 {
            launch!(pe, atomic_pingpong<<<1, 1>>>(op, ball, base, 3))?;
        }
        pe.barrier_all()?;
        ensure!(pe.id() > 1 || words.read(65)? == base + 3, "operation {op}");
        pe.barrier_all()?;
    }
    Ok(())
}

fn latencies(pe: &Pe) -> anyhow::Result<()> {
    let (dst, src) = (pe.alloc::<u32>(70)?, pe.alloc::<u32>(70)?);
    let (slots, last) = (pe.alloc::<u64>(3)?, pe.buffer::<u64>(1)?);
    src.write(&(1..71).collect::<Vec<_>>())?;
    let chain = pe.alloc::<u64>(3)?;
    chain.write(&[2, 0, 1])?;
    pe.barrier_all()?;
    if pe.id() == 0 {
        launch!(pe, put_quiet_by_warp<<<1, 32>>>(&dst, &src, 1, 2))?;
        launch!(pe, p_then::<{ order::FENCE }><<<1, 1>>>(&slots, 1, 7))?;
        launch!(pe, g_chain<<<1, 1>>>(&chain, &last, 1, 5))?;
        ensure!(last.read(0)? == 1);
    }
    pe.barrier_all()?;
    if pe.id() == 1 {
        ensure!(dst.to_vec()? == src.to_vec()? && slots.to_vec()? == [6, 4, 5]);
    }
    Ok(pe.barrier_all()?)
}

/// alltoall and the sum of parts, filled and checked by the suite's own kernels.
fn moved(pe: &Pe) -> anyhow::Result<()> {
    let n = pe.n() as usize;
    let (dst, src, wrong) = (pe.alloc::<u32>(n * 7)?, pe.alloc::<u32>(n * 7)?, pe.buffer::<u32>(1)?);
    let expect = Expect {
        rule: rule::ALLTOALL,
        op: 0,
        from: 0,
        me: pe.id(),
        n: pe.n(),
        len: 7,
        first: 0,
    };
    wrong.write(&[0])?;
    launch!(pe, fill::<u32><<<2, 8>>>(&src, pe.id(), (n * 7) as u64))?;
    collective_launch!(pe, collectives::<{ kind::ALLTOALL }, Block><<<1, 32>>>(&dst, &src, 2))?;
    launch!(pe, check::<u32><<<2, 8>>>(&dst, expect, &wrong))?;
    ensure!(wrong.read(0)? == 0, "alltoall: {} elements", wrong.read(0)?);
    let (dst, src) = (pe.alloc::<f32>(7)?, pe.alloc::<f32>(n * 7)?);
    launch!(pe, fill::<f32><<<2, 8>>>(&src, pe.id(), 0))?;
    collective_launch!(pe, reduce_scatters::<f32, Sum, Block><<<1, 32>>>(&dst, &src, 2))?;
    let expect = Expect {
        rule: rule::REDUCE,
        first: u64::from(pe.id()) * 7,
        ..expect
    };
    launch!(pe, check::<f32><<<2, 8>>>(&dst, expect, &wrong))?;
    ensure!(wrong.read(0)? == 0, "reduce_scatter: {} elements", wrong.read(0)?);
    Ok(())
}
