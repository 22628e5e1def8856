//! put_bw and get_bw: blocks of PE 0 move, and those of PE 1 as well where both ways are measured.

use crate::bench::{Bench, Shape, Sweep};
use shmem::{Kernel, SymSlice};
use shmem_host::{Error, launch};
use shmem_perf::{bandwidth, bulk_bandwidth, call};

/// Shapes of the peer's rows.
const SHAPES: [Shape; 6] = [(8, 1024), (16, 1024), (32, 1024), (64, 1024), (132, 1024), (32, 256)];
const QUICK: [Shape; 2] = [(32, 1024), (132, 1024)];
const SIMULATED: [Shape; 2] = [(2, 64), (1, 32)];
pub(crate) const SIZES: Sweep = Sweep {
    begin: 4 << 10,
    end: 256 << 20,
    factor: 4,
    simulated: 1 << 10,
};
/// Shapes that bulk engines are compared at: few threads fill a link by them.
const BULK_SHAPES: [Shape; 4] = [(1, 1024), (8, 1024), (32, 256), (132, 1024)];
const BULK_SIZES: Sweep = Sweep {
    begin: 64 << 10,
    ..SIZES
};
/// Shared memory of a bulk engine. Every device that has kernels of ours has this much.
pub(crate) const STAGING: u32 = 97 << 10;
/// Bytes on the peer's side for each block, at least: transfers over one buffer again and again were seen to beat the link's
/// raw rate, and gets find their lines in the L1 cache.
const ROTATED: usize = 512 << 10;

pub(crate) fn put(b: &Bench) -> anyhow::Result<()> {
    let plain = shapes(b, &SHAPES, &QUICK, &SIMULATED)?;
    sweep(b, SIZES, plain, &[row::<{ call::PUT }>, row::<{ call::PUT_NBI }>])?;
    let bulk = shapes(b, &BULK_SHAPES, &QUICK, &SIMULATED)?;
    sweep(
        b,
        BULK_SIZES,
        bulk,
        &[bulk_row::<{ call::PUT }>, bulk_row::<{ call::PUT_NBI }>],
    )
}

pub(crate) fn get(b: &Bench) -> anyhow::Result<()> {
    let plain = shapes(b, &SHAPES, &QUICK, &SIMULATED)?;
    sweep(b, SIZES, plain, &[row::<{ call::GET }>, row::<{ call::GET_NBI }>])?;
    let bulk = shapes(b, &BULK_SHAPES, &QUICK, &SIMULATED)?;
    sweep(b, BULK_SIZES, bulk, &[bulk_row::<{ call::GET }>])
}

type Measure = fn(&Bench, Shape, usize, bool) -> anyhow::Result<()>;

fn sweep(b: &Bench, sizes: Sweep, shapes: Vec<Shape>, measures: &[Measure]) -> anyhow::Result<()> {
    let sizes = b.sizes(sizes, 4)?;
    for shape in shapes {
        for &bytes in &sizes {
            for measure in measures {
                measure(b, shape, bytes, b.options.bidir)?;
            }
        }
        // Both ways at the largest size, as the peer's suite has it.
        if let Some(&largest) = sizes.last().filter(|_| !b.options.bidir) {
            for measure in measures {
                measure(b, shape, largest, true)?;
            }
        }
    }
    Ok(())
}

/// The shape asked for, or the benchmark's own.
pub(crate) fn shapes(b: &Bench, all: &[Shape], quick: &[Shape], simulated: &[Shape]) -> anyhow::Result<Vec<Shape>> {
    let options = b.options;
    let own = match (b.simulated, options.quick) {
        (true, true) => &simulated[..1],
        (true, false) => simulated,
        (false, true) => quick,
        (false, false) => all,
    };
    if options.ctas.is_none() && options.threads.is_none() {
        return Ok(own.to_vec());
    }
    let threads = options.threads(b.name, own[0].1, 1024)?;
    Ok(vec![(options.ctas.unwrap_or(own[0].0), threads)])
}

/// How many copies of a transfer the peer's side has.
pub(crate) fn windows(b: &Bench, blocks: u32, bytes: usize) -> usize {
    if b.simulated {
        return 2;
    }
    (blocks as usize * ROTATED / bytes).max(1)
}

fn row<const CALL: u32>(b: &Bench, shape: Shape, bytes: usize, both: bool) -> anyhow::Result<()>
where
    bandwidth<CALL>: Kernel<Args = (SymSlice<u32>, SymSlice<u32>, u32, u32, u32)>,
{
    measure(
        b,
        CALL,
        "",
        shape,
        bytes,
        both,
        |there, here, windows, iters| launch!(b.pe, bandwidth::<CALL><<<shape.0, shape.1>>>(there, here, windows, b.peer(), iters)),
    )
}

fn bulk_row<const CALL: u32>(b: &Bench, shape: Shape, bytes: usize, both: bool) -> anyhow::Result<()>
where
    bulk_bandwidth<CALL>: Kernel<Args = (SymSlice<u32>, SymSlice<u32>, u32, u32, u32)>,
{
    measure(
        b,
        CALL,
        "bulk_",
        shape,
        bytes,
        both,
        |there, here, windows, iters| launch!(b.pe, bulk_bandwidth::<CALL><<<shape.0, shape.1, STAGING>>>(there, here, windows, b.peer(), iters)),
    )
}

/// `launch` is given both sides, how many copies of a transfer the peer's has, and how many transfers to make.
fn measure(
    b: &Bench,
    call: u32,
    engine: &str,
    (blocks, threads): Shape,
    bytes: usize,
    both: bool,
    launch: impl Fn(SymSlice<u32>, SymSlice<u32>, u32, u32) -> Result<(), Error>,
) -> anyhow::Result<()> {
    let (len, windows) = (bytes / 4, windows(b, blocks, bytes));
    let gets = call == call::GET || call == call::GET_NBI;
    let there = b.pe.alloc::<u32>(len * windows)?;
    let here = b.pe.alloc::<u32>(if gets { len * windows } else { len })?;
    b.fill(if gets { there.handle() } else { here.handle() }, len)?;
    let moves = b.pe.id() == 0 || (both && b.pe.id() == 1);
    let seconds = b.seconds(windows as u32..=u32::MAX, |iters| -> Result<(), Error> {
        if moves {
            launch(there.handle(), here.handle(), windows as u32, iters)?;
        }
        Ok(())
    })?;
    let filled = windows.min(b.options.iters.unwrap_or(u32::MAX) as usize) * len;
    let result = if gets { &here } else { &there };
    let has = if both {
        b.in_pair()
    } else {
        b.pe.id() == u32::from(!gets)
    };
    b.check_copy(has, result.part(..filled)?, b.peer(), len)?;
    let (bench, kind) = match call {
        call::PUT => ("put_bw", "block"),
        call::PUT_NBI => ("put_bw", "nbi_block"),
        call::GET => ("get_bw", "block"),
        _ => ("get_bw", "nbi_block"),
    };
    let variant = format!("{}{engine}{kind}_g{blocks}_t{threads}", if both { "bidi_" } else { "" });
    let moved = bytes * if both { 2 } else { 1 };
    b.row(bench, &variant, bytes, moved as f64 / seconds * 1e-9, "GB/s");
    Ok(())
}
