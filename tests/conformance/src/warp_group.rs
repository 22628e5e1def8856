//! Groups of warps: they sync apart from each other, at their own pace; broadcast; put; groups of several sizes in a kernel.
use shmem::prelude::*;

/// Each group goes through rounds of its own number, in which every thread reads a cell of another warp of its group.
#[kernel]
pub fn apart(out: Global<u32>, wrong: Global<u32>) {
    shared!(cells: [u32; 512]);
    let (t, size) = (thread::index(), thread::block_size());
    let pairs = Block.groups::<2>();
    let first = t / pairs.size() * pairs.size();
    let other = first + (pairs.rank() + 32) % pairs.size();
    for round in 1..=4 * (1 + pairs.id()) {
        cells.store(t, round * 1000 + t);
        pairs.sync();
        if cells.load(other) != round * 1000 + other {
            wrong.store(0, round);
        }
        if pairs.broadcast(u64::from(round * 1000 + t)) != u64::from(round * 1000 + first) {
            wrong.store(0, round);
        }
    }
    // Again, and larger: the words of the first groups are used anew.
    let (again, fours) = (Block.groups::<2>(), Block.groups::<4>());
    let mut sum = 0;
    for round in 0..5 {
        if again.id() != 1 {
            again.sync();
        }
        sum += fours.broadcast(u64::from(t + round)) as u32;
        fours.sync();
    }
    out.chunk(Block.id(), size).store(t, sum);
}

/// Each group puts its chunk to the right with a signal of its own, and waits for the left.
#[kernel(collective)]
pub fn group_put(
    all: Collective,
    dst: SymSlice<u32>,
    src: SymSlice<u32>,
    ready: SymSlice<SignalWord>,
    wrong: Global<u32>,
) {
    let (me, n, group) = (shmem::my_pe(), shmem::n_pes(), Block.groups::<2>());
    let (right, left) = ((me + 1) % n, (me + n - 1) % n);
    let len = 1001;
    let (dst, src) = (dst.chunk(group.id(), len), src.chunk(group.id(), len));
    for i in group.strided(len) {
        src.store(i, me * 10_000 + i);
    }
    group.sync();
    shmem::put_signal(group, dst, src, ready.at(group.id()).set(1), right);
    shmem::wait_until(group, ready.at(group.id()), eq(1));
    let mine = group.part(len);
    for i in mine {
        if dst.load(i) != left * 10_000 + i {
            wrong.store(0, i + 1);
        }
    }
    all.barrier(Block, shmem::world());
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::suite::{Case, full_or_little};
    use anyhow::ensure;
    use shmem_host::{Error, LaunchError, Pe, collective_launch};

    pub const CASES: &[Case] = &[
        Case {
            name: "warp groups at their own pace",
            run: paces,
        },
        Case {
            name: "warp groups put and wait",
            run: putting,
        },
        Case {
            name: "warp groups: a block that they don't divide",
            run: undivided,
        },
    ];

    fn paces(pe: &Pe) -> anyhow::Result<()> {
        let (blocks, threads) = full_or_little((3, 512), (1, 256));
        let (out, wrong) = (pe.buffer::<u32>((blocks * threads) as usize)?, pe.buffer::<u32>(1)?);
        collective_launch!(pe, apart<<<blocks, threads>>>(&out, &wrong))?;
        ensure!(wrong.read(0)? == 0, "round {}", wrong.read(0)?);
        for (i, sum) in out.to_vec()?.into_iter().enumerate() {
            let first = i as u32 % threads / 128 * 128;
            ensure!(sum == 5 * first + 10, "thread {i}: {sum}");
        }
        Ok(())
    }

    fn putting(pe: &Pe) -> anyhow::Result<()> {
        let (dst, src) = (pe.alloc::<u32>(4 * 1001)?, pe.alloc::<u32>(4 * 1001)?);
        let (ready, wrong) = (pe.signals(4)?, pe.buffer::<u32>(1)?);
        collective_launch!(pe, group_put<<<1, 256>>>(&dst, &src, &ready, &wrong))?;
        ensure!(wrong.read(0)? == 0, "element {}", wrong.read(0)? - 1);
        Ok(())
    }

    fn undivided(pe: &Pe) -> anyhow::Result<()> {
        // Where there is PTX, the launch knows; the simulator's fault is among its own tests.
        if pe.device_name() == "the simulator" {
            return Ok(());
        }
        let (out, wrong) = (pe.buffer::<u32>(192)?, pe.buffer::<u32>(1)?);
        let refused = collective_launch!(pe, apart<<<1, 192>>>(&out, &wrong));
        ensure!(
            matches!(
                refused,
                Err(Error::Launch(LaunchError::Tile {
                    threads: 192,
                    tile: 128,
                    ..
                }))
            ),
            "{refused:?}"
        );
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
