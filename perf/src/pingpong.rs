//! Half round trips between PE 0 and PE 1.

use crate::bench::{Bench, Sweep};
use crate::options::{AtomicOp, OptionError, Scope, name};
use crate::rma_bw::STAGING;
use clap::ValueEnum;
use shmem_host::{Error, SymBuf, launch};
use shmem_perf::{atomic_pingpong, p_pingpong, signal_pingpong};
use shmem_perf::{put_pingpong_by_block, put_pingpong_by_thread, put_pingpong_by_warp};
use shmem_perf::{put_signal_by_block, put_signal_by_thread, put_signal_by_warp, put_signal_in_bulk};
use std::cell::Cell;

/// Words that a signal ping-pong is tried on, 512 bytes apart: which slice of the L2 cache a word lies in makes a difference.
const PLACES: usize = 8;
pub(crate) const SIZES: Sweep = Sweep {
    begin: 8,
    end: 1 << 20,
    factor: 4,
    simulated: 128,
};
const BULK_SIZES: Sweep = Sweep {
    begin: 128 << 10,
    end: 1 << 20,
    factor: 8,
    simulated: 128,
};
const SCOPES: [Scope; 3] = [Scope::Thread, Scope::Warp, Scope::Block];

/// Seconds of half a round trip. `launch` is given the number before the first, and how many; each run goes on from the last.
fn half(b: &Bench, launch: impl Fn(u64, u64) -> Result<(), Error>) -> anyhow::Result<(f64, u64)> {
    let base = Cell::new(0u64);
    let seconds = b.seconds(4..=u32::MAX, |iters| -> Result<(), Error> {
        if b.in_pair() {
            launch(base.get(), iters.into())?;
        }
        base.set(base.get() + u64::from(iters));
        Ok(())
    })?;
    Ok((seconds / 2.0, base.get()))
}

/// The word of both PEs of the pair holds the last number.
fn judge_word(b: &Bench, word: &SymBuf<u64>, last: u64) -> anyhow::Result<()> {
    b.pe.barrier_all()?;
    let wrong = b.in_pair() && word.read(0)? != last;
    b.judge(wrong.into())
}

pub(crate) fn p(b: &Bench) -> anyhow::Result<()> {
    let word = b.pe.alloc::<u64>(1)?;
    let (seconds, last) = half(b, |base, n| launch!(b.pe, p_pingpong<<<1, 1>>>(&word, base, n)))?;
    judge_word(b, &word, last)?;
    b.us("p_pingpong", "thread", 8, seconds);
    Ok(())
}

/// The row of the peer's, which neither releases nor acquires, and the same in order.
pub(crate) fn signal(b: &Bench) -> anyhow::Result<()> {
    let places = if b.simulated { 1 } else { PLACES };
    let words = b.pe.signals(2 * places * 64)?;
    for (way, variant) in ["thread", "thread_acquire"].into_iter().enumerate() {
        let mut times = (0..places)
            .map(|place| {
                let at = (way * places + place) * 64;
                let one = words.part(at..=at)?;
                let (seconds, _) = half(b, |base, n| match way {
                    0 => launch!(b.pe, signal_pingpong::<0><<<1, 1>>>(one, base, n)),
                    _ => launch!(b.pe, signal_pingpong::<1><<<1, 1>>>(one, base, n)),
                })?;
                Ok(seconds)
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        times.sort_by(f64::total_cmp);
        b.us("signal_pingpong", variant, 8, times[places / 2]);
        b.us("signal_pingpong", &format!("{variant}_best_place"), 8, times[0]);
        b.us(
            "signal_pingpong",
            &format!("{variant}_worst_place"),
            8,
            times[places - 1],
        );
    }
    Ok(())
}

pub(crate) fn put_signal(b: &Bench) -> anyhow::Result<()> {
    puts(b, "put_signal_pingpong", true)?;
    in_bulk(b)
}

/// `put_signal` of a block's bulk engine, at sizes that are worth one.
fn in_bulk(b: &Bench) -> anyhow::Result<()> {
    if !b.options.scopes(b.name, &SCOPES)?.contains(&Scope::Block) {
        return Ok(());
    }
    let threads = b.threads_of(Scope::Block)?;
    for bytes in b.sizes(BULK_SIZES, 4)? {
        let len = bytes / 4;
        let (dst, src, words) = (b.pe.alloc::<u32>(len)?, b.pe.alloc::<u32>(len)?, b.pe.signals(1)?);
        b.fill(src.handle(), len)?;
        let (pe, signal) = (b.pe, words.at(0)?);
        let (seconds, _) = half(
            b,
            |base, n| launch!(pe, put_signal_in_bulk<<<1, threads, STAGING>>>(&dst, &src, signal, base, n)),
        )?;
        b.check_copy(b.in_pair(), dst.handle(), b.peer(), len)?;
        b.us("put_signal_pingpong", "bulk_block", bytes, seconds);
    }
    Ok(())
}

pub(crate) fn put(b: &Bench) -> anyhow::Result<()> {
    puts(b, "put_pingpong", false)
}

fn puts(b: &Bench, bench: &str, joined: bool) -> anyhow::Result<()> {
    for scope in b.options.scopes(b.name, &SCOPES)? {
        let threads = b.threads_of(scope)?;
        let mut sizes = b.sizes(SIZES, 4)?;
        // A thread alone takes long over large transfers; the peer's suite has it at 8 bytes only.
        if scope == Scope::Thread && b.options.end.is_none() {
            sizes.truncate(1);
        }
        for bytes in sizes {
            let len = bytes / 4;
            let (dst, src, words) = (b.pe.alloc::<u32>(len)?, b.pe.alloc::<u32>(len)?, b.pe.signals(1)?);
            b.fill(src.handle(), len)?;
            let signal = words.at(0)?;
            let (pe, dst_, src_) = (b.pe, &dst, &src);
            let (seconds, _) = half(b, |base, n| match (scope, joined) {
                (Scope::Thread, true) => launch!(pe, put_signal_by_thread<<<1, 1>>>(dst_, src_, signal, base, n)),
                (Scope::Warp, true) => launch!(pe, put_signal_by_warp<<<1, 32>>>(dst_, src_, signal, base, n)),
                (_, true) => launch!(pe, put_signal_by_block<<<1, threads>>>(dst_, src_, signal, base, n)),
                (Scope::Thread, false) => launch!(pe, put_pingpong_by_thread<<<1, 1>>>(dst_, src_, signal, base, n)),
                (Scope::Warp, false) => launch!(pe, put_pingpong_by_warp<<<1, 32>>>(dst_, src_, signal, base, n)),
                (_, false) => launch!(pe, put_pingpong_by_block<<<1, threads>>>(dst_, src_, signal, base, n)),
            })?;
            b.check_copy(b.in_pair(), dst.handle(), b.peer(), len)?;
            b.us(bench, &name(&scope), bytes, seconds);
        }
    }
    Ok(())
}

/// Each operation whose values can rise.
pub(crate) fn atomic(b: &Bench) -> anyhow::Result<()> {
    let rises = |op: AtomicOp| {
        !matches!(
            op,
            AtomicOp::And | AtomicOp::Or | AtomicOp::FetchAnd | AtomicOp::FetchOr
        )
    };
    let ops: Vec<_> = match b.options.atomic_op {
        Some(op) if !rises(op) => {
            let (bench, op) = (b.name.to_owned(), name(&op));
            return Err(OptionError::NotRising { bench, op }.into());
        }
        Some(op) => vec![op],
        None => AtomicOp::value_variants()
            .iter()
            .copied()
            .filter(|op| rises(*op))
            .collect(),
    };
    for op in ops {
        let words = b.pe.alloc::<u64>(1)?;
        let word = words.at(0)?;
        let (seconds, last) = half(
            b,
            |base, n| launch!(b.pe, atomic_pingpong<<<1, 1>>>(op.number(), word, base, n)),
        )?;
        judge_word(b, &words, last)?;
        b.us("atomic_pingpong", &name(&op), 8, seconds);
    }
    Ok(())
}
