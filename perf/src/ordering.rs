//! fence_quiet: p alone, with a fence and with a quiet behind it.

use crate::bench::Bench;
use shmem::{Kernel, SymSlice};
use shmem_host::launch;
use shmem_perf::{order, p_then};
use std::cell::Cell;

/// Slots that the p's go through.
const SLOTS: u32 = 1024;

pub(crate) fn fence_quiet(b: &Bench) -> anyhow::Result<()> {
    row::<{ order::NONE }>(b, "p_alone")?;
    row::<{ order::FENCE }>(b, "p_then_fence")?;
    row::<{ order::QUIET }>(b, "p_then_quiet")
}

fn row<const ORDER: u32>(b: &Bench, variant: &str) -> anyhow::Result<()>
where
    p_then<ORDER>: Kernel<Args = (SymSlice<u64>, u32, u32)>,
{
    let slots = b.pe.alloc::<u64>(SLOTS as usize)?;
    let last = Cell::new(0);
    let seconds = b.seconds(4..=u32::MAX, |n| {
        last.set(n);
        match b.pe.id() {
            0 => launch!(b.pe, p_then::<ORDER><<<1, 1>>>(&slots, 1, n)),
            _ => Ok(()),
        }
    })?;
    b.pe.barrier_all()?;
    let (last, mut wrong) = (last.get(), 0);
    if b.pe.id() == 1 {
        // The last launch went over each slot up to its end.
        for (slot, value) in slots.to_vec()?.into_iter().enumerate().take(last as usize) {
            let rounds = (last - 1 - slot as u32) / SLOTS;
            wrong += u64::from(value != u64::from(slot as u32 + rounds * SLOTS));
        }
    }
    b.judge(wrong)?;
    b.us("fence_quiet", variant, 8, seconds);
    Ok(())
}
