//! `gpu_println!`: the text is for eyes, or for whoever captures standard output; the values printed must not be harmed.
use shmem::gpu_println;
use shmem::prelude::*;

/// One thread of each PE prints; in a branch, in a loop, and of a generic type.
#[kernel]
pub fn print(out: Global<u64>) {
    let (me, half, big) = (shmem::my_pe(), 0.5f32, -5_000_000_000i64);
    if thread::index() == 3 {
        gpu_println!("PE {me}: 100% {{}} {:.3} {half} {} {:>8}", half * 3.0, me == 0, me + 7);
        for i in 0..2u8 {
            gpu_println!("PE {me}: {0} {0:#x} {big} {big:x} {1:08.2}", i + 10, 1.0 / 3.0);
        }
        generic(1.5f64);
        generic(!0u64);
    }
    out.store(thread::index(), big as u64 + u64::from(me));
}

fn generic<T: shmem::print::Print + core::fmt::Display>(x: T) {
    gpu_println!("generic {x}");
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::suite::Case;
    use anyhow::ensure;
    use shmem_host::{Pe, collective_launch};

    pub const CASES: &[Case] = &[Case {
        name: "gpu_println!",
        run: printing,
    }];

    fn printing(pe: &Pe) -> anyhow::Result<()> {
        let out = pe.buffer::<u64>(32)?;
        collective_launch!(pe, print<<<1, 32>>>(&out))?;
        let expected = (-5_000_000_000i64 as u64).wrapping_add(u64::from(pe.id()));
        ensure!(out.to_vec()? == [expected; 32]);
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
