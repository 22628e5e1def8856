//! Collectives in stream order, by the library's own kernels; the same from graphs, on several streams and slots, and mixed with
//! those in kernels.
use shmem::collective::Sum;
use shmem::prelude::*;

/// A sum of a kernel's own, at the slot that calls on streams use.
#[kernel(collective, block = 64)]
pub fn sum_in_kernel(all: Collective, x: SymSlice<u32>) {
    all.reduce(Block, shmem::world(), Sum, x, x);
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::collective::host::teams;
    use crate::collective_reduce::host::{Host, reduced, value};
    use crate::collective_reduce::{AND, MAX, MIN, OR, PROD, SUM, XOR};
    use crate::suite::{Case, full_or_little};
    use anyhow::{Context, ensure};
    use shmem::collective::{And, Max, Min, Or, Part, Prod, Xor};
    use shmem_host::{Pe, StreamReduce, SymBuf, Team as HostTeam, collective_launch};

    pub const CASES: &[Case] = &[
        Case {
            name: "collectives on a stream: broadcast, fcollect, alltoall",
            run: moves,
        },
        Case {
            name: "collectives on a stream: alltoallv",
            run: parts,
        },
        Case {
            name: "collectives on a stream: sums",
            run: sums,
        },
        Case {
            name: "collectives on a stream: operations",
            run: operations,
        },
        Case {
            name: "collectives on a stream: graphs, and collectives in kernels between",
            run: replayed,
        },
        Case {
            name: "collectives on a stream: several streams, slots and teams at once",
            run: side_by_side,
        },
    ];

    fn on_gpu(pe: &Pe) -> bool {
        pe.device_name() != "the simulator"
    }

    /// Lengths of a part in elements of so many bytes, as far as the backend has time for them: by packets, by one block and by
    /// several.
    fn lengths(pe: &Pe, element: usize) -> Vec<usize> {
        let bytes: &[usize] = if on_gpu(pe) {
            full_or_little(
                &[
                    1,
                    3,
                    8,
                    40,
                    129,
                    1028,
                    4100,
                    8192,
                    8200,
                    16_400,
                    70_001,
                    300_000,
                    1 << 20,
                    4 << 20,
                ],
                &[3, 40, 1028, 16_400, 70_001],
            )
        } else if pe.n() > 4 {
            full_or_little(&[1, 100, 4100], &[40, 4100])
        } else {
            full_or_little(&[1, 129, 4100, 9001], &[40, 8200])
        };
        bytes.iter().map(|bytes| bytes.div_ceil(element)).collect()
    }

    /// Where objects begin in their allocations, in elements: alike, and not alike.
    const PLACES: [(usize, usize); 3] = [(0, 0), (1, 1), (1, 3)];

    /// `rounds` runs of `len` elements of T, filled with what each member has; they begin at element `start`.
    fn filled<T: Host>(pe: &Pe, start: usize, len: usize, element: impl Fn(usize) -> T) -> anyhow::Result<SymBuf<T>> {
        let buffer = pe.alloc::<T>(start + len)?;
        let poison = T::make(12_345);
        let all: Vec<T> = (0..start + len)
            .map(|i| if i < start { poison } else { element(i - start) })
            .collect();
        buffer.write(&all)?;
        Ok(buffer)
    }

    fn same<T: Host>(got: &[T], expected: impl Fn(usize) -> T) -> anyhow::Result<()> {
        for (i, got) in got.iter().enumerate() {
            let expected = expected(i);
            ensure!(
                got.bits() == expected.bits(),
                "element {i}: {got:?}, expected {expected:?}"
            );
        }
        Ok(())
    }

    /// What a check of one length needs. Allocations are of the World, so that PEs that are no members make them as well.
    #[derive(Clone, Copy)]
    struct Given<'a> {
        pe: &'a Pe,
        team: Option<&'a HostTeam>,
        n: usize,
        me: usize,
        root: usize,
        len: usize,
        /// Where destinations and sources begin.
        to: usize,
        from: usize,
    }

    /// Calls `check` for the world and for a team of some PEs in another order, for lengths and places.
    fn each<T>(
        pe: &Pe,
        members: &[u32],
        team: Option<&HostTeam>,
        thorough: bool,
        check: impl Fn(Given<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        for (k, len) in lengths(pe, size_of::<T>()).into_iter().enumerate() {
            for (to, from) in PLACES {
                if !thorough && (k + to + from) % 3 != full_or_little(1, 0) {
                    continue;
                }
                let me = members.iter().position(|member| *member == pe.id()).unwrap_or(0);
                let (n, root) = (members.len(), k % members.len());
                check(Given {
                    pe,
                    team,
                    n,
                    me,
                    root,
                    len,
                    to,
                    from,
                })
                .with_context(|| {
                    let element = std::any::type_name::<T>();
                    format!("{len} x {element} to {to}, from {from}, members {members:?}, root {root}")
                })?;
            }
        }
        Ok(())
    }

    /// Checks of u32, u8 and f64, on every team; the last two where it is thorough.
    fn by_types(pe: &Pe, [u32s, u8s, f64s]: [fn(Given<'_>) -> anyhow::Result<()>; 3]) -> anyhow::Result<()> {
        for (members, thorough) in teams(pe) {
            let team = pe.team(&members)?;
            let team = team.as_ref();
            each::<u32>(pe, &members, team, thorough, u32s)?;
            if thorough && full_or_little(true, false) {
                each::<u8>(pe, &members, team, false, u8s)?;
                each::<f64>(pe, &members, team, false, f64s)?;
            }
        }
        Ok(())
    }

    fn moves(pe: &Pe) -> anyhow::Result<()> {
        by_types(pe, [moved::<u32>, moved::<u8>, moved::<f64>])
    }

    /// Five calls one after the other, with no barrier before, between or behind.
    fn moved<T: Host>(case: Given<'_>) -> anyhow::Result<()> {
        let Given {
            pe,
            n,
            me,
            root,
            len,
            to,
            from,
            ..
        } = case;
        let (second, other) = ((root + 1) % n, 1 << 30);
        let src = filled::<T>(pe, from, len * (1 + n), |i| value(me, i))?;
        let dst = filled::<T>(pe, to, len * (1 + 2 * n), |_| T::make(1))?;
        let own = len * (1 + me)..len * (2 + me);
        let place = filled::<T>(pe, to, len * (1 + n), |i| match i {
            _ if i < len => value(me, other + i),
            _ if own.contains(&i) => value(me, i - own.start),
            _ => T::make(2),
        })?;
        let Some(team) = case.team else {
            return Ok(());
        };
        let (stream, whole) = (pe.stream(), n * len);
        let part = |buffer: &SymBuf<T>, first: usize, start: usize, len: usize| {
            buffer.part(first + start..first + start + len)
        };
        stream.broadcast(team, part(&dst, to, 0, len)?, part(&src, from, 0, len)?, root as u32)?;
        stream.fcollect(team, part(&dst, to, len, whole)?, part(&src, from, 0, len)?)?;
        stream.alltoall(team, part(&dst, to, len + whole, whole)?, part(&src, from, len, whole)?)?;
        let (first, all) = (part(&place, to, 0, len)?, part(&place, to, len, whole)?);
        stream.broadcast(team, first, first, second as u32)?;
        stream.fcollect(team, all, part(&place, to, own.start, len)?)?;
        let (got, left, place) = (dst.to_vec()?, src.to_vec()?, place.to_vec()?);
        same(&got[to..], |i| match i / len {
            0 => value(root, i),
            k if k <= n => value(k - 1, i % len),
            k => value(k - 1 - n, len * (1 + me) + i % len),
        })?;
        same(&left[from..], |i| value(me, i)).context("the source has changed")?;
        same(&place[to..], |i| match i / len {
            0 => value(second, other + i),
            k => value(k - 1, i % len),
        })
        .context("in place")
    }

    fn parts(pe: &Pe) -> anyhow::Result<()> {
        by_types(pe, [exchanged::<u32>, exchanged::<u8>, exchanged::<f64>])
    }

    /// Of each member the part for another one is shorter by the indices of both, and lies in the middle of its place.
    fn exchanged<T: Host>(case: Given<'_>) -> anyhow::Result<()> {
        let Given {
            pe,
            n,
            me,
            len,
            to,
            from,
            ..
        } = case;
        let short = |from: usize, to: usize| len.saturating_sub(from + 2 * to);
        let part = |start: usize, len: usize| Part {
            start: start as u64,
            len: len as u64,
        };
        let src = filled::<T>(pe, from, n * len, |i| value(me, i))?;
        let dst = filled::<T>(pe, to, n * len, |_| T::make(1))?;
        let (sends, receives) = (pe.alloc::<Part>(n)?, pe.alloc::<Part>(n)?);
        let middle = |from: usize, to: usize| (len - short(from, to)) / 2;
        sends.write(
            &(0..n)
                .map(|other| part(other * len + middle(me, other), short(me, other)))
                .collect::<Vec<_>>(),
        )?;
        receives.write(
            &(0..n)
                .map(|other| part(other * len, short(other, me)))
                .collect::<Vec<_>>(),
        )?;
        let Some(team) = case.team else {
            return Ok(());
        };
        let (to_part, from_part) = (dst.part(to..)?, src.part(from..)?);
        pe.stream().alltoallv(team, to_part, from_part, &sends, &receives)?;
        same(&dst.to_vec()?[to..], |i| {
            let (other, i) = (i / len, i % len);
            if i < short(other, me) {
                value(other, me * len + middle(other, me) + i)
            } else {
                T::make(1)
            }
        })
    }

    fn sums(pe: &Pe) -> anyhow::Result<()> {
        for (members, thorough) in teams(pe) {
            let team = pe.team(&members)?;
            let team = team.as_ref();
            each::<f32>(pe, &members, team, thorough, summed::<f32>)?;
            if thorough && full_or_little(true, false) {
                each::<u8>(pe, &members, team, false, summed::<u8>)?;
                each::<bf16>(pe, &members, team, false, summed::<bf16>)?;
                each::<f64>(pe, &members, team, false, summed::<f64>)?;
            }
        }
        Ok(())
    }

    fn summed<T: Host>(case: Given<'_>) -> anyhow::Result<()>
    where
        Sum: StreamReduce<T>,
    {
        let Given {
            pe,
            n,
            me,
            root,
            len,
            to,
            from,
            ..
        } = case;
        let (second, whole) = ((root + 1) % n, n * len);
        let src = filled::<T>(pe, from, whole, |i| value(me, i))?;
        let dst = filled::<T>(pe, to, 3 * len, |_| T::make(1))?;
        let place = filled::<T>(pe, to, 2 * len + whole, |i| value(me, i))?;
        let Some(team) = case.team else {
            return Ok(());
        };
        let stream = pe.stream();
        let part = |buffer: &SymBuf<T>, first: usize, start: usize, len: usize| {
            buffer.part(first + start..first + start + len)
        };
        let one = part(&src, from, 0, len)?;
        stream.reduce(team, Sum, part(&dst, to, 0, len)?, one)?;
        stream.reduce_scatter(team, Sum, part(&dst, to, len, len)?, part(&src, from, 0, whole)?)?;
        stream.reduce_to(team, Sum, part(&dst, to, 2 * len, len)?, one, root as u32)?;
        let (a, b) = (part(&place, to, 0, len)?, part(&place, to, len, len)?);
        stream.reduce(team, Sum, a, a)?;
        stream.reduce_to(team, Sum, b, b, second as u32)?;
        let own = part(&place, to, (2 + me) * len, len)?;
        stream.reduce_scatter(team, Sum, own, part(&place, to, 2 * len, whole)?)?;
        let (got, left, place) = (dst.to_vec()?, src.to_vec()?, place.to_vec()?);
        same(&got[to..], |i| match i / len {
            0 => reduced(SUM, n, i),
            1 => reduced(SUM, n, me * len + i - len),
            _ if me == root => reduced(SUM, n, i - 2 * len),
            _ => T::make(1),
        })?;
        same(&left[from..], |i| value(me, i)).context("the source has changed")?;
        same(&place[to..], |i| match i / len {
            0 => reduced(SUM, n, i),
            1 if me == second => reduced(SUM, n, i),
            k if k == 2 + me => reduced(SUM, n, i),
            // What only others' parts are made of stays.
            _ => value(me, i),
        })
        .context("in place")
    }

    /// Every operation of every type.
    fn operations(pe: &Pe) -> anyhow::Result<()> {
        macro_rules! all { ($($op:ident $name:ident => $($t:ident)*;)*) => { $($( operation::<$t, _>(pe, $op, $name)?; )*)* } }
        all! {
            Sum SUM => i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64;
            Prod PROD => i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64;
            Min MIN => i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64;
            Max MAX => i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64;
            And AND => i8 i16 i32 i64 u8 u16 u32 u64;
            Or OR => i8 i16 i32 i64 u8 u16 u32 u64;
            Xor XOR => i8 i16 i32 i64 u8 u16 u32 u64;
        }
        Ok(())
    }

    fn operation<T: Host, O: StreamReduce<T>>(pe: &Pe, op: O, name: u32) -> anyhow::Result<()> {
        let (me, n, world) = (pe.id() as usize, pe.n() as usize, pe.world());
        // By packets, and by lines with some elements beside them.
        let many = full_or_little(if on_gpu(pe) { 100_003 } else { 8195 }, 0) / size_of::<T>();
        for len in [37, many] {
            let (dst, src) = (pe.alloc::<T>(len + 1)?, filled::<T>(pe, 1, len, |i| value(me, i))?);
            pe.stream().reduce(&world, op, dst.part(1..)?, src.part(1..)?)?;
            same(&dst.to_vec()?[1..], |i| reduced(name, n, i))
                .with_context(|| format!("{len} x {} by operation {name}", std::any::type_name::<T>()))?;
        }
        Ok(())
    }

    /// Sums in place, again and again: after the first, all PEs have the same.
    fn replayed(pe: &Pe) -> anyhow::Result<()> {
        let (world, stream, n) = (pe.world(), pe.stream(), pe.n());
        let (many, rounds) = if on_gpu(pe) {
            full_or_little((200_000, 50), (20_000, 5))
        } else {
            full_or_little((3000, 5), (20, 3))
        };
        let (few, lots, heads) = (
            pe.alloc::<u32>(5)?,
            pe.alloc::<u32>(many)?,
            pe.alloc::<u32>(n as usize)?,
        );
        let element = |i: usize| move |pe: u32| (i as u32).wrapping_mul(7) + pe;
        few.write(&(0..5).map(|i| element(i)(pe.id())).collect::<Vec<_>>())?;
        lots.write(&(0..many).map(|i| element(i)(pe.id())).collect::<Vec<_>>())?;
        let step = stream.capture(|| -> anyhow::Result<()> {
            stream.reduce(&world, Sum, &few, &few)?;
            stream.reduce(&world, Sum, &lots, &lots)?;
            stream.fcollect(&world, &heads, few.part(..1)?)?;
            Ok(())
        })?;
        ensure!(step.launches() == 3, "{step:?}");
        let mut sums = 0;
        for round in 0..rounds {
            step.launch(stream)?;
            sums += 1;
            if round % 2 == 0 {
                // As often for both.
                collective_launch!(pe, sum_in_kernel<<<1, 64>>>(&few))?;
                stream.reduce(&world, Sum, &few, &few)?;
                stream.reduce(&world, Sum, &lots, &lots)?;
                stream.reduce(&world, Sum, &lots, &lots)?;
                sums += 2;
            }
            let after = |i: usize| {
                let first = (0..n).map(element(i)).fold(0, u32::wrapping_add);
                first.wrapping_mul(n.wrapping_pow(sums - 1))
            };
            let (few, lots) = (few.to_vec()?, lots.to_vec()?);
            let wrong = (0..many).find(|&i| lots[i] != after(i) || few.get(i).is_some_and(|few| *few != after(i)));
            ensure!(wrong.is_none(), "round {round}, element {wrong:?}");
        }
        let got = heads.to_vec()?;
        ensure!(got.iter().all(|head| *head == got[0]), "{got:?}");
        Ok(())
    }

    /// Each stream has its own slot or team: none waits for what another one has not come to yet.
    fn side_by_side(pe: &Pe) -> anyhow::Result<()> {
        let (me, n, rounds) = (pe.id() as usize, pe.n() as usize, full_or_little(6, 2));
        let many = if on_gpu(pe) {
            full_or_little(300_000, 20_000)
        } else {
            full_or_little(2500, 10)
        };
        let backwards: Vec<u32> = (0..pe.n()).rev().collect();
        let (world, other) = (pe.world(), pe.team(&backwards)?);
        let other = other.as_ref().context("every PE is in it")?;
        let (second, third) = (pe.new_stream()?, pe.new_stream()?);
        let x = filled::<u32>(pe, 0, rounds * many, |i| value(me, i))?;
        let y = filled::<i64>(pe, 0, rounds * many, |i| value(me, i))?;
        let (z, all) = (
            filled::<u8>(pe, 0, rounds * 9, |i| value(me, i))?,
            pe.alloc::<u8>(rounds * 9 * n)?,
        );
        for round in 0..rounds {
            let run = round * many..(round + 1) * many;
            let (x, y) = (x.part(run.clone())?, y.part(run)?);
            pe.stream().reduce(&world, Sum, x, x)?;
            second.reduce(world.handle().slot(3), Max, y, y)?;
            third.fcollect(
                other,
                all.part(round * 9 * n..(round + 1) * 9 * n)?,
                z.part(round * 9..(round + 1) * 9)?,
            )?;
        }
        second.synchronize()?;
        third.synchronize()?;
        same(&x.to_vec()?, |i| reduced(SUM, n, i))?;
        same(&y.to_vec()?, |i| reduced(MAX, n, i))?;
        same(&all.to_vec()?, |i| {
            let (round, member, i) = (i / (9 * n), i / 9 % n, i % 9);
            value(n - 1 - member, round * 9 + i)
        })
    }
}

#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
