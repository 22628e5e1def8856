//! amo: latency of one atomic at a time, and how many go by in a second.

use crate::bench::{Bench, Shape};
use crate::options::{AtomicOp, name};
use shmem_host::launch;
use shmem_perf::{amo, atomic_latency, atomic_rate};
use std::cell::Cell;

impl AtomicOp {
    /// As kernels know it.
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Inc => amo::INC,
            Self::Add => amo::ADD,
            Self::And => amo::AND,
            Self::Or => amo::OR,
            Self::Xor => amo::XOR,
            Self::Set => amo::SET,
            Self::Swap => amo::SWAP,
            Self::FetchInc => amo::FETCH_INC,
            Self::FetchAdd => amo::FETCH_ADD,
            Self::FetchAnd => amo::FETCH_AND,
            Self::FetchOr => amo::FETCH_OR,
            Self::FetchXor => amo::FETCH_XOR,
            Self::CompareSwap => amo::COMPARE_SWAP,
        }
    }

    /// What a word of 0 is after so many of them.
    fn after(self, times: u64) -> u64 {
        match self {
            Self::Inc | Self::Add | Self::FetchInc | Self::FetchAdd => times,
            Self::And | Self::FetchAnd => 0,
            Self::Xor | Self::FetchXor => amo::BITS * (times % 2),
            Self::Or | Self::FetchOr | Self::Set | Self::Swap | Self::CompareSwap => amo::BITS * u64::from(times > 0),
        }
    }
}

/// Operations of the rows where none is asked for: the peer's, one without an operand that changes, one that compares.
const OWN: [AtomicOp; 3] = [AtomicOp::FetchAdd, AtomicOp::Swap, AtomicOp::CompareSwap];
const OWN_RATES: [AtomicOp; 2] = [AtomicOp::Add, AtomicOp::FetchAdd];

pub(crate) fn latency(b: &Bench) -> anyhow::Result<()> {
    for op in b.options.atomic_op.map_or(OWN.to_vec(), |op| vec![op]) {
        let (words, last) = (b.pe.alloc::<u64>(1)?, b.pe.buffer::<u64>(1)?);
        let (word, times) = (words.at(0)?, Cell::new(0));
        let seconds = b.seconds(4..=u32::MAX, |n| {
            times.set(times.get() + u64::from(n));
            match b.pe.id() {
                0 => launch!(b.pe, atomic_latency<<<1, 1>>>(op.number(), word, &last, 1, n)),
                _ => Ok(()),
            }
        })?;
        b.pe.barrier_all()?;
        let wrong = b.pe.id() == 1 && words.read(0)? != op.after(times.get());
        b.judge(wrong.into())?;
        b.us("amo", &format!("{}_latency", name(&op)), 8, seconds);
    }
    Ok(())
}

pub(crate) fn rate(b: &Bench) -> anyhow::Result<()> {
    let own: &[(&str, Shape)] = if b.simulated {
        &[("warp", (1, 32)), ("2blocks", (2, 32))]
    } else {
        &[("warp", (1, 32)), ("block", (1, 1024)), ("32blocks", (32, 1024))]
    };
    let shapes = match (b.options.ctas, b.options.threads) {
        (None, None) => own.iter().map(|(name, shape)| ((*name).to_owned(), *shape)).collect(),
        (ctas, _) => {
            let shape = (ctas.unwrap_or(1), b.options.threads(b.name, own[0].1.1, 1024)?);
            vec![(format!("g{}_t{}", shape.0, shape.1), shape)]
        }
    };
    for op in b.options.atomic_op.map_or(OWN_RATES.to_vec(), |op| vec![op]) {
        for (place, (blocks, threads)) in &shapes {
            for (stride, spread) in [(0, "same"), (1, "spread")] {
                let all = blocks * threads;
                let words = b.pe.alloc::<u64>(if stride == 0 { 1 } else { all as usize })?;
                let times = Cell::new(0);
                let seconds = b.seconds(2..=u32::MAX, |n| {
                    times.set(times.get() + u64::from(n));
                    match b.pe.id() {
                        0 => launch!(b.pe, atomic_rate<<<*blocks, *threads>>>(op.number(), &words, stride, 1, n)),
                        _ => Ok(()),
                    }
                })?;
                b.pe.barrier_all()?;
                let each = times.get() * if stride == 0 { u64::from(all) } else { 1 };
                let mut wrong = 0;
                if b.pe.id() == 1 {
                    wrong = words.to_vec()?.iter().filter(|word| **word != op.after(each)).count();
                }
                b.judge(wrong as u64)?;
                let variant = format!("{}_rate_{place}_{spread}", name(&op));
                b.row("amo", &variant, 8, f64::from(all) / seconds * 1e-6, "Mops/s");
            }
        }
    }
    Ok(())
}
