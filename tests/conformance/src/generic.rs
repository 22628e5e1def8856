//! Generic kernels: instances by type and by number, arguments in a struct.
use shmem::prelude::*;

#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Scale<T: KernelArg> {
    pub by: T,
    pub plus: [T; 2],
}

/// No bytes: the entry has no parameter for it, and those behind it must not move.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Tag;

#[kernel]
pub fn after_nothing(_tag: Tag, _none: [u32; 0], x: Global<u32>, value: u32) {
    x.store(thread::index(), value);
}

pub trait Number: Pod + KernelArg + core::ops::Mul<Output = Self> + core::ops::Add<Output = Self> {}
impl Number for f32 {}
impl Number for u64 {}

/// `x[i] = x[i] * by + plus[i % 2]`, N elements per thread.
#[kernel(for<f32, 1>, for<f32, 4>, for<u64, 3>)]
pub fn scale<T: Number, const N: u32>(x: Global<T>, by: Scale<T>) {
    let t = thread::index();
    for i in t * N..(t + 1) * N {
        x.store(i, x.load(i) * by.by + by.plus[(i % 2) as usize]);
    }
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::suite::Case;
    use anyhow::ensure;
    use shmem_host::{Pe, collective_launch};

    pub const CASES: &[Case] = &[Case {
        name: "generic kernels and argument structs",
        run: instances,
    }];

    fn instances(pe: &Pe) -> anyhow::Result<()> {
        let x = pe.buffer::<f32>(128)?;
        x.write(&[2.0; 128])?;
        collective_launch!(pe, scale::<f32, 4><<<1, 32>>>(&x, Scale { by: 3.0, plus: [1.0, 2.0] }))?;
        collective_launch!(pe, scale::<_, 1><<<1, 128>>>(&x, Scale { by: 2.0, plus: [0.0, 0.0] }))?;
        let got = x.to_vec()?;
        ensure!(got.chunks(2).all(|c| c == [14.0, 16.0]), "{got:?}");
        let z = pe.buffer::<u32>(32)?;
        collective_launch!(pe, after_nothing<<<1, 32>>>(Tag, [], &z, 77))?;
        ensure!(z.to_vec()? == [77; 32], "arguments behind one without bytes");
        let y = pe.buffer::<u64>(96)?;
        y.write(&[5; 96])?;
        collective_launch!(pe, scale::<u64, 3><<<1, 32>>>(&y, Scale { by: 1 << 40, plus: [1, 2] }))?;
        let got = y.to_vec()?;
        ensure!(got.chunks(2).all(|c| c == [(5 << 40) + 1, (5 << 40) + 2]), "{got:?}");
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
