//! put_bw and get_bw: one PE moves, the other keeps still.

use crate::measure::{self, Row};
use anyhow::Context;
use shmem::prelude::*;
use shmem_host::{Pe, launch};
use shmem_perf::{bandwidth, call};

/// One row: blocks x threads move `bytes` between PE 0 and PE 1.
pub(crate) fn row<const CALL: u32>(pe: &Pe, (blocks, threads): (u32, u32), bytes: usize) -> anyhow::Result<Row>
where
    bandwidth<CALL>: shmem::Kernel<Args = (SymSlice<u32>, SymSlice<u32>, u32, u32, u32)>,
{
    let len = bytes / 4;
    // 512 KiB on the peer's side for each block, at least.
    let windows = (blocks as usize * (512 << 10) / bytes).max(1);
    let is_get = CALL == call::GET || CALL == call::GET_NBI;
    let here = pe.alloc::<u32>(if is_get { len * windows } else { len })?;
    let there = pe.alloc::<u32>(len * windows)?;
    let full = |n: usize| (0..n).map(|i| measure::element(i % len)).collect::<Vec<_>>();
    // The source side is filled, the other is poisoned.
    here.write(&if is_get { vec![0; len * windows] } else { full(len) })?;
    there.write(&if is_get {
        full(len * windows)
    } else {
        vec![0; len * windows]
    })?;
    let seconds = measure::per_iteration(pe, windows as u32, |iters| {
        if pe.id() == 0 {
            launch!(pe, bandwidth::<CALL><<<blocks, threads>>>(&there, &here, windows as u32, 1, iters))?;
        }
        Ok(())
    })?;
    let (checked, on) = if is_get { (&here, 0) } else { (&there, 1) };
    if pe.id() == on {
        for (i, v) in checked.to_vec()?.into_iter().enumerate() {
            let expected = measure::element(i % len);
            (v == expected).then_some(()).with_context(|| {
                format!("element {i} is {v:#x}, expected {expected:#x}: {blocks}x{threads}, {bytes} bytes")
            })?;
        }
    }
    pe.barrier_all()?;
    let (bench, kind) = match CALL {
        call::PUT => ("put_bw", "block"),
        call::PUT_NBI => ("put_bw", "nbi_block"),
        call::GET => ("get_bw", "block"),
        _ => ("get_bw", "nbi_block"),
    };
    Ok(Row {
        bench,
        variant: format!("{kind}_g{blocks}_t{threads}"),
        bytes,
        value: bytes as f64 / seconds * 1e-9,
        unit: "GB/s",
    })
}
