//! Clusters as tiles: ranks, sync, broadcast, put and put_signal by the blocks of a cluster; launches that are refused.
use shmem::prelude::*;

/// In each round every thread writes its cell and reads that of another block of its cluster.
#[kernel]
pub fn cluster_rounds(cells: Global<u32>, ranks: Global<u32>, rounds: u32, wrong: Global<u32>) {
    let (rank, size) = (Cluster.rank(), Cluster.size());
    let mine = cells.chunk(Cluster.id(), size);
    ranks.store(Block.id() * Block.size() + Block.rank(), Cluster.id() << 16 | rank);
    let other = (rank + Block.size()) % size;
    for round in 1..=rounds {
        mine.store(rank, round * 100_000 + rank);
        Cluster.sync();
        if mine.load(other) != round * 100_000 + other {
            wrong.store(0, round);
        }
        let said = Cluster.broadcast(u64::from(round) << 32 | u64::from(rank));
        if said != u64::from(round) << 32 {
            wrong.store(0, round);
        }
        // A block's own broadcast uses the same memory.
        if Block.broadcast(u64::from(rank)) != u64::from(Cluster.block_rank() * Block.size()) {
            wrong.store(0, round);
        }
        Cluster.sync();
    }
}

/// Threads that end are not waited for.
#[kernel]
pub fn cluster_leavers(out: Global<u32>) {
    if Cluster.rank() % 3 == 1 || Cluster.block_rank() == 1 {
        return;
    }
    Cluster.sync();
    out.store(Block.id() * Block.size() + Block.rank(), 1);
}

/// Each cluster puts its chunk to the right, by put and by put_signal, and waits for the left.
#[kernel(collective)]
pub fn cluster_put(
    all: Collective,
    dst: SymSlice<u32>,
    src: SymSlice<u32>,
    ready: SymSlice<SignalWord>,
    rounds: u32,
    wrong: Global<u32>,
) {
    let (me, n, id) = (shmem::my_pe(), shmem::n_pes(), Cluster.id());
    let (right, left) = ((me + 1) % n, (me + n - 1) % n);
    let len = 1001;
    let (dst, src, ready) = (dst.chunk(id, len), src.chunk(id, len), ready.at(id));
    for round in 1..=rounds {
        for i in Cluster.strided(len) {
            src.store(i, me * 100_000 + round * 2000 + i);
        }
        Cluster.sync();
        if round % 2 == 0 {
            shmem::put(Cluster, dst, src, right);
            shmem::fence(Cluster);
            if Cluster.leader() {
                shmem::signal_op(ready.set(round.into()), right);
            }
        } else {
            shmem::put_signal(Cluster, dst, src, ready.set(round.into()), right);
        }
        if shmem::wait_until(Cluster, ready, ge(round.into())) != u64::from(round) {
            wrong.store(0, 1_000_000 + round);
        }
        for i in Cluster.part(len) {
            if dst.load(i) != left * 100_000 + round * 2000 + i {
                wrong.store(0, i + 1);
            }
        }
        // Nobody puts again before everybody has looked.
        all.barrier(Block, shmem::world().slot(Block.id()));
    }
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::suite::{Case, full_or_little};
    use anyhow::ensure;
    use shmem_host::{Error, LaunchConfig, LaunchError, Pe};

    pub const CASES: &[Case] = &[
        Case {
            name: "clusters: ranks, rounds of sync and broadcast",
            run: in_rounds,
        },
        Case {
            name: "clusters: threads that end are not waited for",
            run: leaving,
        },
        Case {
            name: "clusters: put, put_signal and waits by a whole cluster",
            run: putting,
        },
        Case {
            name: "clusters that can't be",
            run: refused,
        },
    ];

    /// False where device or image have no clusters of several blocks.
    fn launched(result: Result<(), Error>) -> anyhow::Result<bool> {
        match result {
            Err(Error::Launch(LaunchError::Cluster { most: 1, .. })) => Ok(false),
            other => Ok(other.map(|()| true)?),
        }
    }

    fn in_rounds(pe: &Pe) -> anyhow::Result<()> {
        let shapes = [(1, 3, 64), (2, 2, 32), (2, 6, 100), (4, 8, 33), (8, 16, 1), (8, 8, 256)];
        for &(cluster, grid, block) in full_or_little(&shapes[..], &shapes[1..2]) {
            let threads = grid * block;
            let (cells, ranks) = (pe.buffer::<u32>(threads)?, pe.buffer::<u32>(threads)?);
            let wrong = pe.buffer::<u32>(1)?;
            for collective in [false, true] {
                let config = LaunchConfig::new(grid as u32, block as u32).cluster(cluster as u32);
                let config = if collective { config.collective() } else { config };
                if !launched(pe.launch(config, cluster_rounds(&cells, &ranks, 7, &wrong)))? {
                    continue;
                }
                let round = wrong.read(0)?;
                ensure!(round == 0, "{cluster} of {grid} x {block}: round {round}");
                for (i, got) in ranks.to_vec()?.into_iter().enumerate() {
                    let size = cluster * block;
                    let expected = (i / size << 16 | i % size) as u32;
                    ensure!(got == expected, "{cluster} of {grid} x {block}, thread {i}: {got:#x}");
                }
            }
        }
        // Of a grid in three dimensions: clusters are numbered along x first.
        let (cells, ranks, wrong) = (pe.buffer::<u32>(24)?, pe.buffer::<u32>(24)?, pe.buffer::<u32>(1)?);
        let config = LaunchConfig::new((4, 3, 2), 1).cluster(2);
        if launched(pe.launch(config, cluster_rounds(&cells, &ranks, 1, &wrong)))? {
            let expected: Vec<u32> = (0..24).map(|i| i / 2 << 16 | i % 2).collect();
            ensure!(ranks.to_vec()? == expected && wrong.read(0)? == 0);
        }
        Ok(())
    }

    fn leaving(pe: &Pe) -> anyhow::Result<()> {
        let out = pe.buffer::<u32>(4 * 96)?;
        if !launched(pe.launch(LaunchConfig::new(4, 96).cluster(4), cluster_leavers(&out)))? {
            return Ok(());
        }
        for (i, got) in out.to_vec()?.into_iter().enumerate() {
            let left = i % 3 == 1 || i / 96 == 1;
            ensure!(got == u32::from(!left), "thread {i}: {got}");
        }
        Ok(())
    }

    fn putting(pe: &Pe) -> anyhow::Result<()> {
        for &cluster in full_or_little(&[1, 2, 4][..], &[2]) {
            let (dst, src) = (pe.alloc::<u32>(4 * 1001)?, pe.alloc::<u32>(4 * 1001)?);
            let (ready, wrong) = (pe.signals(4)?, pe.buffer::<u32>(1)?);
            let config = LaunchConfig::new(4, 64).cluster(cluster).collective();
            if launched(pe.launch(config, cluster_put(&dst, &src, &ready, full_or_little(6, 3), &wrong)))? {
                ensure!(wrong.read(0)? == 0, "clusters of {cluster}: {}", wrong.read(0)?);
            }
        }
        Ok(())
    }

    fn refused(pe: &Pe) -> anyhow::Result<()> {
        let out = pe.buffer::<u32>(96)?;
        for (cluster, grid) in [(0, 2), (3, 4), (16, 32), (u32::MAX, 1)] {
            let result = pe.launch(LaunchConfig::new(grid, 1).cluster(cluster), cluster_leavers(&out));
            let as_expected =
                matches!(&result, Err(Error::Launch(LaunchError::Cluster { cluster: c, .. })) if *c == cluster);
            ensure!(as_expected, "clusters of {cluster} in a grid of {grid}: {result:?}");
        }
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
