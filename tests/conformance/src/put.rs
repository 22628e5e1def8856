//! put and put_signal: every tile, source, length and alignment; bytes outside the destination stay as they were.
use shmem::prelude::*;

/// How a case calls put.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Job {
    pub dst_begin: u32,
    pub src_begin: u32,
    pub len: u32,
    /// 0 thread, 1 eight lanes, 2 warp, 3 block.
    pub tile: u32,
    /// 0 symmetric, 1 global, 2 shared.
    pub source: u32,
    /// Relative to the caller.
    pub to: u32,
    /// From symmetric memory only.
    pub nbi: u32,
}

pub const STAGE: usize = 2048;

#[kernel(for<u8>, for<u16>, for<u32>, for<u64>, for<crate::scalar::Wide>)]
pub fn put_by<T: crate::scalar::Element>(dst: SymSlice<T>, src: SymSlice<T>, local: Global<T>, job: Job) {
    let to = (shmem::my_pe() + job.to) % shmem::n_pes();
    let dst = dst.slice(job.dst_begin..job.dst_begin + job.len);
    let range = job.src_begin..job.src_begin + job.len;
    shared!(stage: [u128; STAGE]);
    let stage = stage.cast::<T>().slice(range.clone());
    if job.source == 2 {
        for i in Block.strided(job.len) {
            stage.store(i, src.load(job.src_begin + i));
        }
        Block.sync();
    }
    match job.tile {
        0 => {
            if Block.leader() {
                by(
                    Thread,
                    dst,
                    src.slice(range.clone()),
                    local.slice(range),
                    stage,
                    job,
                    to,
                );
            }
        }
        1 => {
            if thread::index() < 8 {
                shmem::put(SubWarp::<8>, dst, src.slice(range), to);
            }
        }
        2 => {
            if thread::index() < 32 {
                shmem::put(Warp, dst, src.slice(range), to);
            }
        }
        _ => by(Block, dst, src.slice(range.clone()), local.slice(range), stage, job, to),
    }
}

#[inline(always)]
fn by<G: InBlock, T: Pod>(
    tile: G,
    dst: SymSlice<T>,
    src: SymSlice<T>,
    local: Global<T>,
    stage: Shared<T>,
    job: Job,
    to: u32,
) {
    match (job.source, job.nbi) {
        (0, 0) => shmem::put(tile, dst, src, to),
        (0, _) => shmem::put_nbi(tile, dst, src, to),
        (1, _) => shmem::put(tile, dst, local, to),
        _ => shmem::put(tile, dst, stage, to),
    }
    shmem::quiet(tile);
}

/// A thread's own array goes to every PE, each thread's to a place of its own.
#[kernel]
pub fn put_array(dst: SymSlice<u32>) {
    let (me, t) = (shmem::my_pe(), thread::index());
    let own = [me, t, me ^ t, 0xabcd, t * 3];
    for pe in 0..shmem::n_pes() {
        let place = dst.chunk(me * thread::block_size() + t, 5);
        shmem::put(Thread, place, &own, pe);
    }
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::scalar::{Element, Wide};
    use crate::suite::{Case, few, noise};
    use anyhow::ensure;
    use shmem_host::{Pe, collective_launch};

    pub const CASES: &[Case] = &[
        Case {
            name: "put: lengths and alignments, u8",
            run: sweep::<u8>,
        },
        Case {
            name: "put: lengths and alignments, u16",
            run: sweep::<u16>,
        },
        Case {
            name: "put: lengths and alignments, u32",
            run: sweep::<u32>,
        },
        Case {
            name: "put: lengths and alignments, u64",
            run: sweep::<u64>,
        },
        Case {
            name: "put: lengths and alignments, 16 bytes",
            run: sweep::<Wide>,
        },
        Case {
            name: "put: a thread's own array",
            run: arrays,
        },
    ];

    const SPACE: usize = 2048;

    fn sweep<T: Element>(pe: &Pe) -> anyhow::Result<()>
    where
        put_by<T>: shmem::Kernel<Args = (SymSlice<T>, SymSlice<T>, Global<T>, Job)>,
    {
        let (dst, src, local) = (pe.alloc::<T>(SPACE)?, pe.alloc::<T>(SPACE)?, pe.buffer::<T>(SPACE)?);
        let number = |pe: u32, i: usize| T::from_number(noise(u64::from(pe), i as u64) as u32);
        let mine: Vec<T> = (0..SPACE).map(|i| number(pe.id(), i)).collect();
        src.write(&mine)?;
        local.write(&mine)?;
        let per_line = (16 / size_of::<T>()).max(1) as u32;
        let poison = T::from_number(0xdead_beef);
        for k in few::<T>(60) {
            let r = |salt: u64, below: u32| (noise(salt, k.into()) % u64::from(below)) as u32;
            // Lengths 0 and 1, some around a line of 16 bytes, some of many lines.
            let len = match k % 4 {
                0 => k / 4 % 3,
                1 => per_line * (1 + r(1, 3)) + r(2, per_line + 1),
                _ => r(3, 1500),
            };
            let tile = r(6, 4);
            let job = Job {
                dst_begin: r(4, 2 * per_line + 1),
                src_begin: r(5, 2 * per_line + 1),
                len,
                tile,
                source: if tile == 1 || tile == 2 { 0 } else { r(7, 3) },
                to: r(8, pe.n()),
                nbi: r(9, 2),
            };
            dst.write(&[poison; SPACE])?;
            pe.barrier_all()?;
            collective_launch!(pe, put_by::<T><<<1, 96>>>(&dst, &src, &local, job))?;
            pe.barrier_all()?;
            let from = (pe.id() + pe.n() - job.to) % pe.n();
            for (i, got) in dst.to_vec()?.into_iter().enumerate() {
                let (begin, len) = (job.dst_begin as usize, job.len as usize);
                let expected = if (begin..begin + len).contains(&i) {
                    number(from, i - begin + job.src_begin as usize)
                } else {
                    poison
                };
                ensure!(
                    got.number() == expected.number(),
                    "element {i} is {:#x}, expected {:#x}; {} bytes per element, job {}",
                    got.number(),
                    expected.number(),
                    size_of::<T>(),
                    text(&job)
                );
            }
            pe.barrier_all()?;
        }
        Ok(())
    }

    fn text(j: &Job) -> String {
        format!(
            "dst {}, src {}, len {}, tile {}, source {}, to +{}, nbi {}",
            j.dst_begin, j.src_begin, j.len, j.tile, j.source, j.to, j.nbi
        )
    }

    fn arrays(pe: &Pe) -> anyhow::Result<()> {
        let dst = pe.alloc::<u32>(5 * 40 * pe.n() as usize)?;
        collective_launch!(pe, put_array<<<1, 40>>>(&dst))?;
        pe.barrier_all()?;
        let got = dst.to_vec()?;
        for (place, five) in got.chunks(5).enumerate() {
            let (from, t) = (place as u32 / 40, place as u32 % 40);
            ensure!(
                five == [from, t, from ^ t, 0xabcd, t * 3],
                "PE {from} thread {t} sent {five:?}"
            );
        }
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
