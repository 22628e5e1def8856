//! A thousand Worlds and a thousand teams in one process: nothing of them stays. One test: others beside it would be counted.

#[path = "common/own.rs"]
mod own;

use own::Own;
use shmem::prelude::*;
use shmem_host::{Backend, Error, Pe, World, collective_launch};

#[kernel(collective)]
fn meet(all: Collective, row: Team, dst: SymSlice<u32>) {
    shmem::p(dst.at(0), 1, row.pe((row.my_pe() + 1) % row.n_pes()));
    all.barrier(Thread, row);
}

fn world(f: impl Fn(&Pe) -> Result<(), Error> + Sync) -> Result<(), Error> {
    let world = World::builder().pes(3).backend(Backend::Sim).heap(32 << 20);
    world.build()?.run(|pe| f(&pe))
}

fn step(pe: &Pe) -> Result<(), Error> {
    let (row, _) = pe.world().split_2d(2)?;
    let dst = pe.alloc::<u32>(1)?;
    collective_launch!(pe, meet<<<1, 1>>>(&row, &dst))?;
    pe.stream().barrier(&row)?;
    assert_eq!(dst.read(0)?, 1);
    Ok(())
}

/// What PE 0 sees: the files of one that looks would be seen by another.
fn own_while_all_wait(pe: &Pe) -> Result<Option<Own>, Error> {
    pe.barrier_all()?;
    let own = (pe.id() == 0).then(Own::now);
    pe.barrier_all()?;
    Ok(own)
}

#[test]
fn a_thousand_worlds_and_teams_leave_nothing() {
    let worlds = |count| (0..count).try_for_each(|_| world(step)).unwrap();
    worlds(20);
    let before = Own::now();
    worlds(1000);
    // Those that fail, too.
    for i in 0..100 {
        let failed = world(|pe| {
            step(pe)?;
            if pe.id() == i % 3 {
                panic!("on purpose")
            } else {
                pe.barrier_all()
            }
        });
        assert!(matches!(failed, Err(Error::PePanicked { .. })), "{failed:?}");
    }
    let after = Own::now();
    assert!(after.is_no_more_than(&before), "{before:?} became {after:?}");

    world(|pe| {
        let most = pe.team(&[2, 0])?;
        let before = own_while_all_wait(pe)?;
        for _ in 0..1000 {
            step(pe)?;
            if let Some(team) = &most {
                let one = team.split(&[0])?;
                assert_eq!(one.is_some(), pe.id() == 2);
            }
        }
        // What they have dropped is settled at meetings.
        pe.barrier_all()?;
        let after = own_while_all_wait(pe)?;
        if let (Some(before), Some(after)) = (before, after) {
            assert!(after.is_no_more_than(&before), "{before:?} became {after:?}");
        }
        assert_eq!(pe.heap_stats().objects, 0);
        pe.barrier_all()
    })
    .unwrap();
}
