//! Teams that the host makes: every call by `(team, index)`, translation, barriers of teams that overlap, in kernels and on
//! streams, also after many were made and dropped.
use shmem::prelude::*;

/// Every call that takes a target goes to the right in the team, whose members have no numbers in a row.
#[kernel(collective)]
pub fn calls(
    all: Collective,
    member: Membership,
    dst: SymSlice<u64>,
    src: SymSlice<u64>,
    ready: SymSlice<SignalWord>,
    count: SymSlice<CounterWord>,
    got: Global<u64>,
) {
    let Some(team) = member.team() else { return };
    let (me, n) = (team.my_pe(), team.n_pes());
    let right = team.pe((me + 1) % n);
    for i in Block.strided(128) {
        src.store(i, u64::from(me) * 1000 + u64::from(i));
    }
    // So that nobody reads a source that is not there yet.
    all.barrier(Block, team.slot(1));
    if Block.leader() {
        shmem::p(dst.at(0), u64::from(me) + 7, right);
        shmem::signal_op(count.at(0).add(u64::from(me) + 1), right);
        got.store(128, shmem::g(src.at(5), right));
        shmem::fetch_add(dst.at(32), 1, right);
    }
    shmem::put(Warp, dst.slice(1..32), src.slice(1..32), right);
    shmem::put_nbi(Block, dst.slice(33..64), src.slice(33..64), right);
    shmem::quiet(Block);
    shmem::put_signal(Block, dst.slice(64..96), src.slice(64..96), ready.at(0).set(1), right);
    shmem::get(Block, dst.slice(96..128), src.slice(96..128), (team, (me + 1) % n));
    shmem::wait_until(Block, ready.at(0), eq(1));
    shmem::wait_until(Block, count.at(0), ge(1));
    all.barrier(Block, team);
    for i in Block.strided(128) {
        got.store(i, dst.load(i));
    }
}

/// What the team says of itself, element i of each part for PE or index i.
#[kernel]
pub fn numbers(member: Membership, out: Global<u32>) {
    let (world, none) = (shmem::world(), u32::MAX);
    let Some(team) = member.team() else {
        out.store(0, none);
        return;
    };
    let n = world.n_pes();
    out.store(0, team.my_pe());
    out.store(1, team.n_pes());
    for i in 0..n {
        out.store(2 + i, team.translate_to(i, world).unwrap_or(none));
        out.store(2 + n + i, world.translate_to(i, team).unwrap_or(none));
        out.store(2 + 2 * n + i, team.translate_to(i, team).unwrap_or(none));
    }
}

/// One warp for each team, all on the same slot numbers: no barrier lets a member go early, whatever the others do.
#[kernel(collective)]
pub fn at_once(all: Collective, teams: [Membership; 3], cells: SymSlice<u32>, rounds: u32, wrong: Global<u32>) {
    let w = Warp.id();
    let member = if w == 0 {
        teams[0]
    } else if w == 1 {
        teams[1]
    } else {
        teams[2]
    };
    let Some(team) = member.team() else { return };
    let (me, n) = (team.my_pe(), team.n_pes());
    let row = cells.chunk(w, shmem::n_pes());
    for round in 1..=rounds {
        for i in Warp.strided(n) {
            shmem::p(row.at(me), round, (team, i));
        }
        all.barrier(Warp, team.slot(round % 3));
        for i in Warp.strided(n) {
            if row.load(i) < round {
                wrong.store(w, round);
            }
        }
        all.sync(Warp, team.slot(3));
    }
}

/// Adds to the right in the team. Only members launch it.
#[kernel]
pub fn pass_on(team: Team, x: SymSlice<u32>, value: u32) {
    if Block.leader() {
        shmem::p(x.at(0), value, team.pe((team.my_pe() + 1) % team.n_pes()));
    }
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::suite::{Case, full_or_little};
    use anyhow::{bail, ensure};
    use shmem_host::{Error, LaunchError, Pe, Stale, TeamError, collective_launch, launch};

    pub const CASES: &[Case] = &[
        Case {
            name: "made teams: (team, index) as a target",
            run: targets,
        },
        Case {
            name: "made teams: indices and translation",
            run: translation,
        },
        Case {
            name: "made teams: barriers of three that overlap, at once",
            run: barriers,
        },
        Case {
            name: "made teams: barriers on streams",
            run: streams,
        },
        Case {
            name: "made teams: many, one after the other",
            run: many,
        },
        Case {
            name: "refused: splits, and handles of dropped teams",
            run: refusals,
        },
    ];

    /// The World backwards and halfway round: evenly spaced only where it is small.
    fn shuffled(n: u32) -> Vec<u32> {
        (0..n).rev().map(|pe| (pe + n / 2) % n).collect()
    }

    fn lists(n: u32) -> [Vec<u32>; 4] {
        let odd: Vec<u32> = (0..n).filter(|pe| pe % 2 == 1).collect();
        [
            (0..n).collect(),
            shuffled(n),
            shuffled(n)[..n.div_ceil(2) as usize].to_vec(),
            odd,
        ]
    }

    fn targets(pe: &Pe) -> anyhow::Result<()> {
        for list in lists(pe.n()).into_iter().filter(|list| !list.is_empty()) {
            let team = pe.team(&list)?;
            let (dst, src) = (pe.alloc::<u64>(128)?, pe.alloc::<u64>(128)?);
            let (ready, count, got) = (pe.signals(1)?, pe.counters(1)?, pe.buffer::<u64>(129)?);
            collective_launch!(pe, calls<<<1, 96>>>(team.as_ref(), &dst, &src, &ready, &count, &got))?;
            let Some(team) = &team else { continue };
            let (me, n) = (u64::from(team.my_pe()), u64::from(team.n_pes()));
            let (left, right) = ((me + n - 1) % n, (me + 1) % n);
            for (i, got) in (0..).zip(got.to_vec()?) {
                let expected = match i {
                    0 => left + 7,
                    32 => 1,
                    96.. => right * 1000 + if i == 128 { 5 } else { i },
                    _ => left * 1000 + i,
                };
                ensure!(got == expected, "{team:?}: element {i}: {got}, expected {expected}");
            }
            ensure!(count.read(0)?.value() == left + 1);
        }
        Ok(())
    }

    fn translation(pe: &Pe) -> anyhow::Result<()> {
        let n = pe.n();
        let find = |list: &[u32], pe: u32| list.iter().position(|&p| p == pe).map_or(u32::MAX, |i| i as u32);
        for list in lists(n).into_iter().filter(|list| !list.is_empty()) {
            let team = pe.team(&list)?;
            let out = pe.buffer::<u32>(2 + 3 * n as usize)?;
            launch!(pe, numbers<<<1, 1>>>(team.as_ref(), &out))?;
            let out = out.to_vec()?;
            let me = find(&list, pe.id());
            ensure!(out[0] == me && team.is_some() == (me != u32::MAX));
            if team.is_none() {
                continue;
            }
            ensure!(out[1] == list.len() as u32);
            for i in 0..n {
                let (member, itself) = match list.get(i as usize) {
                    Some(&pe) => (pe, i),
                    None => (u32::MAX, u32::MAX),
                };
                let got = [0, n, 2 * n].map(|part| out[(2 + part + i) as usize]);
                ensure!(got == [member, find(&list, i), itself], "{list:?}, {i}: {got:?}");
            }
        }
        Ok(())
    }

    fn barriers(pe: &Pe) -> anyhow::Result<()> {
        let n = pe.n();
        let (a, (b, c)) = (pe.team(&shuffled(n))?, pe.world().split_2d(2)?);
        let most = pe.world().split_strided(0, 1, n.max(2) - 1)?;
        for round in 0..2 {
            let third = if round == 1 { most.as_ref() } else { Some(&c) };
            let (cells, wrong) = (pe.alloc::<u32>(3 * n as usize)?, pe.buffer::<u32>(3)?);
            let teams = [a.as_ref(), Some(&b), third].map(|team| team.map(shmem_host::Team::handle).into());
            collective_launch!(pe, at_once<<<1, 96>>>(teams, &cells, 6, &wrong))?;
            ensure!(wrong.to_vec()? == [0; 3], "rounds {:?}", wrong.to_vec()?);
        }
        Ok(())
    }

    fn streams(pe: &Pe) -> anyhow::Result<()> {
        let (row, column) = pe.world().split_2d(2)?;
        let x = pe.alloc::<u32>(2)?;
        for round in 0..full_or_little(10, 3) {
            for (i, team, by) in [(0, &row, 1), (1, &column, 100)] {
                launch!(pe, pass_on<<<1, 32>>>(team, x.part(i..=i)?, round * 1000 + by * (team.my_pe() + 1)))?;
                pe.stream().barrier(team)?;
                let left = (team.my_pe() + team.n_pes() - 1) % team.n_pes();
                let (got, expected) = (x.read(i)?, round * 1000 + by * (left + 1));
                ensure!(got == expected, "round {round}, {team:?}: {got}, expected {expected}");
                // The left member's next put comes behind this read.
                pe.stream().sync(team)?;
            }
        }
        Ok(())
    }

    fn many(pe: &Pe) -> anyhow::Result<()> {
        let n = pe.n();
        for round in 0..full_or_little(200, 8) {
            let team = pe.world().split_strided(round % n, 1, 1 + (n - 1 - round % n) / 2)?;
            if let Some(team) = &team {
                pe.stream().barrier(team)?;
                let (row, column) = team.split_2d(1 + round % 3)?;
                pe.stream().barrier(&column)?;
                pe.stream().sync(&row)?;
            }
        }
        Ok(pe.stream().synchronize()?)
    }

    fn refusals(pe: &Pe) -> anyhow::Result<()> {
        let n = pe.n();
        let Err(Error::Team(TeamError::Outside { index, n: of })) = pe.team(&[0, n]) else {
            bail!("an index outside the World was not refused")
        };
        ensure!((index, of) == (n.into(), n));
        let x = pe.alloc::<u32>(1)?;
        let team = pe.world().split_2d(1)?.0;
        let handle = team.handle();
        launch!(pe, pass_on<<<1, 32>>>(&team, &x, 1))?;
        drop(team);
        let refused = launch!(pe, pass_on<<<1, 32>>>(handle, &x, 1));
        let Err(Error::Launch(LaunchError::StaleHandle {
            why: Stale::Dropped, ..
        })) = refused
        else {
            bail!("{refused:?}")
        };
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
