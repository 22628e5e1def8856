//! p and g: one element of every size, to every PE, self included.
use shmem::prelude::*;

/// Thread t of every PE writes to element `me * block + t` of every PE, then reads it back from there.
#[kernel(collective, for<u8>, for<u16>, for<u32>, for<u64>, for<f64>, for<bf16>, for<Wide>)]
pub fn p_then_g<T: Element>(all: Collective, data: SymSlice<T>, wrong: Global<u32>) {
    let (me, n, t) = (shmem::my_pe(), shmem::n_pes(), thread::index());
    let mine = data.chunk(me, thread::block_size()).at(t);
    for pe in 0..n {
        shmem::p(mine, T::from_number(me * 7 + t * 3 + pe), pe);
    }
    all.barrier(Block, shmem::world());
    for pe in 0..n {
        if shmem::g(mine, pe).number() != T::from_number(me * 7 + t * 3 + pe).number() {
            wrong.store(0, 1 + pe);
        }
    }
    // Everyone's elements are here as well.
    for pe in 0..n {
        let got = data.chunk(pe, thread::block_size()).load(t);
        if got.number() != T::from_number(pe * 7 + t * 3 + me).number() {
            wrong.store(1, 1 + pe);
        }
    }
}

/// Sixteen bytes that move in one access.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[bytemuck(crate = "shmem::bytemuck")]
pub struct Wide(pub [u32; 4]);

/// An element that can be made from a number, and told.
pub trait Element: Pod {
    fn from_number(n: u32) -> Self;
    fn number(self) -> u64;
}

macro_rules! integers { ($($t:ty)*) => { $(impl Element for $t {
    fn from_number(n: u32) -> Self { n.wrapping_mul(0x9e37_79b9) as $t }
    fn number(self) -> u64 { self as u64 }
})* } }
integers!(u8 u16 u32 u64);

impl Element for f64 {
    fn from_number(n: u32) -> Self {
        f64::from(n) * 1.5
    }
    fn number(self) -> u64 {
        self.to_bits()
    }
}
impl Element for bf16 {
    fn from_number(n: u32) -> Self {
        bf16::from_bits(n as u16)
    }
    fn number(self) -> u64 {
        self.to_bits().into()
    }
}
impl Element for Wide {
    fn from_number(n: u32) -> Self {
        Wide([n, !n, n.wrapping_mul(5), 9])
    }
    fn number(self) -> u64 {
        let [a, b, c, d] = self.0.map(u64::from);
        a | b << 32 ^ (c << 16) ^ d
    }
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::suite::Case;
    use anyhow::ensure;
    use shmem_host::{Pe, collective_launch};

    pub const CASES: &[Case] = &[Case {
        name: "p and g, every element size",
        run: every_size,
    }];

    fn every_size(pe: &Pe) -> anyhow::Result<()> {
        macro_rules! each { ($($t:ty)*) => { $(
            let data = pe.alloc::<$t>(64 * pe.n() as usize)?;
            let wrong = pe.buffer::<u32>(2)?;
            wrong.write(&[0, 0])?;
            collective_launch!(pe, p_then_g::<$t><<<1, 64>>>(&data, &wrong))?;
            let wrong = wrong.to_vec()?;
            ensure!(wrong == [0, 0], "{}: g saw a wrong value from PE {}, own copy from PE {} (numbers + 1)", stringify!($t), wrong[0], wrong[1]);
        )* } }
        each!(u8 u16 u32 u64 f64 bf16 Wide);
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
