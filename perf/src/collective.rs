//! Latencies of device collectives over the world, by one block and by a grid, and of packets. Microseconds. Bytes are those of
//! the elements that a call is given: for each destination of alltoall, of each PE's part of fcollect and `reduce_scatter`.

use crate::measure::{Row, element, per_iteration};
use anyhow::ensure;
use shmem::packet::Packet;
use shmem::{Global, Kernel, SymSlice};
use shmem_host::{LaunchConfig, Pe, launch};
use shmem_perf::collectives::{Ball, collectives, kind, packet_pingpong};
use std::cell::Cell;

/// Bytes that a call is given.
const SIZES: [usize; 10] = [
    8,
    128,
    1 << 10,
    4 << 10,
    8 << 10,
    32 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
];
/// Threads of a block.
const BLOCK: u32 = 1024;
/// Blocks of a grid.
const GRID: u32 = 32;

/// One benchmark: the size's own choice, and each algorithm by itself.
pub(crate) fn rows<const KIND: u32>(pe: &Pe, mut print: impl FnMut(Row)) -> anyhow::Result<()>
where
    collectives<KIND, 0>: Kernel<Args = (SymSlice<f32>, SymSlice<f32>, u32, u32)>,
    collectives<KIND, 1>: Kernel<Args = (SymSlice<f32>, SymSlice<f32>, u32, u32)>,
    collectives<KIND, 2>: Kernel<Args = (SymSlice<f32>, SymSlice<f32>, u32, u32)>,
{
    let simulated = pe.device_name() == "the simulator";
    let most = if simulated { 1 << 10 } else { usize::MAX };
    for bytes in SIZES.into_iter().filter(|bytes| *bytes <= most) {
        for (algorithm, name) in [(0, ""), (1, "_packets"), (2, "_one_shot"), (3, "_two_shot")] {
            let has = match algorithm {
                1 => bytes as u64 <= shmem::collective::room(pe.n()),
                3 => matches!(KIND, kind::BCAST | kind::REDUCTION),
                _ => true,
            };
            if has {
                print(row::<KIND>(pe, bytes, algorithm, name, false)?);
            }
        }
        if bytes >= 32 << 10 || simulated {
            print(row::<KIND>(pe, bytes, 0, "", true)?);
        }
    }
    Ok(())
}

fn row<const KIND: u32>(pe: &Pe, bytes: usize, algorithm: u32, name: &str, grid: bool) -> anyhow::Result<Row>
where
    collectives<KIND, 0>: Kernel<Args = (SymSlice<f32>, SymSlice<f32>, u32, u32)>,
    collectives<KIND, 1>: Kernel<Args = (SymSlice<f32>, SymSlice<f32>, u32, u32)>,
    collectives<KIND, 2>: Kernel<Args = (SymSlice<f32>, SymSlice<f32>, u32, u32)>,
{
    let (n, len) = (pe.n() as usize, bytes / 4);
    // How many parts each side has.
    let (to, from) = match KIND {
        kind::ALLTOALL => (n, n),
        kind::FCOLLECT => (n, 1),
        kind::REDUCESCATTER => (1, n),
        _ => (1, 1),
    };
    let (dst, src) = (pe.alloc::<f32>(to * len)?, pe.alloc::<f32>(from * len)?);
    let value = |pe: usize, i: usize| (element(pe * 31 + i) >> 12) as f32;
    src.write(&(0..from * len).map(|i| value(pe.id() as usize, i)).collect::<Vec<_>>())?;
    let simulated = pe.device_name() == "the simulator";
    let (blocks, threads) = match (grid, simulated) {
        (false, false) => (1, BLOCK),
        (false, true) => (1, 64),
        (true, false) => (GRID, BLOCK),
        (true, true) => (2, 32),
    };
    let seconds = per_iteration(pe, 4, |iters| {
        let config = LaunchConfig::new(blocks, threads).collective();
        if grid {
            pe.launch(config, collectives::<KIND, 1>(&dst, &src, algorithm, iters))
        } else if algorithm > 0 {
            pe.launch(config, collectives::<KIND, 2>(&dst, &src, algorithm, iters))
        } else {
            pe.launch(config, collectives::<KIND, 0>(&dst, &src, algorithm, iters))
        }
    })?;
    let me = pe.id() as usize;
    for (i, got) in dst.to_vec()?.into_iter().enumerate() {
        let sum = |i: usize| (0..n).fold(0.0, |sum, pe| sum + value(pe, i));
        let expected = match KIND {
            kind::ALLTOALL => value(i / len, me * len + i % len),
            kind::BCAST => value(0, i),
            kind::FCOLLECT => value(i / len, i % len),
            kind::REDUCTION => sum(i),
            _ => sum(me * len + i),
        };
        ensure!(
            got.to_bits() == expected.to_bits(),
            "element {i} is {got}, expected {expected}: {bytes} bytes"
        );
    }
    pe.barrier_all()?;
    Ok(Row {
        bench: match KIND {
            kind::ALLTOALL => "alltoall",
            kind::BCAST => "bcast",
            kind::FCOLLECT => "fcollect",
            kind::REDUCTION => "reduction",
            _ => "reducescatter",
        },
        variant: if grid {
            format!("grid_g{blocks}_t{threads}{name}")
        } else {
            format!("block{name}")
        },
        bytes,
        value: seconds * 1e6,
        unit: "us",
    })
}

/// Half round trips of packets of each size.
pub(crate) fn packets(pe: &Pe, mut print: impl FnMut(Row)) -> anyhow::Result<()> {
    print(packet::<u32>(pe)?);
    print(packet::<u64>(pe)?);
    print(packet::<[u32; 3]>(pe)?);
    Ok(())
}

fn packet<T: Ball>(pe: &Pe) -> anyhow::Result<Row>
where
    packet_pingpong<T>: Kernel<Args = (SymSlice<Packet<T>>, u32, u32, Global<u32>)>,
{
    let (slots, wrong) = (pe.alloc::<Packet<T>>(2)?, pe.buffer::<u32>(1)?);
    wrong.write(&[0])?;
    let first = Cell::new(1u32);
    let seconds = per_iteration(pe, 100, |iters| {
        if pe.id() < 2 {
            launch!(pe, packet_pingpong::<T><<<1, 1>>>(&slots, first.get(), iters, &wrong))?;
        }
        first.set(first.get() + iters);
        Ok(())
    })?;
    ensure!(wrong.read(0)? == 0, "{} packets were torn", wrong.read(0)?);
    Ok(Row {
        bench: "packet_pingpong",
        variant: format!("thread_{}_of_{}", size_of::<T>(), size_of::<Packet<T>>()),
        bytes: size_of::<Packet<T>>(),
        value: seconds / 2.0 * 1e6,
        unit: "us",
    })
}
