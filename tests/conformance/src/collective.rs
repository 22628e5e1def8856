//! broadcast, fcollect, alltoall, alltoallv: by every tile and algorithm, of every element size, at odd places, in place, round
//! after round without a barrier between.
use shmem::collective::{Algorithm, Part};
use shmem::prelude::*;
use shmem::vector::U64x2;

pub const BROADCAST: u32 = 0;
pub const FCOLLECT: u32 = 1;
pub const ALLTOALL: u32 = 2;
pub const ALLTOALLV: u32 = 3;

pub const THREAD: u32 = 0;
pub const WARP: u32 = 1;
pub const BLOCK: u32 = 2;
pub const GRID: u32 = 3;

/// What a kernel does.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelArg)]
pub struct Job {
    /// Which collective.
    pub call: u32,
    /// 0: the size decides.
    pub algorithm: u32,
    /// How often, each time on the next part of the data.
    pub rounds: u32,
    /// Index of the root in the first round; the others follow.
    pub root: u32,
    /// Elements of a member's part.
    pub len: u64,
    /// 1: in place.
    pub in_place: u32,
    /// The slot of the team.
    pub slot: u32,
}

#[inline(always)]
pub fn by(all: Collective, algorithm: u32) -> Collective {
    match algorithm {
        0 => all,
        1 => all.by(Algorithm::Packets),
        2 => all.by(Algorithm::OneShot),
        _ => all.by(Algorithm::TwoShot),
    }
}

/// The call by the tile of this number; threads that are in none leave it.
macro_rules! by_tile {
    ($number:expr, $all:expr, $tile:ident => $call:expr) => {
        match $number {
            THREAD if thread::index() == 0 && Block.id() == 0 => {
                let $tile = Thread;
                $call
            }
            WARP if thread::index() < 32 && Block.id() == 0 => {
                let $tile = Warp;
                $call
            }
            BLOCK if Block.id() == 0 => {
                let $tile = Block;
                $call
            }
            GRID => {
                let $tile = $all.grid();
                $call
            }
            _ => {}
        }
    };
}
pub(crate) use by_tile;

/// Moves of `job.rounds` parts of `dst` and `src` each.
#[kernel(collective, max_block = 1024, for<u32, 0>, for<u32, 1>, for<u32, 2>, for<u32, 3>, for<u8, 2>, for<u16, 2>, for<u64, 2>, for<U64x2, 2>)]
pub fn moves<T: Pod + KernelArg, const TILE: u32>(
    all: Collective,
    member: Membership,
    dst: SymSlice<T>,
    src: SymSlice<T>,
    parts: SymSlice<Part>,
    job: Job,
) {
    let Some(team) = member.team() else { return };
    by_tile!(TILE, all, tile => moves_by(by(all, job.algorithm), tile, team.slot(job.slot), dst, src, parts, job));
}

#[inline(always)]
fn moves_by<T: Pod, G: Tile>(
    all: Collective,
    tile: G,
    team: Team,
    dst: SymSlice<T>,
    src: SymSlice<T>,
    parts: SymSlice<Part>,
    job: Job,
) {
    let (me, n, len) = (team.my_pe(), team.n_pes(), job.len);
    let whole = len * u64::from(n);
    for round in 0..job.rounds {
        match job.call {
            BROADCAST => {
                let dst = dst.chunk(round, len);
                let src = if job.in_place == 1 { dst } else { src.chunk(round, len) };
                all.broadcast(tile, team, dst, src, (job.root + round) % n);
            }
            FCOLLECT => {
                let dst = dst.chunk(round, whole);
                let src = if job.in_place == 1 {
                    dst.chunk(me, len)
                } else {
                    src.chunk(round, len)
                };
                all.fcollect(tile, team, dst, src);
            }
            ALLTOALL => all.alltoall(tile, team, dst.chunk(round, whole), src.chunk(round, whole)),
            _ => {
                let lists = parts.chunk(round, 2 * n);
                let (dst, src) = (dst.chunk(round, whole), src.chunk(round, whole));
                all.alltoallv(tile, team, dst, src, lists.chunk(0, n), lists.chunk(1, n));
            }
        }
    }
}

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) mod host {
    use super::*;
    use crate::suite::{Case, full_or_little, noise};
    use anyhow::{Context, ensure};
    use shmem::Kernel;
    use shmem_host::{LaunchConfig, Pe, Team as HostTeam};
    use std::ops::Range;

    pub const CASES: &[Case] = &[
        Case {
            name: "collectives: broadcast",
            run: |pe| every(pe, BROADCAST),
        },
        Case {
            name: "collectives: fcollect",
            run: |pe| every(pe, FCOLLECT),
        },
        Case {
            name: "collectives: alltoall",
            run: |pe| every(pe, ALLTOALL),
        },
        Case {
            name: "collectives: alltoallv",
            run: |pe| every(pe, ALLTOALLV),
        },
    ];

    type Args<T> = (Membership, SymSlice<T>, SymSlice<T>, SymSlice<Part>, Job);

    /// Sizes of a member's part in bytes, as far as the backend has time for them.
    pub(crate) fn sizes(pe: &Pe) -> &'static [usize] {
        if pe.device_name() == "the simulator" {
            let sizes: &[usize] = full_or_little(&[1, 129, 1028, 4100], &[40]);
            let most = if pe.n() > 4 {
                2
            } else if pe.n() > 2 {
                3
            } else {
                4
            };
            return &sizes[..sizes.len().min(most)];
        }
        // Emulated adapters take seconds for a megabyte that is reduced.
        full_or_little(
            &[
                1,
                3,
                8,
                15,
                16,
                40,
                129,
                1000,
                1024,
                1028,
                4096,
                4100,
                8192,
                8200,
                70_001,
                300_000,
                1 << 20,
                4 << 20,
            ],
            &[3, 40, 1028, 8200, 70_001],
        )
    }

    /// Blocks and threads of a tile's launch.
    pub(crate) fn shape(tile: u32) -> (u32, u32) {
        match tile {
            THREAD => (1, 32),
            WARP => (1, 64),
            BLOCK => (1, full_or_little(64, 32)),
            _ => (3, 32),
        }
    }

    fn every(pe: &Pe, call: u32) -> anyhow::Result<()> {
        for (members, thorough) in teams(pe) {
            let team = pe.team(&members)?;
            let team = team.as_ref();
            moved::<u32, BLOCK>(pe, team, &members, call, thorough)?;
            if thorough {
                moved::<u32, GRID>(pe, team, &members, call, false)?;
            }
            if thorough && full_or_little(true, false) {
                moved::<u32, THREAD>(pe, team, &members, call, false)?;
                moved::<u32, WARP>(pe, team, &members, call, false)?;
                moved::<u8, BLOCK>(pe, team, &members, call, true)?;
                moved::<u16, BLOCK>(pe, team, &members, call, false)?;
                moved::<u64, BLOCK>(pe, team, &members, call, false)?;
                moved::<U64x2, BLOCK>(pe, team, &members, call, false)?;
            }
        }
        Ok(())
    }

    fn moved<T: Pod + KernelArg + PartialEq + std::fmt::Debug, const TILE: u32>(
        pe: &Pe,
        team: Option<&HostTeam>,
        members: &[u32],
        call: u32,
        thorough: bool,
    ) -> anyhow::Result<()>
    where
        moves<T, TILE>: Kernel<Args = Args<T>>,
    {
        let algorithms = match call {
            ALLTOALLV => 0..1,
            BROADCAST => 0..4,
            _ => 0..3,
        };
        let in_place = u32::from(call < ALLTOALL);
        each_job::<T, TILE>(pe, members, call, algorithms, in_place, thorough, |job| {
            check_moves::<T, TILE>(pe, team, members, job)
        })
    }

    /// The members of the teams that are looked at, and whether thoroughly.
    pub(crate) fn teams(pe: &Pe) -> [(Vec<u32>, bool); 2] {
        let world = (0..pe.n()).collect();
        let odd = (0..pe.n()).rev().filter(|pe| pe % 2 == 0).collect();
        [(world, true), (odd, false)]
    }

    /// Jobs of every size and algorithm, with `in_place` up to the number given; every third size where not thorough.
    pub(crate) fn each_job<T, const TILE: u32>(
        pe: &Pe,
        members: &[u32],
        call: u32,
        algorithms: Range<u32>,
        in_place: u32,
        thorough: bool,
        check: impl Fn(Job) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        for (k, bytes) in (0..).zip(sizes(pe)) {
            if !thorough && k % 3 != full_or_little(1, 0) {
                continue;
            }
            for algorithm in algorithms.clone() {
                for in_place in 0..=in_place {
                    let job = Job {
                        call,
                        algorithm,
                        rounds: 3,
                        root: k % members.len() as u32,
                        len: bytes.div_ceil(size_of::<T>()) as u64,
                        in_place,
                        slot: k % 8,
                    };
                    check(job).with_context(|| format!("{job:?} of {} by tile {TILE}", std::any::type_name::<T>()))?;
                }
            }
        }
        Ok(())
    }

    /// Element i of a member's source.
    fn value<T: Pod>(member: usize, i: usize) -> T {
        let bytes = [noise(member as u64, i as u64), noise(member as u64 + 77, i as u64)];
        bytemuck_read(&bytes)
    }

    pub(crate) fn bytemuck_read<T: Pod>(words: &[u64; 2]) -> T {
        shmem::bytemuck::pod_read_unaligned(&shmem::bytemuck::bytes_of(words)[..size_of::<T>()])
    }

    fn check_moves<T: Pod + KernelArg + PartialEq + std::fmt::Debug, const TILE: u32>(
        pe: &Pe,
        team: Option<&HostTeam>,
        members: &[u32],
        job: Job,
    ) -> anyhow::Result<()>
    where
        moves<T, TILE>: Kernel<Args = Args<T>>,
    {
        let (n, len, rounds) = (members.len(), job.len as usize, job.rounds as usize);
        let whole = n * len;
        // Both begin at odd places: element 1 and element 3.
        let (dst, src) = (pe.alloc::<T>(rounds * whole + 1)?, pe.alloc::<T>(rounds * whole + 3)?);
        let parts = pe.alloc::<Part>(rounds * 2 * n)?;
        let me = members.iter().position(|member| *member == pe.id());
        let poison = bytemuck_read::<T>(&[!0; 2]);
        let mine = me.unwrap_or(0);
        let per_round = if job.call >= ALLTOALL { whole } else { len };
        let source: Vec<T> = (0..rounds * whole + 3)
            .map(|i| value(mine, i.wrapping_sub(3)))
            .collect();
        src.write(&source)?;
        let mut start = vec![poison; rounds * whole + 1];
        if job.in_place == 1 {
            for round in 0..rounds {
                let at = match job.call {
                    BROADCAST => round * len,
                    _ => round * whole + mine * len,
                };
                for i in 0..len {
                    start[1 + at + i] = value(mine, round * per_round + i);
                }
            }
        }
        dst.write(&start)?;
        // Of each member, the part for j is j elements into its place, and shorter by the index of both.
        let short = |from: usize, to: usize| (len as u64).saturating_sub((from + 2 * to) as u64);
        let lists: Vec<Part> = (0..rounds)
            .flat_map(|_| {
                let send = (0..n).map(|to| Part {
                    start: (to * len) as u64 + (len as u64 - short(mine, to)) / 2,
                    len: short(mine, to),
                });
                let receive = (0..n).map(|from| Part {
                    start: (from * len) as u64,
                    len: short(from, mine),
                });
                send.chain(receive).collect::<Vec<_>>()
            })
            .collect();
        parts.write(&lists)?;
        pe.barrier_all()?;
        let (grid, block) = shape(TILE);
        let (to, from) = (
            dst.handle().slice(1..dst.handle().len()),
            src.handle().slice(3..src.handle().len()),
        );
        launch::<T, TILE>(pe, (grid, block), team, to, from, parts.handle(), job)?;
        let got = dst.to_vec()?;
        let Some(me) = me else {
            ensure!(got == start, "a PE that is no member has got something");
            return Ok(());
        };
        let mut expected = vec![poison; rounds * whole + 1];
        for round in 0..rounds {
            let source = |member: usize, i: usize| value::<T>(member, round * per_round + i);
            let place = &mut expected[1..];
            match job.call {
                BROADCAST => {
                    let root = (job.root as usize + round) % n;
                    for i in 0..len {
                        place[round * len + i] = source(root, i);
                    }
                }
                FCOLLECT => {
                    for i in 0..whole {
                        place[round * whole + i] = source(i / len, i % len);
                    }
                }
                ALLTOALL => {
                    for i in 0..whole {
                        place[round * whole + i] = source(i / len, me * len + i % len);
                    }
                }
                _ => {
                    for from in 0..n {
                        let count = short(from, me) as usize;
                        for i in 0..count {
                            place[round * whole + from * len + i] = source(from, me * len + (len - count) / 2 + i);
                        }
                    }
                }
            }
        }
        for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
            ensure!(got == expected, "element {i}: {got:?}, expected {expected:?}");
        }
        Ok(())
    }

    fn launch<T: Pod + KernelArg, const TILE: u32>(
        pe: &Pe,
        (grid, block): (u32, u32),
        team: Option<&HostTeam>,
        dst: SymSlice<T>,
        src: SymSlice<T>,
        parts: SymSlice<Part>,
        job: Job,
    ) -> anyhow::Result<()>
    where
        moves<T, TILE>: Kernel<Args = Args<T>>,
    {
        Ok(pe.launch(
            LaunchConfig::new(grid, block).collective(),
            moves::<T, TILE>(team, dst, src, parts, job),
        )?)
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
