//! get: every tile, destination, length and alignment; strided transfers both ways; large sizes.
use crate::scalar::Element;
use shmem::prelude::*;

/// How a case calls get.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Job {
    pub dst_begin: u32,
    pub src_begin: u32,
    pub len: u32,
    /// 0 thread, 1 warp, 2 block.
    pub tile: u32,
    /// 0 symmetric, 1 global, 2 shared.
    pub destination: u32,
    /// Relative to the caller.
    pub from: u32,
    pub nbi: u32,
}

pub const STAGE: usize = 2048;

#[kernel(for<u8>, for<u16>, for<u32>, for<u64>, for<crate::scalar::Wide>)]
pub fn get_by<T: Element>(dst: SymSlice<T>, src: SymSlice<T>, local: Global<T>, job: Job) {
    let range = job.dst_begin..job.dst_begin + job.len;
    shared!(stage: [u128; STAGE]);
    let stage = stage.cast::<T>().slice(range.clone());
    let (dst, local) = (dst.slice(range.clone()), local.slice(range));
    match job.tile {
        0 if Block.leader() => by(Thread, dst, src, local, stage, job),
        // One call of this tile is enough: its copy is the block's with another size.
        1 if thread::index() < 32 => {
            let from = (shmem::my_pe() + job.from) % shmem::n_pes();
            shmem::get(Warp, dst, src.slice(job.src_begin..job.src_begin + job.len), from);
        }
        2 => by(Block, dst, src, local, stage, job),
        _ => {}
    }
    Block.sync();
    // What came to shared or global memory is shown in symmetric memory.
    for i in Block.strided(job.len) {
        match job.destination {
            1 => dst.store(i, local.load(i)),
            2 => dst.store(i, stage.load(i)),
            _ => {}
        }
    }
}

#[inline(always)]
fn by<G: InBlock, T: Pod>(tile: G, dst: SymSlice<T>, src: SymSlice<T>, local: Global<T>, stage: Shared<T>, job: Job) {
    let from = (shmem::my_pe() + job.from) % shmem::n_pes();
    let src = src.slice(job.src_begin..job.src_begin + job.len);
    match (job.destination, job.nbi) {
        (0, 0) => shmem::get(tile, dst, src, from),
        (0, _) => shmem::get_nbi(tile, dst, src, from),
        (1, _) => shmem::get(tile, local, src, from),
        _ => shmem::get(tile, stage, src, from),
    }
    shmem::quiet(tile);
}

/// A thread's own array takes four elements from every PE.
#[kernel]
pub fn get_arrays(src: SymSlice<u32>, wrong: Global<u32>) {
    let t = thread::index();
    for pe in 0..shmem::n_pes() {
        let mut own = [0u32; 4];
        shmem::get(Thread, &mut own, src.chunk(t, 4), pe);
        for (k, v) in own.into_iter().enumerate() {
            if v != pe << 16 | (t * 4 + k as u32) {
                wrong.store(0, 1 + pe);
            }
        }
    }
}

/// Strides of a case.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Strides {
    pub dst: u32,
    pub src: u32,
    pub count: u32,
    pub tile: u32,
    pub nbi: u32,
}

#[kernel(for<u8>, for<u32>, for<f64>)]
pub fn strided<T: Element>(put_to: SymSlice<T>, got: SymSlice<T>, src: SymSlice<T>, s: Strides) {
    let right = (shmem::my_pe() + 1) % shmem::n_pes();
    match s.tile {
        0 if Block.leader() => strided_by(Thread, put_to, got, src, s, right),
        1 if thread::index() < 32 => strided_by(Warp, put_to, got, src, s, right),
        2 => strided_by(Block, put_to, got, src, s, right),
        _ => {}
    }
}

#[inline(always)]
fn strided_by<G: Tile, T: Pod>(
    tile: G,
    put_to: SymSlice<T>,
    got: SymSlice<T>,
    src: SymSlice<T>,
    s: Strides,
    right: u32,
) {
    if s.nbi == 0 {
        shmem::iput(tile, put_to, src, s.dst, s.src, s.count, right);
        shmem::iget(tile, got, src, s.dst, s.src, s.count, right);
    } else {
        shmem::iput_nbi(tile, put_to, src, s.dst, s.src, s.count, right);
        shmem::iget_nbi(tile, got, src, s.dst, s.src, s.count, right);
    }
    shmem::quiet(tile);
}

/// Every block moves its part of a large buffer: a put to the right, then a get of the same from there.
#[kernel(collective)]
pub fn large(all: Collective, dst: SymSlice<u32>, back: Global<u32>, src: SymSlice<u32>) {
    let right = (shmem::my_pe() + 1) % shmem::n_pes();
    let part = src.len().div_ceil(u64::from(thread::grid_size()));
    let begin = (part * u64::from(Block.id())).min(src.len());
    let range = begin..(begin + part).min(src.len());
    shmem::put(Block, dst.slice(range.clone()), src.slice(range.clone()), right);
    shmem::quiet(Block);
    shmem::get(Block, back.slice(range.clone()), dst.slice(range), right);
    let _ = all;
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::scalar::Wide;
    use crate::suite::{Case, few, full_or_little, noise};
    use anyhow::ensure;
    use shmem_host::{Pe, collective_launch};

    pub const CASES: &[Case] = &[
        Case {
            name: "get: lengths and alignments, u8",
            run: sweep::<u8>,
        },
        Case {
            name: "get: lengths and alignments, u16",
            run: sweep::<u16>,
        },
        Case {
            name: "get: lengths and alignments, u32",
            run: sweep::<u32>,
        },
        Case {
            name: "get: lengths and alignments, u64",
            run: sweep::<u64>,
        },
        Case {
            name: "get: lengths and alignments, 16 bytes",
            run: sweep::<Wide>,
        },
        Case {
            name: "get: a thread's own array",
            run: arrays,
        },
        Case {
            name: "iput and iget: strides, u8",
            run: strides::<u8>,
        },
        Case {
            name: "iput and iget: strides, u32",
            run: strides::<u32>,
        },
        Case {
            name: "iput and iget: strides, f64",
            run: strides::<f64>,
        },
        Case {
            name: "put and get: up to 64 MB",
            run: large_sizes,
        },
    ];

    const SPACE: usize = 2048;

    fn number<T: Element>(pe: u32, i: usize) -> T {
        T::from_number(noise(u64::from(pe) + 77, i as u64) as u32)
    }

    fn sweep<T: Element>(pe: &Pe) -> anyhow::Result<()>
    where
        get_by<T>: shmem::Kernel<Args = (SymSlice<T>, SymSlice<T>, Global<T>, Job)>,
    {
        let (dst, src, local) = (pe.alloc::<T>(SPACE)?, pe.alloc::<T>(SPACE)?, pe.buffer::<T>(SPACE)?);
        src.write(&(0..SPACE).map(|i| number::<T>(pe.id(), i)).collect::<Vec<_>>())?;
        let per_line = (16 / size_of::<T>()).max(1) as u32;
        let poison = T::from_number(0xdead_beef);
        pe.barrier_all()?;
        for k in few::<T>(60) {
            let r = |salt: u64, below: u32| (noise(salt + 100, k.into()) % u64::from(below)) as u32;
            let len = match k % 4 {
                0 => k / 4 % 3,
                1 => per_line * (1 + r(1, 3)) + r(2, per_line + 1),
                _ => r(3, 1500),
            };
            let tile = r(6, 3);
            let job = Job {
                dst_begin: r(4, 2 * per_line + 1),
                src_begin: r(5, 2 * per_line + 1),
                len,
                tile,
                destination: if tile == 1 { 0 } else { r(7, 3) },
                from: r(8, pe.n()),
                nbi: r(9, 2),
            };
            dst.write(&[poison; SPACE])?;
            collective_launch!(pe, get_by::<T><<<1, 96>>>(&dst, &src, &local, job))?;
            let from = (pe.id() + job.from) % pe.n();
            for (i, got) in dst.to_vec()?.into_iter().enumerate() {
                let (begin, len) = (job.dst_begin as usize, job.len as usize);
                let expected = if (begin..begin + len).contains(&i) {
                    number::<T>(from, i - begin + job.src_begin as usize)
                } else {
                    poison
                };
                ensure!(
                    got.number() == expected.number(),
                    "element {i} is {:#x}, expected {:#x}: case {k}, tile {}, destination {}, dst {}, src {}, len {}",
                    got.number(),
                    expected.number(),
                    job.tile,
                    job.destination,
                    job.dst_begin,
                    job.src_begin,
                    job.len
                );
            }
        }
        Ok(())
    }

    fn arrays(pe: &Pe) -> anyhow::Result<()> {
        let (src, wrong) = (pe.alloc::<u32>(160)?, pe.buffer::<u32>(1)?);
        src.write(&(0..160).map(|i| pe.id() << 16 | i).collect::<Vec<_>>())?;
        pe.barrier_all()?;
        collective_launch!(pe, get_arrays<<<1, 40>>>(&src, &wrong))?;
        ensure!(wrong.read(0)? == 0, "PE {} gave something else", wrong.read(0)? - 1);
        Ok(())
    }

    fn strides<T: Element>(pe: &Pe) -> anyhow::Result<()>
    where
        strided<T>: shmem::Kernel<Args = (SymSlice<T>, SymSlice<T>, SymSlice<T>, Strides)>,
    {
        const LEN: usize = 600;
        let (put_to, got, src) = (pe.alloc::<T>(LEN)?, pe.alloc::<T>(LEN)?, pe.alloc::<T>(LEN)?);
        src.write(&(0..LEN).map(|i| number::<T>(pe.id(), i)).collect::<Vec<_>>())?;
        let poison = T::from_number(0x5555_aaaa);
        for k in few::<T>(24) {
            let r = |salt: u64, below: u32| (noise(salt + 200, k.into()) % u64::from(below)) as u32;
            let (dst, from) = (1 + r(1, 7), 1 + r(2, 7));
            let most = (LEN as u32 - 1) / dst.max(from) + 1;
            let s = Strides {
                dst,
                src: from,
                count: if k < 2 { k } else { r(3, most + 1) },
                tile: k % 3,
                nbi: r(4, 2),
            };
            put_to.write(&[poison; LEN])?;
            got.write(&[poison; LEN])?;
            pe.barrier_all()?;
            collective_launch!(pe, strided::<T><<<1, 64>>>(&put_to, &got, &src, s))?;
            pe.barrier_all()?;
            let (left, right) = ((pe.id() + pe.n() - 1) % pe.n(), (pe.id() + 1) % pe.n());
            for (what, buffer, from) in [("iput", &put_to, left), ("iget", &got, right)] {
                for (i, v) in buffer.to_vec()?.into_iter().enumerate() {
                    let (q, rest) = (i / dst as usize, i % dst as usize);
                    let hit = rest == 0 && q < s.count as usize;
                    let expected = if hit {
                        number::<T>(from, q * s.src as usize)
                    } else {
                        poison
                    };
                    ensure!(
                        v.number() == expected.number(),
                        "{what}: element {i}, strides {dst} and {}, count {}",
                        s.src,
                        s.count
                    );
                }
            }
            pe.barrier_all()?;
        }
        Ok(())
    }

    fn large_sizes(pe: &Pe) -> anyhow::Result<()> {
        // Page and chunk edges, odd numbers; the largest on GPUs only.
        let mut sizes = full_or_little(vec![1, 1023, 1024, 1025, (1 << 19) - 1, (1 << 19) + 3], vec![1, 1025]);
        if pe.device_name() != "the simulator" {
            sizes.push(16 << 20);
        }
        for len in sizes {
            let (dst, src) = (pe.alloc::<u32>(len)?, pe.alloc::<u32>(len)?);
            let back = pe.buffer::<u32>(len)?;
            let numbers = |who: u32| (0..len).map(move |i| (i as u32).wrapping_mul(0x9e37_79b9) ^ who);
            src.write(&numbers(pe.id()).collect::<Vec<_>>())?;
            pe.barrier_all()?;
            let block = full_or_little(256, 64);
            collective_launch!(pe, large<<<4, block>>>(&dst, &back, &src))?;
            pe.barrier_all()?;
            let left = (pe.id() + pe.n() - 1) % pe.n();
            ensure!(dst.to_vec()?.into_iter().eq(numbers(left)), "put of {len} elements");
            ensure!(back.to_vec()?.into_iter().eq(numbers(pe.id())), "get of {len} elements");
            pe.barrier_all()?;
        }
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
