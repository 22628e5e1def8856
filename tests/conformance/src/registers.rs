//! Register tiles, computed sources, fields, cache hints, clocks.
use shmem::hint::{EvictFirst, EvictLast, Streaming};
use shmem::prelude::*;
use shmem::time;
use shmem::vector::F32x4;

/// Each tile adds its rank and j to what it holds; by block, by warps and by threads, through all kinds of memory.
#[kernel(block = 64)]
pub fn tiles(x: SymSlice<u32>, y: Global<F32x4>) {
    shared!(stage: [u32; 256]);
    let a: [u32; 4] = shmem::read(Block, x.chunk(0, 256));
    shmem::write(Block, stage, a);
    Block.sync();
    let part = stage.chunk(Warp.id(), 128);
    let b: [u32; 4] = shmem::read(Warp, part);
    shmem::write(
        Warp,
        part,
        core::array::from_fn::<_, 4, _>(|j| b[j] * 2 + Warp.rank() + 1000 * j as u32),
    );
    Block.sync();
    let c: [u32; 4] = shmem::read(Thread, stage.chunk(thread::index(), 4));
    shmem::write(Thread, x.chunk(1, 256).chunk(thread::index(), 4), c);
    let z: [F32x4; 8] = shmem::read(Block, y);
    shmem::write(Block, y, z.map(|v| v + v));
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Entry {
    pub key: u64,
    pub name: [u8; 12],
    pub count: u32,
}
// SAFETY: numbers without padding.
unsafe impl Zeroable for Entry {}
// SAFETY: as above.
unsafe impl Pod for Entry {}

/// One field of a neighbour's entry by p, another of one's own.
#[kernel(collective)]
pub fn fields(all: Collective, table: SymSlice<Entry>, own: Global<Entry>, out: Global<u64>) {
    let (me, n, t) = (shmem::my_pe(), shmem::n_pes(), thread::index());
    shmem::p(
        shmem::field!(table.at(t), Entry, key),
        u64::from(me * 1000 + t),
        (me + 1) % n,
    );
    shmem::field!(own.chunk(t, 1), Entry, count).store(0, t + 5);
    shmem::field!(table.at(t), Entry, count).store(t + 9);
    all.barrier(Block, shmem::world());
    out.store(t, shmem::field!(table.at(t), Entry, key).load());
}

/// Reduces two arrays on the way to the right neighbour, by every call that puts.
#[kernel(collective, for<u32>, for<F32x4>)]
pub fn forward<T: Element>(
    all: Collective,
    a: SymSlice<T>,
    b: Global<T>,
    stage: SymSlice<T>,
    inbox: SymSlice<T>,
    ready: SymSlice<SignalWord>,
) {
    let right = (shmem::my_pe() + 1) % shmem::n_pes();
    let n = a.len() / 4;
    let sum = |k: u32| {
        let (a, b) = (a.chunk(k, n), b.chunk(k, n));
        shmem::computed(stage.chunk(k, n), move |i| a.load(i) + b.load(i))
    };
    shmem::put(Block, inbox.chunk(0, n), sum(0), right);
    shmem::put_nbi(Block, inbox.chunk(1, n), sum(1), right);
    if Warp.id() == 1 {
        shmem::put(Warp, inbox.chunk(2, n), sum(2), right);
    }
    shmem::fence(Block);
    shmem::put_signal(Block, inbox.chunk(3, n), sum(3), ready.at(0).set(1), right);
    shmem::wait_until(Block, ready.at(0), eq(1));
    all.barrier(Block, shmem::world());
}

pub trait Element: Pod + KernelArg + core::ops::Add<Output = Self> {}
impl Element for u32 {}
impl Element for F32x4 {}

#[kernel(for<u16>, for<u64>, for<F32x4>)]
pub fn hinted<T: Pod + KernelArg>(x: Global<T>, y: SymSlice<T>) {
    let t = thread::index();
    y.store_hint::<Streaming>(t, x.load_hint::<Streaming>(t));
    y.store_hint::<EvictFirst>(t + 32, x.load_hint::<EvictFirst>(t + 32));
    x.store_hint::<EvictLast>(t, y.load_hint::<EvictLast>(t + 32));
}

/// Sleeps, and looks at both clocks.
#[kernel]
pub fn clocks(out: Global<u64>) {
    let (cycles, ns) = (time::clock(), time::globaltimer());
    while time::globaltimer() < ns + 20_000 {
        time::nanosleep(1000);
    }
    let results = [time::clock() - cycles, time::globaltimer() - ns];
    out.chunk(thread::index(), 2).store(0, results[0]);
    out.chunk(thread::index(), 2).store(1, results[1]);
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::suite::{Case, full_or_little, noise};
    use anyhow::ensure;
    use shmem::bytemuck;
    use shmem_host::{Pe, collective_launch};

    pub const CASES: &[Case] = &[
        Case {
            name: "register tiles",
            run: in_registers,
        },
        Case {
            name: "fields of elements",
            run: of_elements,
        },
        Case {
            name: "computed sources",
            run: computing,
        },
        Case {
            name: "cache hints",
            run: hints,
        },
        Case {
            name: "clocks and sleep",
            run: sleeping,
        },
    ];

    fn in_registers(pe: &Pe) -> anyhow::Result<()> {
        let (x, y) = (pe.alloc::<u32>(512)?, pe.buffer::<F32x4>(512)?);
        let numbers: Vec<u32> = (0..512).map(|i| noise(1, i) as u32 >> 8).collect();
        let vectors: Vec<F32x4> = (0..512).map(|i| F32x4([i as f32, 1.0, -2.0, 0.5 * i as f32])).collect();
        x.write(&numbers)?;
        y.write(&vectors)?;
        collective_launch!(pe, tiles<<<1, 64>>>(&x, &y))?;
        let got = x.to_vec()?;
        for i in 0..256 {
            // Within the run of a warp: member i % 32, element i / 32.
            let expected = numbers[i] * 2 + i as u32 % 32 + 1000 * (i as u32 % 128 / 32);
            ensure!(
                got[256 + i] == expected,
                "element {i}: {}, expected {expected}",
                got[256 + i]
            );
        }
        ensure!(y.to_vec()?.into_iter().zip(vectors).all(|(got, v)| got == v + v));
        Ok(())
    }

    fn of_elements(pe: &Pe) -> anyhow::Result<()> {
        let (table, own, out) = (pe.alloc::<Entry>(32)?, pe.buffer::<Entry>(32)?, pe.buffer::<u64>(32)?);
        let blank = Entry {
            key: 1,
            name: *b"twelve bytes",
            count: 3,
        };
        table.write(&[blank; 32])?;
        own.write(&[blank; 32])?;
        pe.barrier_all()?;
        collective_launch!(pe, fields<<<1, 32>>>(&table, &own, &out))?;
        let left = (pe.id() + pe.n() - 1) % pe.n();
        let (out, table, own) = (out.to_vec()?, table.to_vec()?, own.to_vec()?);
        for t in 0..32 {
            let key = u64::from(left * 1000 + t);
            let (i, entry, mine) = (t as usize, table[t as usize], own[t as usize]);
            ensure!(out[i] == key && entry.key == key, "entry {t}: key {}", entry.key);
            ensure!(
                entry.count == t + 9 && mine.count == t + 5 && mine.key == 1,
                "entry {t}"
            );
            ensure!(
                &entry.name == b"twelve bytes" && &mine.name == b"twelve bytes",
                "entry {t}"
            );
        }
        Ok(())
    }

    fn computing(pe: &Pe) -> anyhow::Result<()> {
        for &n in full_or_little(&[4usize, 400, 5000][..], &[4, 400]) {
            computed_of(pe, n, |x| x as u32)?;
            computed_of(pe, n, |x| F32x4([x as f32, 1.0, 2.0, -3.0]))?;
        }
        Ok(())
    }

    fn computed_of<T: Element>(pe: &Pe, n: usize, number: impl Fn(u64) -> T) -> anyhow::Result<()>
    where
        forward<T>: shmem::Kernel<Args = (SymSlice<T>, Global<T>, SymSlice<T>, SymSlice<T>, SymSlice<SignalWord>)>,
    {
        let (a, b, stage, inbox) = (
            pe.alloc::<T>(n)?,
            pe.buffer::<T>(n)?,
            pe.alloc::<T>(n)?,
            pe.alloc::<T>(n)?,
        );
        let ready = pe.signals(1)?;
        let value = |pe: u32, which: u64, i: usize| number(noise(u64::from(pe) * 2 + which, i as u64) >> 45);
        let fill = |which| (0..n).map(|i| value(pe.id(), which, i)).collect::<Vec<T>>();
        a.write(&fill(0))?;
        b.write(&fill(1))?;
        pe.barrier_all()?;
        collective_launch!(pe, forward::<T><<<1, 64>>>(&a, &b, &stage, &inbox, &ready))?;
        let left = (pe.id() + pe.n() - 1) % pe.n();
        for (i, got) in inbox.to_vec()?.iter().enumerate() {
            let expected = value(left, 0, i) + value(left, 1, i);
            ensure!(
                bytemuck::bytes_of(got) == bytemuck::bytes_of(&expected),
                "element {i} of {n}, {} bytes each",
                size_of::<T>()
            );
        }
        Ok(())
    }

    fn hints(pe: &Pe) -> anyhow::Result<()> {
        hints_of(pe, |i| i as u16)?;
        hints_of(pe, |i| u64::from(i) << 40)?;
        hints_of(pe, |i| F32x4([i as f32, 0.0, 1.0, 2.0]))
    }

    fn hints_of<T: Pod + KernelArg>(pe: &Pe, number: impl Fn(u32) -> T) -> anyhow::Result<()>
    where
        hinted<T>: shmem::Kernel<Args = (Global<T>, SymSlice<T>)>,
    {
        let (x, y) = (pe.buffer::<T>(64)?, pe.alloc::<T>(64)?);
        let numbers: Vec<T> = (0..64).map(number).collect();
        x.write(&numbers)?;
        collective_launch!(pe, hinted::<T><<<1, 32>>>(&x, &y))?;
        let bytes = |v: &[T]| bytemuck::cast_slice::<T, u8>(v).to_vec();
        ensure!(bytes(&y.to_vec()?) == bytes(&numbers));
        let upper = [&numbers[32..], &numbers[32..]].concat();
        ensure!(bytes(&x.to_vec()?) == bytes(&upper));
        Ok(())
    }

    fn sleeping(pe: &Pe) -> anyhow::Result<()> {
        let out = pe.buffer::<u64>(128)?;
        collective_launch!(pe, clocks<<<1, 64>>>(&out))?;
        for both in out.to_vec()?.chunks(2) {
            // At least half a GHz; and nobody sleeps for a second.
            ensure!(
                both[0] > 10_000 && (20_000..1_000_000_000).contains(&both[1]),
                "{} cycles, {} ns",
                both[0],
                both[1]
            );
        }
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
