//! reduce, `reduce_to`, `reduce_scatter`: every type and operation, by every tile and algorithm, to the bit.
use crate::collective::{BLOCK, GRID, Job, THREAD, WARP, by, by_tile};
use shmem::collective::{And, Max, Min, Or, Prod, ReduceOp, Sum, Xor};
use shmem::prelude::*;

pub const REDUCE: u32 = 0;
pub const REDUCE_TO: u32 = 1;
pub const REDUCE_SCATTER: u32 = 2;

pub const SUM: u32 = 0;
pub const PROD: u32 = 1;
pub const MIN: u32 = 2;
pub const MAX: u32 = 3;
pub const AND: u32 = 4;
pub const OR: u32 = 5;
pub const XOR: u32 = 6;

/// A type that is reduced.
pub trait Elem: Pod + KernelArg {}
macro_rules! elems { ($($t:ty)*) => { $(impl Elem for $t {})* } }
elems!(i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64);

/// Sums by one tile, and all three calls.
#[kernel(collective, max_block = 1024, for<f32, 0>, for<f32, 1>, for<f32, 2>, for<f32, 3>, for<bf16, 2>, for<u8, 2>, for<f64, 3>)]
pub fn sums<T: Elem, const TILE: u32>(all: Collective, member: Membership, dst: SymSlice<T>, src: SymSlice<T>, job: Job)
where
    Sum: ReduceOp<T>,
{
    let Some(team) = member.team() else { return };
    by_tile!(TILE, all, tile => {
        let (all, team) = (by(all, job.algorithm), team.slot(job.slot));
        let (me, n, len) = (team.my_pe(), team.n_pes(), job.len);
        for round in 0..job.rounds {
            let whole = src.chunk(round, len * u64::from(n));
            if job.call == REDUCE_SCATTER {
                let dst = if job.in_place == 1 { whole.chunk(me, len) } else { dst.chunk(round, len) };
                all.reduce_scatter(tile, team, Sum, dst, whole);
                continue;
            }
            let src = whole.chunk(0, len);
            let dst = if job.in_place == 1 { src } else { dst.chunk(round, len) };
            if job.call == REDUCE {
                all.reduce(tile, team, Sum, dst, src);
            } else {
                all.reduce_to(tile, team, Sum, dst, src, (job.root + round) % n);
            }
        }
    });
}

/// The sum and the largest, of every type.
#[kernel(collective, max_block = 1024, for<i8>, for<i16>, for<i32>, for<i64>, for<u8>, for<u16>, for<u32>, for<u64>, for<f16>, for<bf16>, for<f32>, for<f64>)]
pub fn numbers<T: Elem>(all: Collective, dst: SymSlice<T>, src: SymSlice<T>, op: u32, algorithm: u32)
where
    Sum: ReduceOp<T>,
    Max: ReduceOp<T>,
{
    let (all, team) = (by(all, algorithm), shmem::world());
    if op == SUM {
        all.reduce(Block, team, Sum, dst, src);
    } else {
        all.reduce(Block, team, Max, dst, src);
    }
}

/// The other operations, of one type of each kind.
#[kernel(collective, max_block = 1024, for<i16>, for<f32>, for<bf16>)]
pub fn more<T: Elem>(all: Collective, dst: SymSlice<T>, src: SymSlice<T>, op: u32, algorithm: u32)
where
    Prod: ReduceOp<T>,
    Min: ReduceOp<T>,
{
    let (all, team) = (by(all, algorithm), shmem::world());
    if op == PROD {
        all.reduce(Block, team, Prod, dst, src);
    } else {
        all.reduce(Block, team, Min, dst, src);
    }
}

/// Those on bits.
#[kernel(collective, max_block = 1024)]
pub fn bits(all: Collective, dst: SymSlice<u16>, src: SymSlice<u16>, op: u32, algorithm: u32) {
    let (all, team) = (by(all, algorithm), shmem::world());
    match op {
        AND => all.reduce(Block, team, And, dst, src),
        OR => all.reduce(Block, team, Or, dst, src),
        _ => all.reduce(Block, team, Xor, dst, src),
    }
}

/// Reductions of a few elements by packets, again and again, with larger ones between; every result is looked at.
#[kernel(collective, max_block = 1024)]
pub fn often(all: Collective, dst: SymSlice<u32>, src: SymSlice<u32>, rounds: u32, wrong: Global<u32>) {
    let (me, n, len) = (shmem::my_pe(), shmem::n_pes(), src.len() as u32);
    let team = shmem::world().slot(5);
    for round in 1..=rounds {
        let some = if round % 7 == 0 { len } else { 1 + round % 8 };
        let (dst, src) = (dst.slice(0..some), src.slice(0..some));
        // Neighbouring threads do what the call's tile has not synced for.
        for i in Block.strided(some) {
            src.store(i, round * (me + 1) + i);
        }
        let all = if round % 7 == 0 { by(all, 2 + round % 2) } else { all };
        all.reduce(Block, team, Sum, dst, src);
        for i in Block.strided(some) {
            let j = some - 1 - i;
            if dst.load(j) != round * (n * (n + 1) / 2) + n * j {
                wrong.store(0, round);
            }
        }
        Block.sync();
    }
}

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) mod host {
    use super::*;
    use crate::collective::host::{each_job, shape, teams};
    use crate::suite::{Case, full_or_little, noise};
    use anyhow::ensure;
    use shmem::Kernel;
    use shmem_host::{LaunchConfig, Pe, Team as HostTeam, collective_launch};

    pub const CASES: &[Case] = &[
        Case {
            name: "collectives: reduce",
            run: |pe| every(pe, REDUCE),
        },
        Case {
            name: "collectives: reduce to a root",
            run: |pe| every(pe, REDUCE_TO),
        },
        Case {
            name: "collectives: reduce_scatter",
            run: |pe| every(pe, REDUCE_SCATTER),
        },
        Case {
            name: "collectives: operations",
            run: operation,
        },
        Case {
            name: "collectives: many reductions",
            run: many,
        },
    ];

    /// How the host combines two elements, and makes one.
    pub(crate) trait Host: Elem + PartialEq + std::fmt::Debug {
        /// What is added up; halves are wider.
        type Wide: Copy;
        fn make(bits: u64) -> Self;
        fn widen(self) -> Self::Wide;
        fn narrow(wide: Self::Wide) -> Self;
        fn combine(op: u32, a: Self::Wide, b: Self::Wide) -> Self::Wide;
        fn bits(self) -> u64;
    }

    macro_rules! integers { ($($t:ident)*) => { $(
        impl Host for $t {
            type Wide = Self;
            fn make(bits: u64) -> Self { bits as Self }
            fn widen(self) -> Self { self }
            fn narrow(wide: Self) -> Self { wide }
            fn combine(op: u32, a: Self, b: Self) -> Self {
                match op {
                    SUM => a.wrapping_add(b),
                    PROD => a.wrapping_mul(b),
                    MIN => a.min(b),
                    MAX => a.max(b),
                    AND => a & b,
                    OR => a | b,
                    _ => a ^ b,
                }
            }
            fn bits(self) -> u64 { self as u64 }
        }
    )* } }
    integers!(i8 i16 i32 i64 u8 u16 u32 u64);

    macro_rules! floats { ($($t:ident as $wide:ident: |$x:ident| $make:expr, |$w:ident| $narrow:expr, |$e:ident| $widen:expr;)*) => { $(
        impl Host for $t {
            type Wide = $wide;
            /// A number between -8 and 8, not a whole one.
            fn make(bits: u64) -> Self {
                let $x = (bits % 16_001) as f64 / 1000.0 - 8.0;
                $make
            }
            fn widen(self) -> $wide {
                let $e = self;
                $widen
            }
            fn narrow($w: $wide) -> Self { $narrow }
            fn combine(op: u32, a: $wide, b: $wide) -> $wide {
                match op {
                    SUM => a + b,
                    PROD => a * b,
                    MIN => a.min(b),
                    _ => a.max(b),
                }
            }
            fn bits(self) -> u64 { u64::from(self.to_bits()) }
        }
    )* } }
    floats! {
        f16 as f32: |x| f16::from_f64(x), |w| f16::from_f32(w), |e| e.to_f32();
        bf16 as f32: |x| bf16::from_f64(x), |w| bf16::from_f32(w), |e| e.to_f32();
        f32 as f32: |x| x as f32, |w| w, |e| e;
        f64 as f64: |x| x, |w| w, |e| e;
    }

    pub(crate) fn value<T: Host>(member: usize, i: usize) -> T {
        T::make(noise(member as u64 + 5, i as u64))
    }

    /// Element i of all members, in the order of their indices.
    pub(crate) fn reduced<T: Host>(op: u32, n: usize, i: usize) -> T {
        let all = (1..n).fold(value::<T>(0, i).widen(), |sum, member| {
            T::combine(op, sum, value::<T>(member, i).widen())
        });
        T::narrow(all)
    }

    fn every(pe: &Pe, call: u32) -> anyhow::Result<()> {
        for (members, thorough) in teams(pe) {
            let team = pe.team(&members)?;
            let team = team.as_ref();
            summed::<f32, BLOCK>(pe, team, &members, call, thorough)?;
            if thorough {
                summed::<f32, GRID>(pe, team, &members, call, false)?;
            }
            if thorough && full_or_little(true, false) {
                summed::<f32, THREAD>(pe, team, &members, call, false)?;
                summed::<f32, WARP>(pe, team, &members, call, false)?;
                summed::<bf16, BLOCK>(pe, team, &members, call, false)?;
                summed::<u8, BLOCK>(pe, team, &members, call, true)?;
                summed::<f64, GRID>(pe, team, &members, call, false)?;
            }
        }
        Ok(())
    }

    type Args<T> = (Membership, SymSlice<T>, SymSlice<T>, Job);

    fn summed<T: Host, const TILE: u32>(
        pe: &Pe,
        team: Option<&HostTeam>,
        members: &[u32],
        call: u32,
        thorough: bool,
    ) -> anyhow::Result<()>
    where
        Sum: ReduceOp<T>,
        sums<T, TILE>: Kernel<Args = Args<T>>,
    {
        each_job::<T, TILE>(pe, members, call, 0..4, 1, thorough, |job| {
            check_sums::<T, TILE>(pe, team, members, job)
        })
    }

    fn check_sums<T: Host, const TILE: u32>(
        pe: &Pe,
        team: Option<&HostTeam>,
        members: &[u32],
        job: Job,
    ) -> anyhow::Result<()>
    where
        Sum: ReduceOp<T>,
        sums<T, TILE>: Kernel<Args = Args<T>>,
    {
        let (n, len, rounds) = (members.len(), job.len as usize, job.rounds as usize);
        let whole = n * len;
        // At odd places: alike where the size is odd, so that lines are used, and not alike else.
        let (a, b) = if job.len % 2 == 1 { (1, 1) } else { (1, 3) };
        let (dst, src) = (pe.alloc::<T>(rounds * len + a)?, pe.alloc::<T>(rounds * whole + b)?);
        let me = members.iter().position(|member| *member == pe.id());
        let poison = T::make(12_345);
        let source: Vec<T> = (0..rounds * whole + b)
            .map(|i| if i < b { poison } else { value(me.unwrap_or(0), i - b) })
            .collect();
        src.write(&source)?;
        dst.write(&vec![poison; rounds * len + a])?;
        pe.barrier_all()?;
        let (grid, block) = shape(TILE);
        let (to, from) = (
            dst.handle().slice(a as u64..dst.handle().len()),
            src.handle().slice(b as u64..src.handle().len()),
        );
        pe.launch(
            LaunchConfig::new(grid, block).collective(),
            sums::<T, TILE>(team, to, from, job),
        )?;
        let Some(me) = me else { return Ok(()) };
        let (got, left) = (dst.to_vec()?, src.to_vec()?);
        for round in 0..rounds {
            let root = (job.root as usize + round) % n;
            if job.call == REDUCE_TO && me != root {
                continue;
            }
            for i in 0..len {
                let at = round * whole + if job.call == REDUCE_SCATTER { me * len + i } else { i };
                let (got, expected) = (
                    if job.in_place == 1 {
                        left[b + at]
                    } else {
                        got[a + round * len + i]
                    },
                    reduced::<T>(SUM, n, at),
                );
                ensure!(
                    got.bits() == expected.bits(),
                    "round {round}, element {i}: {got:?}, expected {expected:?}"
                );
            }
        }
        if job.in_place == 0 {
            ensure!(
                left.iter().zip(&source).all(|(a, b)| a.bits() == b.bits()),
                "the source has changed"
            );
        }
        Ok(())
    }

    /// By each algorithm; the elements are in no order of size.
    fn operations<T: Host>(
        pe: &Pe,
        ops: impl IntoIterator<Item = u32>,
        launch: impl Fn(SymSlice<T>, SymSlice<T>, u32, u32) -> Result<(), shmem_host::Error>,
    ) -> anyhow::Result<()> {
        let len = 37;
        let (dst, src) = (pe.alloc::<T>(len)?, pe.alloc::<T>(len)?);
        src.write(&(0..len).map(|i| value::<T>(pe.id() as usize, i)).collect::<Vec<_>>())?;
        for op in ops {
            for algorithm in 1..4 {
                dst.write(&vec![T::make(1); len])?;
                pe.barrier_all()?;
                launch(dst.handle(), src.handle(), op, algorithm)?;
                for (i, got) in dst.to_vec()?.into_iter().enumerate() {
                    let expected = reduced::<T>(op, pe.n() as usize, i);
                    ensure!(
                        got.bits() == expected.bits(),
                        "{} operation {op}, algorithm {algorithm}, element {i}: {got:?}, expected {expected:?}",
                        std::any::type_name::<T>()
                    );
                }
            }
        }
        Ok(())
    }

    fn operation(pe: &Pe) -> anyhow::Result<()> {
        macro_rules! all { ($($kernel:ident $ops:expr => $($t:ident)*;)*) => { $($(
            operations::<$t>(pe, $ops, |dst, src, op, algorithm| {
                collective_launch!(pe, $kernel::<$t><<<1, 32>>>(dst, src, op, algorithm))
            })?;
        )*)* } }
        all! {
            numbers [SUM, MAX] => i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64;
            more [PROD, MIN] => i16 f32 bf16;
        }
        operations::<u16>(
            pe,
            [AND, OR, XOR],
            |dst, src, op, algorithm| collective_launch!(pe, bits<<<1, 32>>>(dst, src, op, algorithm)),
        )
    }

    fn many(pe: &Pe) -> anyhow::Result<()> {
        let gpu = pe.device_name() != "the simulator";
        let (rounds, len) = if gpu {
            full_or_little((50_000, 9000), (500, 600))
        } else {
            full_or_little((100, 2000), (16, 40))
        };
        let (dst, src, wrong) = (pe.alloc::<u32>(len)?, pe.alloc::<u32>(len)?, pe.buffer::<u32>(1)?);
        wrong.write(&[0])?;
        pe.barrier_all()?;
        collective_launch!(pe, often<<<1, 64>>>(&dst, &src, rounds, &wrong))?;
        ensure!(wrong.read(0)? == 0, "round {}", wrong.read(0)?);
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
