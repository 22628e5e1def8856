//! put_bw and get_bw: blocks of PE 0 move, and those of PE 1 as well where both ways are measured.

use crate::bench::{Bench, Shape, Sweep};
use shmem::{Kernel, SymSlice};
use shmem_host::{Error, launch};
use shmem_perf::{bandwidth, call};

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
/// Bytes on the peer's side for each block, at least: transfers over one buffer again and again were seen to beat the link's
/// raw rate, and gets find their lines in the L1 cache.
const ROTATED: usize = 512 << 10;

pub(crate) fn put(b: &Bench) -> anyhow::Result<()> {
    sweep(b, row::<{ call::PUT }>, row::<{ call::PUT_NBI }>)
}

pub(crate) fn get(b: &Bench) -> anyhow::Result<()> {
    sweep(b, row::<{ call::GET }>, row::<{ call::GET_NBI }>)
}

type Measure = fn(&Bench, Shape, usize, bool) -> anyhow::Result<()>;

fn sweep(b: &Bench, blocking: Measure, nbi: Measure) -> anyhow::Result<()> {
    let sizes = b.sizes(SIZES, 4)?;
    for shape in shapes(b, &SHAPES, &QUICK, &SIMULATED)? {
        for &bytes in &sizes {
            blocking(b, shape, bytes, b.options.bidir)?;
            nbi(b, shape, bytes, b.options.bidir)?;
        }
        // Both ways at the largest size, as the peer's suite has it.
        if let Some(&largest) = sizes.last().filter(|_| !b.options.bidir) {
            blocking(b, shape, largest, true)?;
            nbi(b, shape, largest, true)?;
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

fn row<const CALL: u32>(b: &Bench, (blocks, threads): Shape, bytes: usize, both: bool) -> anyhow::Result<()>
where
    bandwidth<CALL>: Kernel<Args = (SymSlice<u32>, SymSlice<u32>, u32, u32, u32)>,
{
    let (len, windows) = (bytes / 4, windows(b, blocks, bytes));
    let gets = CALL == call::GET || CALL == call::GET_NBI;
    let there = b.pe.alloc::<u32>(len * windows)?;
    let here = b.pe.alloc::<u32>(if gets { len * windows } else { len })?;
    b.fill(if gets { there.handle() } else { here.handle() }, len)?;
    let moves = b.pe.id() == 0 || (both && b.pe.id() == 1);
    let seconds = b.seconds(windows as u32..=u32::MAX, |iters| -> Result<(), Error> {
        if moves {
            launch!(b.pe, bandwidth::<CALL><<<blocks, threads>>>(&there, &here, windows as u32, b.peer(), iters))?;
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
    let (bench, kind) = match CALL {
        call::PUT => ("put_bw", "block"),
        call::PUT_NBI => ("put_bw", "nbi_block"),
        call::GET => ("get_bw", "block"),
        _ => ("get_bw", "nbi_block"),
    };
    let variant = format!("{}{kind}_g{blocks}_t{threads}", if both { "bidi_" } else { "" });
    let moved = bytes * if both { 2 } else { 1 };
    b.row(bench, &variant, bytes, moved as f64 / seconds * 1e-9, "GB/s");
    Ok(())
}
