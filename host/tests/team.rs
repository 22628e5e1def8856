//! Teams: splits of every shape, their errors, their handles, making and dropping them without limit.

mod common;

use common::{promptly, run, sim};
use shmem::prelude::*;
use shmem_host::{CollectiveError, Error, LaunchError, Pe, Stale, TeamError, collective_launch, launch};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// Tells every member this one's index by `(team, index)`, then all check.
#[kernel(collective)]
fn tell_all(all: Collective, member: Membership, got: SymSlice<u32>, wrong: Global<u32>) {
    let Some(team) = member.team() else { return };
    for i in Block.strided(team.n_pes()) {
        shmem::p(got.at(team.my_pe()), 100 + team.my_pe(), (team, i));
        if team.translate_to(i, shmem::world()) != Some(team.translate(i))
            || shmem::world().translate_to(team.translate(i), team) != Some(i)
        {
            wrong.store(0, 1);
        }
    }
    all.barrier(Block, team);
    for i in Block.strided(team.n_pes()) {
        if got.load(i) != 100 + i {
            wrong.store(0, 2);
        }
    }
    all.sync(Block, team.slot(7));
}

#[kernel]
fn take(team: Team) {
    let _ = team;
}

#[kernel]
fn past_the_end(team: Team, x: SymSlice<u32>) {
    if Block.leader() {
        shmem::p(x.at(0), 1, team.pe(team.n_pes()));
    }
}

/// Two teams at once, each by a warp of its own, in the same slots.
#[kernel(collective)]
fn both(all: Collective, a: Membership, b: Membership, cells: SymSlice<u32>, wrong: Global<u32>) {
    let w = Warp.id();
    let Some(team) = (if w == 0 { a } else { b }).team() else {
        return;
    };
    let row = cells.chunk(w, shmem::n_pes());
    for round in 1..=10 {
        for i in Warp.strided(team.n_pes()) {
            shmem::p(row.at(team.my_pe()), round, (team, i));
        }
        all.barrier(Warp, team.slot(round % 2));
        for i in Warp.strided(team.n_pes()) {
            if row.load(i) < round {
                wrong.store(0, round);
            }
        }
        all.sync(Warp, team.slot(2));
    }
}

fn works(pe: &Pe, team: Option<&shmem_host::Team>) -> Result<(), Error> {
    let (got, wrong) = (pe.alloc::<u32>(pe.n() as usize)?, pe.buffer::<u32>(1)?);
    collective_launch!(pe, tell_all<<<1, 32>>>(team, &got, &wrong))?;
    assert_eq!(wrong.read(0)?, 0, "{team:?}");
    pe.barrier_all()
}

#[test]
fn every_shape_of_team_has_its_members_in_order() {
    for pes in [1, 2, 3, 5, 7, 8] {
        run(pes, |pe| {
            let (world, me, n) = (pe.world(), pe.id(), pe.n());
            works(&pe, Some(&world))?;
            works(&pe, Some(&pe.node()))?;
            for (start, stride) in [(0, 1), (0, 2), (1, 2), (n - 1, 3), (0, n)] {
                let size = (n.saturating_sub(start)).div_ceil(stride);
                if size == 0 {
                    continue;
                }
                let team = world.split_strided(start, stride, size)?;
                let members: Vec<u32> = (start..n).step_by(stride as usize).collect();
                assert_eq!(team.is_some(), members.contains(&me));
                if let Some(team) = &team {
                    assert_eq!(team.members(), members);
                    assert_eq!(team.translate(team.my_pe()), Some(me));
                    assert_eq!(team.translate(size), None);
                }
                works(&pe, team.as_ref())?;
            }
            for range in [1, 2, 3, n, 100] {
                let (row, column) = world.split_2d(range)?;
                let range = range.min(n);
                assert_eq!((row.my_pe(), column.my_pe()), (me % range, me / range));
                assert_eq!(
                    row.members(),
                    (0..n).filter(|pe| pe / range == me / range).collect::<Vec<_>>()
                );
                assert_eq!(
                    column.members(),
                    (0..n).filter(|pe| pe % range == me % range).collect::<Vec<_>>()
                );
                works(&pe, Some(&row))?;
                works(&pe, Some(&column))?;
            }
            let backwards: Vec<u32> = (0..n).rev().collect();
            let team = pe.team(&backwards)?;
            assert_eq!(team.as_ref().map(shmem_host::Team::my_pe), Some(n - 1 - me));
            works(&pe, team.as_ref())
        })
        .unwrap();
    }
}

#[test]
fn teams_of_teams_are_made_by_their_members_alone() {
    run(7, |pe| {
        // PEs 6, 2, 1, 4, of which the last two go on; the others come to no call.
        let list = pe.team(&[6, 2, 1, 4])?;
        let mut pair = None;
        if let Some(team) = &list {
            pair = team.split(&[3, 2])?;
            assert_eq!(pair.is_some(), [1, 4].contains(&pe.id()));
        }
        if let Some(pair) = &pair {
            assert_eq!(pair.members(), [4, 1]);
            assert_eq!(pair.translate_to(0, list.as_ref().unwrap()), Some(3));
            for _ in 0..200 {
                let (row, column) = pair.split_2d(1)?;
                assert_eq!((row.n_pes(), column.members()), (1, &[4, 1][..]));
            }
        }
        works(&pe, pair.as_ref())?;
        works(&pe, list.as_ref())
    })
    .unwrap();
}

#[test]
fn overlapping_teams_are_in_barriers_at_once() {
    run(5, |pe| {
        let (a, b) = (pe.team(&[0, 3, 1, 4])?, pe.world().split_strided(1, 1, 3)?);
        let (cells, wrong) = (pe.alloc::<u32>(2 * pe.n() as usize)?, pe.buffer::<u32>(1)?);
        for _ in 0..3 {
            collective_launch!(pe, both<<<1, 64>>>(a.as_ref(), b.as_ref(), &cells, &wrong))?;
            cells.write(&[0; 10])?;
            pe.barrier_all()?;
        }
        assert_eq!(wrong.read(0)?, 0);
        Ok(())
    })
    .unwrap();
}

#[test]
fn teams_are_made_and_dropped_without_limit() {
    promptly(|| {
        run(4, |pe| {
            let kept = pe.team(&[2, 0, 1])?;
            let free = pe.alloc::<u8>(1)?.handle();
            for round in 0..1000u32 {
                let odd = pe.world().split_strided(round % 2, 1 + round % 2, 2)?;
                if round % 100 == 0 {
                    works(&pe, odd.as_ref())?;
                }
                if let Some(odd) = &odd {
                    pe.stream().barrier(odd)?;
                }
            }
            works(&pe, kept.as_ref())?;
            assert_eq!(
                format!("{:?}", pe.alloc::<u8>(1)?.handle()),
                format!("{free:?}"),
                "the heap has grown"
            );
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn the_most_teams_at_once_are_64_and_a_dropped_one_makes_room() {
    run(3, |pe| {
        let (world, mut teams) = (pe.world(), vec![]);
        for _ in 0..64 {
            teams.push(world.split_strided(0, 1, 2)?);
        }
        let refused = world.split_strided(1, 1, 2);
        let Err(Error::Team(TeamError::TooMany { most: 64 })) = refused else {
            panic!("{refused:?}")
        };
        // PE 2 was in none of them.
        let alone = world.split_strided(2, 1, 1)?;
        assert_eq!(alone.is_some(), pe.id() == 2);
        teams.swap_remove(20);
        let next = world.split_strided(1, 1, 2)?;
        works(&pe, next.as_ref())
    })
    .unwrap();
}

#[test]
fn a_stream_has_barriers_of_teams() {
    run(4, |pe| {
        let (row, column) = pe.world().split_2d(2)?;
        let other = pe.new_stream()?;
        for _ in 0..10 {
            pe.stream().barrier(&row)?;
            other.sync(&column)?;
            pe.stream().sync(&row)?;
            other.barrier(&column)?;
        }
        pe.stream().synchronize()?;
        other.synchronize()
    })
    .unwrap();
}

/// Has PE 1 call `odd` where the others call `even`: every PE gets a mismatch, and the World goes on.
fn mismatch(
    even: impl Fn(&shmem_host::Team) -> Result<(), Error> + Sync,
    odd: impl Fn(&shmem_host::Team) -> Result<(), Error> + Sync,
    expected: [&str; 2],
) {
    promptly(|| {
        run(3, |pe| {
            let world = pe.world();
            let refused = if pe.id() == 1 { odd(&world) } else { even(&world) };
            let Err(Error::Team(TeamError::Mismatch { first, second })) = &refused else {
                panic!("{refused:?}")
            };
            assert_eq!((first.0, second.0), (0, 1));
            let text = refused.unwrap_err().to_string();
            assert!(expected.iter().all(|part| text.contains(part)), "{text}");
            works(&pe, world.split(&[1, 0])?.as_ref())
        })
        .unwrap();
    });
}

#[test]
fn members_that_ask_for_different_splits_are_named() {
    let strided =
        |start, stride, size| move |team: &shmem_host::Team| team.split_strided(start, stride, size).map(drop);
    mismatch(
        strided(0, 1, 2),
        strided(0, 2, 2),
        [
            "PE 0 asked for split_strided(0, 1, 2) at ",
            "but PE 1 for split_strided(0, 2, 2) at ",
        ],
    );
    mismatch(
        |team| team.split_2d(2).map(drop),
        |team| team.split_2d(3).map(drop),
        ["split_2d(2)", "split_2d(3)"],
    );
    mismatch(
        |team| team.split(&[0, 1]).map(drop),
        |team| team.split(&[1, 0]).map(drop),
        ["split([0, 1])", "split([1, 0])"],
    );
    mismatch(
        |team| team.split(&[0, 1]).map(drop),
        |team| team.split(&[0, 1]).map(drop),
        ["team.rs", "every member of a team makes the same splits"],
    );
}

#[test]
fn other_calls_and_absent_members_are_told() {
    promptly(|| {
        run(2, |pe| {
            let refused = match pe.id() {
                0 => pe.world().split_2d(1).map(drop),
                _ => pe.barrier_all(),
            };
            let Err(Error::Collective(CollectiveError::Mismatch { first, .. })) = refused else {
                panic!("{refused:?}")
            };
            assert!(first.1.starts_with("a team's split at "), "{}", first.1);
            Ok(())
        })
        .unwrap();
        // A member of a smaller team ends while the other waits for it.
        let ended = run(3, |pe| match pe.team(&[2, 1])? {
            Some(team) if pe.id() == 1 => team.split(&[0]).map(drop),
            _ => Ok(()),
        });
        let Err(Error::Collective(CollectiveError::PeerEnded { pe: 1, ended: 2, .. })) = ended else {
            panic!("{ended:?}")
        };
    });
}

#[test]
fn a_member_that_never_comes_is_named() {
    let late = sim(3).time_limit(Some(Duration::from_millis(200))).build().unwrap();
    let told = AtomicBool::new(false);
    let result = late.run(|pe| {
        let team = pe.team(&[2, 1])?;
        if pe.id() == 1 {
            let refused = team.unwrap().split(&[0]).map(drop);
            told.store(true, SeqCst);
            return refused;
        }
        while !told.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    });
    let Err(Error::Collective(CollectiveError::TimeLimit { pe: 1, absent, .. })) = result else {
        panic!("{result:?}")
    };
    assert_eq!(absent, [2]);
}

#[test]
fn teams_that_cannot_be_are_refused_on_every_pe() {
    run(4, |pe| {
        let world = pe.world();
        let refused = |split: Result<(), Error>, expected: TeamError| match split {
            Err(Error::Team(error)) => assert_eq!(error, expected),
            other => panic!("{other:?}, expected {expected}"),
        };
        let n = 4;
        refused(
            world.split_strided(1, 2, 3).map(drop),
            TeamError::Outside { index: 5, n },
        );
        let index = u64::from(u32::MAX) * u64::from(u32::MAX - 1) + 3;
        refused(
            world.split_strided(3, u32::MAX, u32::MAX).map(drop),
            TeamError::Outside { index, n },
        );
        refused(world.split(&[0, 4]).map(drop), TeamError::Outside { index: 4, n });
        refused(world.split(&[0, 2, 0]).map(drop), TeamError::Twice { index: 0 });
        refused(world.split(&[]).map(drop), TeamError::Empty { stride_or_range: false });
        refused(
            world.split_strided(0, 1, 0).map(drop),
            TeamError::Empty { stride_or_range: false },
        );
        refused(
            world.split_strided(0, 0, 1).map(drop),
            TeamError::Empty { stride_or_range: true },
        );
        refused(world.split_2d(0).map(drop), TeamError::Empty { stride_or_range: true });
        works(&pe, Some(&world))
    })
    .unwrap();
}

#[test]
fn stale_handles_and_those_of_others_are_refused() {
    let of_pe_0 = Mutex::new(None);
    let stale = |refused: Result<(), Error>, expected: Stale, word: &str| {
        let text = refused.as_ref().map_or_else(ToString::to_string, |()| String::new());
        let Err(Error::Launch(LaunchError::StaleHandle { why, .. })) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(why, expected);
        assert!(text.contains(word), "{text}");
    };
    run(2, |pe| {
        let team = pe.team(&[1, 0])?.unwrap();
        let handle = team.handle();
        if pe.id() == 0 {
            *of_pe_0.lock().unwrap() = Some(handle);
        }
        pe.barrier_all()?;
        launch!(pe, take<<<1, 1>>>(handle))?;
        launch!(pe, take<<<1, 1>>>(&pe.world()))?;
        if pe.id() == 1 {
            let other = of_pe_0.lock().unwrap().unwrap();
            stale(
                launch!(pe, take<<<1, 1>>>(other)),
                Stale::OtherPe { pe: 0 },
                "PE 0's handle",
            );
        }
        drop(team);
        stale(launch!(pe, take<<<1, 1>>>(handle)), Stale::Dropped, "PE ");
        stale(
            launch!(pe, take<<<1, 1>>>(handle.slot(1))),
            Stale::Dropped,
            "has dropped that team",
        );
        Ok(())
    })
    .unwrap();
    run(1, |pe| {
        let other = of_pe_0.lock().unwrap().unwrap();
        stale(launch!(pe, take<<<1, 1>>>(other)), Stale::Foreign, "another World");
        Ok(())
    })
    .unwrap();
}

#[test]
fn an_index_outside_a_made_team_is_a_fault() {
    let result = run(3, |pe| {
        let (team, x) = (pe.team(&[2, 0])?, pe.alloc::<u32>(1)?);
        if let Some(team) = &team {
            launch!(pe, past_the_end<<<1, 1>>>(team, &x))?;
        }
        pe.stream().synchronize()
    });
    let Err(Error::Device(fault)) = result else {
        panic!("{result:?}")
    };
    assert_eq!((fault.a, fault.b), (2, 2), "{fault}");
}

#[test]
fn a_deadlock_at_a_teams_barrier_names_who_is_missing() {
    #[kernel(collective)]
    fn some_come(all: Collective, team: Team) {
        if team.my_pe() != 1 {
            all.barrier(Warp, team);
        }
    }
    let result = run(3, |pe| {
        let team = pe.team(&[1, 2, 0])?.unwrap();
        collective_launch!(pe, some_come<<<1, 32>>>(&team))?;
        pe.stream().synchronize()
    });
    let Err(Error::Deadlock { report }) = result else {
        panic!("{result:?}")
    };
    assert!(
        report.contains("a barrier of a team of 3 PEs (slot 0): PE 2, its index 1, has not come"),
        "{report}"
    );
}
