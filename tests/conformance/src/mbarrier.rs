//! mbarriers: phases by token and by parity, warps that feed others through a ring of stages, copies that arrive.
use shmem::async_copy::copy_async;
use shmem::mbarrier::MBarrierWord;
use shmem::prelude::*;

/// All threads of the block, round by round, in place of its own barrier; then half of them, with the barrier anew.
#[kernel]
pub fn phases(rounds: u32, wrong: Global<u32>) {
    shared!(cells: [u32; 1024]);
    shared!(barriers: [MBarrierWord; 2]);
    let (t, n, barrier) = (thread::index(), thread::block_size(), barriers.at(1));
    if t == 0 {
        barrier.init(n);
    }
    Block.sync();
    for round in 0..rounds {
        cells.store(t, round * 2000 + t);
        let arrival = barrier.arrive();
        if round % 3 == 0 {
            barrier.wait(arrival);
        } else {
            barrier.wait_parity(round);
        }
        let other = (t + 37) % n;
        if cells.load(other) != round * 2000 + other || !barrier.test(arrival) || barrier.test_parity(round + 1) {
            wrong.store(0, round + 1);
        }
        // Nobody writes again before everybody has read.
        Block.sync();
    }
    if t == 0 {
        barrier.invalidate();
        barrier.init(n.div_ceil(2));
    }
    Block.sync();
    if t % 2 == 0 {
        if barrier.test_parity(0) && n > 2 && t == 0 {
            wrong.store(0, 1000);
        }
        barrier.wait(barrier.arrive());
    } else {
        barrier.wait_parity(0);
    }
}

/// Stages of the ring.
const STAGES: u32 = 3;

/// Warp 0 copies runs of 64 elements from this PE's memory into a ring of stages; the other warps each take every run.
#[kernel]
pub fn ring(x: SymSlice<u32>, y: Global<u32>, sums: Global<u64>, asynchronous: u32) {
    shared!(stages: [u32; 3 * 64]);
    shared!(barriers: [MBarrierWord; 6]);
    let (warp, lane, consumers) = (Warp.id(), warp::lane_id(), Block.size() / 32 - 1);
    let (full, empty) = (|s: u32| barriers.at(s), |s: u32| barriers.at(STAGES + s));
    if Block.leader() {
        for s in 0..STAGES {
            full(s).init(32);
            empty(s).init(consumers);
        }
    }
    Block.sync();
    let runs = x.len() as u32 / 64;
    let mut sum = 0u64;
    for k in 0..runs {
        let (s, round) = (k % STAGES, k / STAGES);
        let stage = stages.chunk(s, 64);
        if warp == 0 {
            if round > 0 {
                empty(s).wait_parity(round - 1);
            }
            if asynchronous != 0 {
                copy_async(Warp, stage.chunk(0, 32), x.chunk(2 * k, 32));
                copy_async(Warp, stage.chunk(1, 32), y.chunk(2 * k + 1, 32));
                full(s).arrive_after_copies();
            } else {
                stage.store(lane, x.load(64 * k + lane));
                stage.store(32 + lane, y.load(64 * k + 32 + lane));
                full(s).arrive();
            }
        } else {
            full(s).wait_parity(round);
            for i in 0..64 {
                sum = sum.wrapping_mul(31).wrapping_add(stage.load((i + lane) % 64).into());
            }
            Warp.sync();
            if lane == 0 {
                empty(s).arrive();
            }
        }
    }
    sums.store(thread::index(), sum);
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::suite::{Case, full_or_little, noise};
    use anyhow::ensure;
    use shmem_host::{Pe, collective_launch};

    pub const CASES: &[Case] = &[
        Case {
            name: "mbarrier: phases by token and by parity",
            run: in_phases,
        },
        Case {
            name: "mbarrier: a ring of stages that one warp fills",
            run: in_a_ring,
        },
    ];

    fn in_phases(pe: &Pe) -> anyhow::Result<()> {
        let wrong = pe.buffer::<u32>(1)?;
        let shapes = [(1, 1), (1, 2), (3, 31), (2, 64), (4, 100), (2, 1024)];
        for &(grid, block) in full_or_little(&shapes[..], &shapes[1..3]) {
            collective_launch!(pe, phases<<<grid, block>>>(9, &wrong))?;
            ensure!(wrong.read(0)? == 0, "{grid} x {block}: round {}", wrong.read(0)?);
        }
        Ok(())
    }

    fn in_a_ring(pe: &Pe) -> anyhow::Result<()> {
        let runs = full_or_little(50, 7);
        let values: Vec<u32> = (0..runs * 64).map(|i| noise(7, i) as u32).collect();
        let (x, y) = (pe.alloc::<u32>(values.len())?, pe.buffer::<u32>(values.len())?);
        x.write(&values)?;
        y.write(&values)?;
        let shapes = [(64, false), (64, true), (256, false), (256, true)];
        for &(block, asynchronous) in full_or_little(&shapes[..], &shapes[..2]) {
            let sums = pe.buffer::<u64>(block)?;
            collective_launch!(pe, ring<<<1, block as u32>>>(&x, &y, &sums, u32::from(asynchronous)))?;
            for (t, got) in sums.to_vec()?.into_iter().enumerate().skip(32) {
                let mut expected = 0u64;
                for run in values.chunks(64) {
                    for i in 0..64 {
                        expected = expected.wrapping_mul(31).wrapping_add(run[(i + t % 32) % 64].into());
                    }
                }
                ensure!(got == expected, "{block}, {asynchronous}, thread {t}: {got:#x}");
            }
        }
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
