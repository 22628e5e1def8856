//! Communication in stream order, called by the host; the same from graphs.
use shmem::prelude::*;

/// Adds the number of blocks to the first element, once all of them are there.
#[kernel(collective)]
pub fn meet_and_count(all: Collective, x: Global<u64>) {
    all.grid().sync();
    if Block.id() == 0 && Block.leader() {
        x.store(0, x.load(0) + u64::from(thread::grid_size()));
    }
}

/// Each element is that of the next block one step before, plus 1. What a multiprocessor has read may be in its cache still when
/// another one, or another PE, has written it again.
#[kernel(programmatic, block = 64)]
pub fn pass_on(dst: SymSlice<u32>, src: SymSlice<u32>, to: u32) {
    let i = Block.id() * 64 + thread::index() as u32;
    let x = src.load((i + 64) % (64 * thread::grid_size()));
    if to == shmem::my_pe() {
        dst.store(i, x + 1);
    } else {
        shmem::p(dst.at(i), x + 1, to);
    }
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::suite::{Case, few, full_or_little, noise};
    use anyhow::ensure;
    use shmem::bytemuck;
    use shmem_host::{LaunchConfig, Pe, Stream, collective_launch, launch};

    pub const CASES: &[Case] = &[
        Case {
            name: "puts and gets on a stream, of every width and shape",
            run: transfers,
        },
        Case {
            name: "put_signal and signal_wait on a stream",
            run: signals,
        },
        Case {
            name: "transfers on a stream that are long enough for the copy engine",
            run: long_transfers,
        },
        Case {
            name: "counters on a stream",
            run: counters,
        },
        Case {
            name: "a ring of puts on a stream, by syncs and barriers alone",
            run: ring,
        },
        Case {
            name: "a graph of puts, kernels and barriers, replayed",
            run: replayed,
        },
        Case {
            name: "graphs on several streams",
            run: graphs_in_turn,
        },
        Case {
            name: "a pipeline over two streams",
            run: two_streams,
        },
        Case {
            name: "kernels that are placed before the one ahead has ended",
            run: programmatic,
        },
    ];

    fn transfers(pe: &Pe) -> anyhow::Result<()> {
        moves::<u8>(pe)?;
        moves::<u16>(pe)?;
        moves::<i32>(pe)?;
        moves::<u64>(pe)?;
        moves::<[u32; 3]>(pe)
    }

    /// Elements that PE `pe` sends in round `round`.
    fn elements<T: Pod>(pe: u32, round: u64, len: usize) -> Vec<T> {
        let words = (len * size_of::<T>()).div_ceil(8) as u64;
        let words: Vec<u64> = (0..words).map(|i| noise(u64::from(pe) << 32 | round, i)).collect();
        let mut all = vec![T::zeroed(); len];
        bytemuck::cast_slice_mut::<T, u8>(&mut all)
            .copy_from_slice(&bytemuck::cast_slice(&words)[..len * size_of::<T>()]);
        all
    }

    fn moves<T: Pod + PartialEq + std::fmt::Debug>(pe: &Pe) -> anyhow::Result<()> {
        let all = full_or_little(1500, 150);
        let (dst, src) = (pe.alloc::<T>(all)?, pe.alloc::<T>(all)?);
        let (local, back) = (pe.buffer::<T>(all)?, pe.buffer::<T>(all)?);
        let (me, n) = (pe.id(), pe.n());
        let (next, before) = ((me + 1) % n, (me + n - 1) % n);
        let stream = pe.stream();
        let shapes = [
            (0, 0, all),
            (1, 0, 1),
            (3, 5, 31),
            (7, 7, all / 3 + 13),
            (1, 2, all - 56),
            (all, all, 0),
        ];
        for round in few::<T>(6) {
            let ((to, from, len), round) = (shapes[round as usize], u64::from(round));
            let bytes = vec![T::zeroed(); all];
            dst.write(&bytes)?;
            src.write(&elements(me, round, all))?;
            local.write(&elements(me, round + 100, all))?;
            stream.barrier_all()?;
            let symmetric = round % 2 == 0;
            if symmetric {
                stream.put(dst.part(to..to + len)?, src.part(from..from + len)?, next)?;
            } else {
                stream.put(dst.part(to..to + len)?, local.part(from..from + len)?, next)?;
            }
            stream.barrier_all()?;
            let sent = elements::<T>(before, if symmetric { round } else { round + 100 }, all);
            let mut expected = bytes;
            expected[to..to + len].copy_from_slice(&sent[from..from + len]);
            ensure!(dst.to_vec()? == expected, "put of {len} in round {round}");

            back.write(&vec![T::zeroed(); all])?;
            stream.get(back.part(from..from + len)?, src.part(to..to + len)?, before)?;
            let theirs = elements::<T>(before, round, all);
            ensure!(
                back.to_vec()?[from..from + len] == theirs[to..to + len],
                "get of {len} in round {round}"
            );
            stream.barrier_all()?;
            stream.get(dst.part(to..to + len)?, src.part(from..from + len)?, before)?;
            ensure!(
                dst.to_vec()?[to..to + len] == theirs[from..from + len],
                "get to symmetric memory of {len} in round {round}"
            );
            pe.barrier_all()?;
        }
        Ok(())
    }

    fn signals(pe: &Pe) -> anyhow::Result<()> {
        let len = full_or_little(1200, 150);
        let (dst, src) = (pe.alloc::<u32>(len)?, pe.buffer::<u32>(len)?);
        let (ready, taken) = (pe.signals(2)?, pe.signals(1)?);
        let (me, n) = (pe.id(), pe.n());
        let (next, before) = ((me + 1) % n, (me + n - 1) % n);
        let stream = pe.stream();
        for round in 1..=4 {
            src.write(&elements(me, round, len))?;
            stream.put_signal(&dst, &src, ready.at(1)?.set(round), next)?;
            if round % 2 == 0 {
                stream.signal_wait(ready.at(1)?, eq(round))?;
            } else {
                stream.signal_wait(ready.at(1)?, gt(round - 1))?;
            }
            let (got, expected) = (dst.to_vec()?, elements::<u32>(before, round, len));
            ensure!(got == expected, "round {round}");
            // Nothing comes before the last has been read.
            stream.signal_op(taken.at(0)?.set(round), before)?;
            stream.signal_wait(taken.at(0)?, ge(round))?;
        }
        ensure!(ready.read(0)?.value() == 0);
        pe.barrier_all()?;
        Ok(())
    }

    /// From graphs too. The simulator has no such engine, and few bytes are as good there.
    fn long_transfers(pe: &Pe) -> anyhow::Result<()> {
        let simulated = pe.device_name() == "the simulator";
        let len = if simulated { 1000 } else { (16 << 20) + 1000 };
        let (dst, src) = (pe.alloc::<u8>(len + 7)?, pe.alloc::<u8>(len + 7)?);
        let (local, ready) = (pe.buffer::<u8>(len + 7)?, pe.signals(1)?);
        let (me, n, stream) = (pe.id(), pe.n(), pe.stream());
        let (next, before) = ((me + 1) % n, (me + n - 1) % n);
        let (at, from) = (7..7 + len, 2..2 + len);
        let sent = |pe: u32, round: u64| elements::<u8>(pe, round, len + 7)[from.clone()].to_vec();
        let calls = |round: u64| -> anyhow::Result<()> {
            stream.put_signal(
                dst.part(at.clone())?,
                src.part(from.clone())?,
                ready.at(0)?.set(round),
                next,
            )?;
            stream.signal_wait(ready.at(0)?, ge(round))?;
            stream.get(local.part(from.clone())?, src.part(from.clone())?, before)?;
            stream.barrier_all()?;
            Ok(())
        };
        let graph = stream.capture(|| calls(2))?;
        for round in 1..=3 {
            src.write(&elements(me, round, len + 7))?;
            stream.barrier_all()?;
            match round {
                1 => calls(1)?,
                2 => graph.launch(stream)?,
                _ => stream.put(dst.part(at.clone())?, local.part(from.clone())?, next)?,
            }
            stream.barrier_all()?;
            // In the third round the next PE's next gets what this one had got before.
            let (of, round) = if round == 3 {
                ((before + n - 1) % n, 2)
            } else {
                (before, round)
            };
            ensure!(dst.to_vec()?[at.clone()] == sent(of, round), "put in round {round}");
            ensure!(dst.to_vec()?[..7] == [0; 7], "bytes ahead of it");
            ensure!(
                local.to_vec()?[from.clone()] == sent(before, round),
                "get in round {round}"
            );
        }
        pe.barrier_all()?;
        Ok(())
    }

    fn counters(pe: &Pe) -> anyhow::Result<()> {
        let (board, arrived) = (pe.alloc::<u32>(pe.n() as usize)?, pe.counters(1)?);
        let (me, stream) = (pe.id() as usize, pe.stream());
        let mine = pe.buffer::<u32>(1)?;
        mine.write(&[pe.id() + 1])?;
        for to in 0..pe.n() {
            stream.put_signal(board.part(me..=me)?, &mine, arrived.at(0)?.add(1), to)?;
        }
        stream.signal_wait(arrived.at(0)?, ge(u64::from(pe.n())))?;
        let (got, expected) = (board.to_vec()?, (1..=pe.n()).collect::<Vec<_>>());
        ensure!(got == expected, "{got:?}");
        pe.barrier_all()?;
        Ok(())
    }

    fn ring(pe: &Pe) -> anyhow::Result<()> {
        let word = [pe.alloc::<u64>(1)?, pe.alloc::<u64>(1)?];
        let (n, stream) = (u64::from(pe.n()), pe.stream());
        let next = (pe.id() + 1) % pe.n();
        word[0].write(&[u64::from(pe.id())])?;
        stream.sync_all()?;
        for step in 0..=2 * pe.n() as usize {
            stream.put(&word[(step + 1) % 2], &word[step % 2], next)?;
            stream.quiet()?;
            if step % 3 == 0 {
                stream.barrier_all()?;
            } else {
                stream.sync_all()?;
            }
        }
        let got = word[1].read(0)?;
        ensure!(got == (u64::from(pe.id()) + n - 1) % n, "{got}");
        pe.barrier_all()?;
        Ok(())
    }

    /// On a stream and from a graph: some steps stay on this PE, which orders them by the stream alone.
    fn programmatic(pe: &Pe) -> anyhow::Result<()> {
        let (blocks, steps) = (full_or_little(16, 3), full_or_little(96, 12));
        let len = 64 * blocks;
        let buffers = [pe.alloc::<u32>(len)?, pe.alloc::<u32>(len)?];
        let (me, n, stream) = (pe.id(), pe.n(), pe.stream());
        let calls = || -> anyhow::Result<()> {
            for step in 0..steps {
                let (dst, src) = (&buffers[(step + 1) % 2], &buffers[step % 2]);
                let travels = step % 3 == 2;
                let to = if travels { (me + 1) % n } else { me };
                // A barrier before, so that nobody passes on what another one is still reading.
                if travels {
                    stream.barrier_all()?;
                }
                launch!(pe, pass_on<<<blocks as u32, 64, 0, stream>>>(dst, src, to))?;
                if travels {
                    stream.barrier_all()?;
                }
            }
            Ok(())
        };
        let graph = stream.capture(calls)?;
        let first = |pe: u32| (0..len as u32).map(move |i| pe * 1_000_000 + i);
        buffers[0].write(&first(me).collect::<Vec<_>>())?;
        pe.barrier_all()?;
        for round in 1..=3 {
            if round == 1 {
                calls()?
            } else {
                graph.launch(stream)?
            }
            let from = first((me + n - (round * steps / 3) as u32 % n) % n).collect::<Vec<_>>();
            let moved = |i: usize| from[(i + 64 * round * steps) % len] + (round * steps) as u32;
            let (got, expected) = (buffers[0].to_vec()?, (0..len).map(moved).collect::<Vec<_>>());
            ensure!(got == expected, "round {round}");
            pe.barrier_all()?;
        }
        Ok(())
    }

    fn two_streams(pe: &Pe) -> anyhow::Result<()> {
        let (sends, receives): (Stream, Stream) = (pe.new_stream()?, pe.new_stream()?);
        let (slots, copy) = (pe.alloc::<u32>(8)?, pe.buffer::<u32>(8)?);
        let ready = pe.signals(8)?;
        let mine = pe.buffer::<u32>(8)?;
        mine.write(&[pe.id(); 8])?;
        let (next, before) = ((pe.id() + 1) % pe.n(), (pe.id() + pe.n() - 1) % pe.n());
        for i in 0..8 {
            let one = i..=i;
            receives.signal_wait(ready.at(i)?, eq(1))?;
            receives.get(copy.part(one.clone())?, slots.part(one.clone())?, pe.id())?;
            sends.put_signal(slots.part(one.clone())?, mine.part(one)?, ready.at(i)?.set(1), next)?;
        }
        receives.synchronize()?;
        sends.synchronize()?;
        let got = copy.to_vec()?;
        ensure!(got == [before; 8], "{got:?}");
        pe.barrier_all()?;
        Ok(())
    }

    /// A ring in which every PE passes on what it has, in a graph; the host looks in between.
    fn replayed(pe: &Pe) -> anyhow::Result<()> {
        let len = full_or_little(600, 100);
        let (inbox, mine) = (pe.alloc::<u64>(len)?, pe.buffer::<u64>(len)?);
        let (arrived, stream) = (pe.counters(1)?, pe.stream());
        let (me, n) = (pe.id(), pe.n());
        mine.write(&elements(me, 0, len))?;
        let step = stream.capture(|| -> anyhow::Result<()> {
            stream.put_signal(&inbox, &mine, arrived.at(0)?.add(1), (me + 1) % n)?;
            stream.barrier_all()?;
            stream.signal_wait(arrived.at(0)?, ge(1))?;
            stream.get(&mine, &inbox, me)?;
            collective_launch!(pe, meet_and_count<<<4, 64>>>(&mine))?;
            stream.sync_all()?;
            Ok(())
        })?;
        ensure!(step.launches() == 7, "{step:?}");
        ensure!(arrived.read(0)?.value() == 0, "a capture runs nothing");
        // A neighbour's first round arrives here.
        pe.barrier_all()?;
        for round in 1..=2 * n + 1 {
            step.launch(stream)?;
            if round % 2 == 1 {
                // Each block has added 1 to the first element, in each round.
                let mut expected = elements::<u64>((me + n - round % n) % n, 0, len);
                expected[0] = expected[0].wrapping_add(4 * u64::from(round));
                ensure!(mine.to_vec()? == expected, "round {round}");
            }
        }
        ensure!(arrived.read(0)?.value() == u64::from(2 * n + 1));
        pe.barrier_all()?;
        Ok(())
    }

    fn graphs_in_turn(pe: &Pe) -> anyhow::Result<()> {
        let (count, other) = (pe.buffer::<u64>(1)?, pe.buffer::<u64>(1)?);
        let (first, second) = (pe.new_stream()?, pe.new_stream()?);
        let record = |buffer| {
            first.capture(|| {
                let meet = meet_and_count(buffer);
                pe.launch(LaunchConfig::new(8, 32).stream(&first).collective(), meet)
            })
        };
        let (a, b) = (record(&count)?, record(&other)?);
        for _ in 0..5 {
            // Side by side with each other and with the default stream.
            a.launch(&first)?;
            b.launch(&second)?;
            collective_launch!(pe, meet_and_count<<<2, 32>>>(&pe.buffer::<u64>(1)?))?;
        }
        first.synchronize()?;
        second.synchronize()?;
        a.launch(&second)?;
        second.synchronize()?;
        ensure!((count.read(0)?, other.read(0)?) == (48, 40));
        drop((a, b));
        pe.barrier_all()?;
        Ok(())
    }
}

#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
