//! Signals, counters and waits.
use shmem::prelude::*;

/// Every thread of every PE adds to every PE's counter; a block waits for all of them and gets the sum in each thread.
#[kernel(collective)]
pub fn count(all: Collective, counter: SymSlice<CounterWord>, seen: Global<u64>) {
    let n = shmem::n_pes();
    for pe in 0..n {
        shmem::signal_op(counter.at(0).add(1), pe);
    }
    let total = u64::from(n * thread::block_size());
    let value = shmem::wait_until(Block, counter.at(0), ge(total));
    seen.store(thread::index(), value);
    all.barrier(Block, shmem::world());
}

/// put_signal carries data round by round, by each tile; the receiver answers, so that the next round may overwrite.
#[kernel(collective)]
pub fn rounds(
    all: Collective,
    data: SymSlice<u32>,
    src: SymSlice<u32>,
    there: SymSlice<SignalWord>,
    back: SymSlice<SignalWord>,
    count: u64,
    wrong: Global<u32>,
) {
    let (me, n) = (shmem::my_pe(), shmem::n_pes());
    let (right, left) = ((me + 1) % n, (me + n - 1) % n);
    for round in 1..=count {
        for i in Block.strided(src.len() as u32) {
            src.store(i, me * 1000 + round as u32 * 17 + i);
        }
        Block.sync();
        if round % 2 == 0 {
            shmem::put_signal(Block, data, src, there.at(0).set(round), right);
        } else if thread::index() < 32 {
            shmem::put_signal(Warp, data, src, there.at(0).set(round), right);
        }
        shmem::wait_until(Block, there.at(0), eq(round));
        for i in Block.strided(data.len() as u32) {
            if data.load(i) != left * 1000 + round as u32 * 17 + i {
                wrong.store(0, round as u32);
            }
        }
        Block.sync();
        if Block.leader() {
            shmem::signal_op(back.at(0).set(round), left);
        }
        shmem::wait_until(Block, back.at(0), ge(round));
    }
    all.barrier(Block, shmem::world());
}

/// One wait of each kind on words that are already there.
#[kernel]
pub fn comparisons(a: SymSlice<u32>, b: SymSlice<i64>, out: Global<u64>) {
    let (a, b) = (a.at(0), b.at(0));
    out.store(0, shmem::wait_until(Thread, a, eq(7)).into());
    out.store(1, shmem::wait_until(Warp, a, ne(8)).into());
    out.store(2, shmem::wait_until(Warp, a, lt(8)).into());
    out.store(3, shmem::wait_until(Block, a, le(7)).into());
    out.store(4, shmem::wait_until(Block, b, gt(-6)) as u64);
    out.store(5, shmem::wait_until(SubWarp::<4>, b, ge(-5)) as u64);
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::suite::{Case, full_or_little};
    use anyhow::ensure;
    use shmem_host::{Pe, collective_launch};

    pub const CASES: &[Case] = &[
        Case {
            name: "counter: everyone adds",
            run: counting,
        },
        Case {
            name: "put_signal in rounds",
            run: in_rounds,
        },
        Case {
            name: "waits: every comparison",
            run: comparing,
        },
    ];

    fn counting(pe: &Pe) -> anyhow::Result<()> {
        let (counter, seen) = (pe.counters(1)?, pe.buffer::<u64>(96)?);
        collective_launch!(pe, count<<<1, 96>>>(&counter, &seen))?;
        let seen = seen.to_vec()?;
        let total = u64::from(pe.n()) * 96;
        ensure!(
            seen.iter().all(|&v| v == total),
            "expected {total} everywhere: {seen:?}"
        );
        Ok(())
    }

    fn in_rounds(pe: &Pe) -> anyhow::Result<()> {
        let (data, src) = (pe.alloc::<u32>(333)?, pe.alloc::<u32>(333)?);
        let (there, back) = (pe.signals(1)?, pe.signals(1)?);
        let wrong = pe.buffer::<u32>(1)?;
        wrong.write(&[0])?;
        collective_launch!(pe, rounds<<<1, 128>>>(&data, &src, &there, &back, full_or_little(20, 4), &wrong))?;
        let wrong = wrong.read(0)?;
        ensure!(wrong == 0, "stale data in round {wrong}");
        Ok(())
    }

    fn comparing(pe: &Pe) -> anyhow::Result<()> {
        let (a, b, out) = (pe.alloc::<u32>(1)?, pe.alloc::<i64>(1)?, pe.buffer::<u64>(6)?);
        a.write(&[7])?;
        b.write(&[-5])?;
        collective_launch!(pe, comparisons<<<1, 64>>>(&a, &b, &out))?;
        let minus_5 = (-5i64) as u64;
        ensure!(out.to_vec()? == [7, 7, 7, 7, minus_5, minus_5]);
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
