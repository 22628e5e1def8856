//! Clusters of blocks: who waits for whom, with and without blocks that are not resident yet.
use shmem::fault::FaultKind;
use shmem::mbarrier::MBarrierWord;
use shmem::prelude::*;
use shmem_sim::{Failure, Sim};
use std::sync::atomic::{AtomicU32, Ordering};

mod common;
use common::{MAIN, engine, job};

#[test]
fn a_cluster_waits_for_its_blocks_and_for_no_others() {
    for seed in 0..8 {
        Sim::new(2)
            .grid(6)
            .block(40)
            .cluster(2)
            .seed(seed)
            .run(|| {
                let x = shmem_sim::global::<u32>(6 * 40);
                // The other clusters never come.
                if Cluster.id() == 1 {
                    let mine = x.chunk(1, 80);
                    for round in 1..5 {
                        mine.store(Cluster.rank(), round);
                        Cluster.sync();
                        assert_eq!(mine.load(79 - Cluster.rank()), round);
                        Cluster.sync();
                    }
                }
            })
            .unwrap();
    }
}

/// More lanes than a plain launch has resident at once: blocks of a cluster are made one after the other.
#[test]
fn clusters_of_a_large_plain_launch_follow_each_other() {
    static ENDED: AtomicU32 = AtomicU32::new(0);
    let engine = engine(1);
    let mut job = job("large", 21, 1000, || {
        assert_eq!(Cluster.broadcast(Block.id().into()), u64::from(Block.id() / 7 * 7));
        Cluster.sync();
        ENDED.fetch_add(1, Ordering::Relaxed);
    });
    job.cluster = 7;
    engine.submit(0, MAIN, job).unwrap();
    engine.wait(0, MAIN).unwrap();
    assert_eq!(ENDED.load(Ordering::Relaxed), 21_000);
}

#[test]
fn threads_that_end_are_not_waited_for() {
    Sim::new(1)
        .grid(4)
        .block(33)
        .cluster(4)
        .run(|| {
            if Cluster.block_rank() != 2 && Cluster.rank().is_multiple_of(2) {
                Cluster.sync();
            }
        })
        .unwrap();
}

#[test]
fn a_report_names_a_cluster_that_is_not_complete() {
    let error = Sim::new(1)
        .grid(2)
        .block(32)
        .cluster(2)
        .run(|| {
            let never = shmem_sim::signals(1).at(0);
            if Cluster.rank() == 63 {
                shmem::wait_until(Thread, never, eq(1));
            }
            Cluster.sync();
        })
        .unwrap_err();
    let Failure::Deadlock { report } = error else {
        panic!("{error}")
    };
    assert!(
        report.contains("waits for the barrier of its cluster of 2 blocks; not arrived: 1 threads"),
        "{report}"
    );
}

#[test]
fn clusters_that_do_not_divide_the_grid_are_refused() {
    for (cluster, grid) in [(2, 3), (0, 1), (9, 9)] {
        let error = Sim::new(1).grid(grid).cluster(cluster).run(|| ()).unwrap_err();
        assert!(
            error.to_string().contains(&format!("in clusters of {cluster} blocks")),
            "{error}"
        );
    }
}

/// How a kernel that misuses an mbarrier ends.
#[track_caller]
fn mbarrier_fault(kernel: impl Fn(shmem::Shared<MBarrierWord>) + Send + Sync) -> (FaultKind, String) {
    let error = Sim::new(1)
        .run(|| {
            shared!(barrier: [MBarrierWord; 1]);
            kernel(barrier);
        })
        .unwrap_err();
    match error {
        Failure::Fault { record, message, .. } => (
            FaultKind::from_number(record.kind).unwrap(),
            message.unwrap_or_default(),
        ),
        other => panic!("{other}"),
    }
}

#[test]
fn mbarriers_are_initialised_once_and_before_their_use() {
    let (kind, message) = mbarrier_fault(|barrier| {
        barrier.at(0).arrive();
    });
    assert!(
        kind == FaultKind::Panic && message.contains("not initialised"),
        "{message}"
    );
    let (kind, message) = mbarrier_fault(|barrier| {
        barrier.at(0).init(1);
        barrier.at(0).init(1);
    });
    assert!(
        kind == FaultKind::Panic && message.contains("initialised already"),
        "{message}"
    );
    for arrivals in [0, 1 << 20] {
        assert_eq!(
            mbarrier_fault(|barrier| barrier.at(0).init(arrivals)).0,
            FaultKind::Arrivals
        );
    }
    assert_eq!(mbarrier_fault(|barrier| barrier.at(1).init(1)).0, FaultKind::Index);
}

#[test]
fn a_report_says_what_an_mbarrier_lacks() {
    let error = shmem_sim::run(1, 1, 32, || {
        shared!(barrier: [MBarrierWord; 1]);
        let barrier = barrier.at(0);
        if Block.leader() {
            barrier.init(33);
        }
        Block.sync();
        barrier.wait(barrier.arrive());
    })
    .unwrap_err();
    let Failure::Deadlock { report } = error else {
        panic!("{error}")
    };
    assert!(report.contains("wanted another phase than that of"), "{report}");
}
