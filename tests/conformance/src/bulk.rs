//! Bulk engines: every memory, length and alignment, stagings of many sizes, sources that are written again, signals.
use crate::scalar::Element;
use shmem::bulk::Engine;
use shmem::prelude::*;

/// What a case does.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Job {
    pub dst_begin: u32,
    pub src_begin: u32,
    /// Of all pieces together.
    pub len: u32,
    /// How many transfers in a row it is moved by.
    pub pieces: u32,
    /// This PE's side: 0 symmetric, 1 global, 2 shared.
    pub memory: u32,
    /// Relative to the caller.
    pub to: u32,
    /// 0 put, 1 `put_nbi`, 2 `put_signal`.
    pub call: u32,
    /// The value of each piece's signal.
    pub epoch: u64,
}

pub const SPACE: usize = 2048;
/// What sources become when they may be written again.
pub const WRITTEN: u32 = 0x1111_1111;

/// Elements `begin..end` of piece `i`.
#[inline(always)]
fn piece(i: u32, job: Job) -> (u32, u32) {
    let each = job.len.div_ceil(job.pieces);
    ((i * each).min(job.len), ((i + 1) * each).min(job.len))
}

/// Puts the source in pieces and writes it again as soon as that is allowed. `seen`: what was there when the signals came.
#[kernel(for<u8>, for<crate::scalar::Wide>)]
pub fn bulk_put<T: Element>(
    dst: SymSlice<T>,
    src: SymSlice<T>,
    local: Global<T>,
    seen: Global<T>,
    ready: SymSlice<SignalWord>,
    job: Job,
) {
    shared!(array: [u128; SPACE]);
    let array = array.cast::<T>();
    let to = (shmem::my_pe() + job.to) % shmem::n_pes();
    if job.memory == 2 {
        for i in Block.strided(job.len) {
            array.store(job.src_begin + i, src.load(job.src_begin + i));
        }
        Block.sync();
    }
    let mut engine = Engine::new(Block, shmem::shared::dynamic::<u8>());
    macro_rules! put {
        ($src:expr) => {
            for i in 0..job.pieces {
                let (begin, end) = piece(i, job);
                let dst = dst.slice(job.dst_begin + begin..job.dst_begin + end);
                let src = $src.slice(job.src_begin + begin..job.src_begin + end);
                match job.call {
                    0 => engine.put(dst, src, to),
                    1 => engine.put_nbi(dst, src, to),
                    _ => engine.put_signal(dst, src, ready.at(i).set(job.epoch), to),
                }
                if job.call == 1 && i + 1 == job.pieces {
                    engine.flush();
                }
                if job.call != 1 || i + 1 == job.pieces {
                    let from = if job.call == 1 { 0 } else { begin };
                    for i in Block.strided(end - from) {
                        $src.store(job.src_begin + from + i, T::from_number(WRITTEN));
                    }
                }
            }
        };
    }
    match job.memory {
        0 => put!(src),
        1 => put!(local),
        _ => put!(array),
    }
    if job.call == 2 {
        for k in (0..job.pieces).rev() {
            shmem::wait_until(Block, ready.at(k), eq(job.epoch));
            let (begin, end) = piece(k, job);
            for i in Block.strided(end - begin) {
                seen.store(begin + i, dst.load(job.dst_begin + begin + i));
            }
        }
    }
    engine.quiet();
}

/// Gets the source in pieces; what came is copied to `seen`, by other threads than those that got it.
#[kernel(for<u8>, for<crate::scalar::Wide>)]
pub fn bulk_get<T: Element>(dst: SymSlice<T>, src: SymSlice<T>, local: Global<T>, seen: Global<T>, job: Job) {
    shared!(array: [u128; SPACE]);
    let array = array.cast::<T>();
    let from = (shmem::my_pe() + job.to) % shmem::n_pes();
    let mut engine = Engine::new(Block, shmem::shared::dynamic::<u8>());
    macro_rules! get {
        ($dst:expr) => {
            for i in 0..job.pieces {
                let (begin, end) = piece(i, job);
                let dst = $dst.slice(job.dst_begin + begin..job.dst_begin + end);
                engine.get(dst, src.slice(job.src_begin + begin..job.src_begin + end), from);
                for i in Block.strided(end - begin) {
                    let i = end - begin - 1 - i;
                    seen.store(job.dst_begin + begin + i, dst.load(i));
                }
            }
        };
    }
    match job.memory {
        0 => get!(dst),
        1 => get!(local),
        _ => get!(array),
    }
}

/// An engine for each warp and one of a thread, one after the other over the same staging.
#[kernel]
pub fn bulk_tiles(dst: SymSlice<u32>, src: SymSlice<u32>, got: Global<u32>) {
    let staging = shmem::shared::dynamic::<u8>();
    let (warps, to) = (Warp::per_block(), (shmem::my_pe() + 1) % shmem::n_pes());
    let (each, room) = (src.len() as u32 / (warps + 1), staging.len() as u32 / warps);
    let mine = Warp.id();
    {
        let mut engine = Engine::new(Warp, staging.chunk(mine, room));
        engine.put(dst.chunk(mine, each), src.chunk(mine, each), to);
        engine.get(got.chunk(mine, each), src.chunk(mine, each), to);
    }
    Block.sync();
    if Block.leader() {
        let mut engine = Engine::new(Thread, staging);
        engine.put_nbi(dst.chunk(warps, each), src.chunk(warps, each), to);
        engine.get(got.chunk(warps, each), src.chunk(warps, each), to);
    }
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::scalar::Wide;
    use crate::suite::{Case, few, full_or_little, noise};
    use anyhow::ensure;
    use shmem::bulk::LEAST_STAGING;
    use shmem_host::{Pe, collective_launch};

    pub const CASES: &[Case] = &[
        Case {
            name: "bulk: put, lengths and alignments, u8",
            run: puts::<u8>,
        },
        Case {
            name: "bulk: put, lengths and alignments, 16 bytes",
            run: puts::<Wide>,
        },
        Case {
            name: "bulk: get, lengths and alignments, u8",
            run: gets::<u8>,
        },
        Case {
            name: "bulk: get, lengths and alignments, 16 bytes",
            run: gets::<Wide>,
        },
        Case {
            name: "bulk: engines of warps and of a thread",
            run: tiles,
        },
    ];

    /// Bytes of staging, from the least on: two short stages, and so on up to eight long ones.
    const STAGINGS: [u64; 4] = [LEAST_STAGING, 1000, 5000, 14 << 10];

    /// A job of this number, and its staging.
    fn job<T>(k: u32, n: u32) -> (Job, u32) {
        let r = |salt: u64, below: u32| (noise(salt, k.into()) % u64::from(below)) as u32;
        let per_line = (16 / size_of::<T>()).max(1) as u32;
        let len = match k % 4 {
            0 => k / 4 % 3,
            1 => per_line * (1 + r(1, 3)) + r(2, per_line + 1),
            _ => r(3, 1900),
        };
        // Sides that lie alike go in bulk; others don't.
        let src_begin = r(5, 2 * per_line + 1);
        let dst_begin = match r(10, 4) {
            0 => r(4, 2 * per_line + 1),
            _ => src_begin,
        };
        let job = Job {
            dst_begin,
            src_begin,
            len,
            pieces: 1 + r(6, 4),
            memory: r(7, 3),
            to: r(8, n),
            call: r(9, 3),
            epoch: 1 + u64::from(k),
        };
        (job, STAGINGS[r(11, 4) as usize] as u32)
    }

    fn text(j: &Job, staging: u32) -> String {
        format!(
            "dst {}, src {}, len {}, pieces {}, memory {}, to +{}, call {}, staging {staging}",
            j.dst_begin, j.src_begin, j.len, j.pieces, j.memory, j.to, j.call
        )
    }

    fn puts<T: Element>(pe: &Pe) -> anyhow::Result<()>
    where
        bulk_put<T>: shmem::Kernel<
                Args = (
                    SymSlice<T>,
                    SymSlice<T>,
                    Global<T>,
                    Global<T>,
                    SymSlice<SignalWord>,
                    Job,
                ),
            >,
    {
        let (dst, src) = (pe.alloc::<T>(SPACE)?, pe.alloc::<T>(SPACE)?);
        let (local, seen) = (pe.buffer::<T>(SPACE)?, pe.buffer::<T>(SPACE)?);
        let ready = pe.signals(4)?;
        let number = |pe: u32, i: usize| T::from_number(noise(u64::from(pe), i as u64) as u32);
        let mine: Vec<T> = (0..SPACE).map(|i| number(pe.id(), i)).collect();
        let poison = T::from_number(0xdead_beef);
        for k in few::<T>(60) {
            let (job, staging) = job::<T>(k, pe.n());
            src.write(&mine)?;
            local.write(&mine)?;
            dst.write(&[poison; SPACE])?;
            pe.barrier_all()?;
            collective_launch!(pe, bulk_put::<T><<<1, 96, staging>>>(&dst, &src, &local, &seen, &ready, job))?;
            pe.barrier_all()?;
            let from = (pe.id() + pe.n() - job.to) % pe.n();
            let (begin, len) = (job.dst_begin as usize, job.len as usize);
            for (i, got) in dst.to_vec()?.into_iter().enumerate() {
                let expected = if (begin..begin + len).contains(&i) {
                    number(from, i - begin + job.src_begin as usize)
                } else {
                    poison
                };
                ensure!(
                    got.number() == expected.number(),
                    "element {i} of {} bytes is {:#x}, expected {:#x}; {}",
                    size_of::<T>(),
                    got.number(),
                    expected.number(),
                    text(&job, staging)
                );
            }
            if job.call == 2 {
                let (first, end) = piece(job.pieces - 1, job);
                for (i, got) in seen
                    .to_vec()?
                    .into_iter()
                    .enumerate()
                    .take(end as usize)
                    .skip(first as usize)
                {
                    let expected = number(from, i + job.src_begin as usize);
                    ensure!(
                        got.number() == expected.number(),
                        "at its signal, element {i} of {} bytes is {:#x}, expected {:#x}; {}",
                        size_of::<T>(),
                        got.number(),
                        expected.number(),
                        text(&job, staging)
                    );
                }
            }
            pe.barrier_all()?;
        }
        Ok(())
    }

    fn gets<T: Element>(pe: &Pe) -> anyhow::Result<()>
    where
        bulk_get<T>: shmem::Kernel<Args = (SymSlice<T>, SymSlice<T>, Global<T>, Global<T>, Job)>,
    {
        let (dst, src) = (pe.alloc::<T>(SPACE)?, pe.alloc::<T>(SPACE)?);
        let (local, seen) = (pe.buffer::<T>(SPACE)?, pe.buffer::<T>(SPACE)?);
        let number = |pe: u32, i: usize| T::from_number(noise(u64::from(pe), i as u64) as u32);
        let mine: Vec<T> = (0..SPACE).map(|i| number(pe.id(), i)).collect();
        src.write(&mine)?;
        pe.barrier_all()?;
        let poison = T::from_number(0xdead_beef);
        for k in few::<T>(60) {
            let (job, staging) = job::<T>(k, pe.n());
            dst.write(&[poison; SPACE])?;
            local.write(&[poison; SPACE])?;
            seen.write(&[poison; SPACE])?;
            collective_launch!(pe, bulk_get::<T><<<1, 96, staging>>>(&dst, &src, &local, &seen, job))?;
            let from = (pe.id() + job.to) % pe.n();
            let (begin, len) = (job.dst_begin as usize, job.len as usize);
            let to = match job.memory {
                0 => dst.to_vec()?,
                1 => local.to_vec()?,
                _ => seen.to_vec()?,
            };
            for (i, (got, seen)) in to.into_iter().zip(seen.to_vec()?).enumerate() {
                let expected = if (begin..begin + len).contains(&i) {
                    number(from, i - begin + job.src_begin as usize)
                } else {
                    poison
                };
                ensure!(
                    got.number() == expected.number() && seen.number() == expected.number(),
                    "element {i} of {} bytes is {:#x}, its reader saw {:#x}, expected {:#x}; {}",
                    size_of::<T>(),
                    got.number(),
                    seen.number(),
                    expected.number(),
                    text(&job, staging)
                );
            }
        }
        pe.barrier_all()?;
        Ok(())
    }

    fn tiles(pe: &Pe) -> anyhow::Result<()> {
        let each = full_or_little(20_000, 300);
        let (warps, n) = (3, pe.n());
        let len = (warps + 1) * each;
        let (dst, src, got) = (pe.alloc::<u32>(len)?, pe.alloc::<u32>(len)?, pe.buffer::<u32>(len)?);
        let of = |pe: u32| (0..len as u64).map(move |i| noise(pe.into(), i) as u32);
        src.write(&of(pe.id()).collect::<Vec<_>>())?;
        pe.barrier_all()?;
        collective_launch!(pe, bulk_tiles<<<1, 32 * warps as u32, 24 << 10>>>(&dst, &src, &got))?;
        pe.barrier_all()?;
        let (left, right) = ((pe.id() + n - 1) % n, (pe.id() + 1) % n);
        ensure!(dst.to_vec()?.into_iter().eq(of(left)), "puts from PE {left}");
        ensure!(got.to_vec()?.into_iter().eq(of(right)), "gets from PE {right}");
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
