//! cp.async: elements of 4, 8 and 16 bytes, by block and by warp, several groups in flight.
use shmem::async_copy::{commit, copy_async, wait_group};
use shmem::prelude::*;
use shmem::vector::U32x4;

/// A pipeline of two stages: while one is summed, the next is on its way.
#[kernel(block = 64, for<u32>, for<u64>, for<U32x4>)]
pub fn pipeline<T: Number>(x: SymSlice<T>, y: Global<T>, sums: Global<u64>, parts: u32) {
    shared!(stage: [u128; 2 * 2 * 100]);
    let stage = stage.cast::<u8>().slice(0..400 * size_of::<T>()).cast::<T>();
    let begin = |k: u32| {
        let half = stage.chunk(k % 2, 200u32);
        copy_async(Block, half.chunk(0, 100), x.chunk(k, 100));
        copy_async(
            Warp,
            half.chunk(1, 100).chunk(Warp.id(), 50),
            y.chunk(k, 100).chunk(Warp.id(), 50),
        );
        commit();
    };
    let mut sum = 0u64;
    begin(0);
    for k in 0..parts {
        if k + 1 < parts {
            begin(k + 1);
            wait_group::<1>();
        } else {
            wait_group::<0>();
        }
        Block.sync();
        // Other members' elements than one's own.
        let half = stage.chunk(k % 2, 200u32);
        for i in Block.strided(200) {
            sum = sum.wrapping_add(half.load(199 - i).number());
        }
        Block.sync();
    }
    sums.store(thread::index(), sum);
}

pub trait Number: Pod + KernelArg {
    fn number(self) -> u64;
    fn from_number(n: u64) -> Self;
}
impl Number for u32 {
    fn number(self) -> u64 {
        self.into()
    }
    fn from_number(n: u64) -> Self {
        n as u32
    }
}
impl Number for u64 {
    fn number(self) -> u64 {
        self
    }
    fn from_number(n: u64) -> Self {
        n
    }
}
impl Number for U32x4 {
    fn number(self) -> u64 {
        let [a, b, c, d] = self.0.map(u64::from);
        a.wrapping_add(b << 32) ^ c.wrapping_add(d << 32)
    }
    fn from_number(n: u64) -> Self {
        Self([n as u32, (n >> 32) as u32, (n >> 7) as u32, (n >> 39) as u32])
    }
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::suite::{Case, noise};
    use anyhow::ensure;
    use shmem_host::{Pe, collective_launch};

    pub const CASES: &[Case] = &[Case {
        name: "asynchronous copies to shared memory",
        run: copies,
    }];

    fn copies(pe: &Pe) -> anyhow::Result<()> {
        of::<u32>(pe)?;
        of::<u64>(pe)?;
        of::<U32x4>(pe)
    }

    fn of<T: Number>(pe: &Pe) -> anyhow::Result<()>
    where
        pipeline<T>: shmem::Kernel<Args = (SymSlice<T>, Global<T>, Global<u64>, u32)>,
    {
        const PARTS: usize = 5;
        let numbers = |seed| (0..PARTS as u64 * 100).map(move |i| T::from_number(noise(seed, i)));
        let (xs, ys): (Vec<T>, Vec<T>) = (numbers(1).collect(), numbers(2).collect());
        let (x, y, sums) = (
            pe.alloc::<T>(xs.len())?,
            pe.buffer::<T>(ys.len())?,
            pe.buffer::<u64>(64)?,
        );
        x.write(&xs)?;
        y.write(&ys)?;
        collective_launch!(pe, pipeline::<T><<<1, 64>>>(&x, &y, &sums, PARTS as u32))?;
        for (t, got) in sums.to_vec()?.into_iter().enumerate() {
            let mut expected = 0u64;
            for k in 0..PARTS {
                let both = [&xs[k * 100..][..100], &ys[k * 100..][..100]].concat();
                for i in (t..200).step_by(64) {
                    expected = expected.wrapping_add(both[199 - i].number());
                }
            }
            ensure!(
                got == expected,
                "{} bytes, thread {t}: {got:#x}, expected {expected:#x}",
                size_of::<T>()
            );
        }
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
