//! Indices in three dimensions.
use shmem::prelude::*;

#[kernel(block = (4, 3, 2))]
pub fn indices(out: Global<u32>) {
    let place = thread::block_index() * thread::block_size() + thread::index();
    let packed = thread::thread_idx_x()
        | thread::thread_idx_y() << 4
        | thread::thread_idx_z() << 8
        | thread::block_idx_x() << 12
        | thread::block_idx_y() << 16
        | thread::block_idx_z() << 20
        | thread::grid_size() << 24;
    out.store(place, packed);
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::suite::Case;
    use anyhow::ensure;
    use shmem_host::{Pe, collective_launch};

    pub const CASES: &[Case] = &[Case {
        name: "indices in three dimensions",
        run: in_three,
    }];

    fn in_three(pe: &Pe) -> anyhow::Result<()> {
        let out = pe.buffer::<u32>(12 * 24)?;
        collective_launch!(pe, indices<<<(2, 3, 2), (4, 3, 2)>>>(&out))?;
        for (i, got) in out.to_vec()?.into_iter().enumerate() {
            let (b, t) = (i as u32 / 24, i as u32 % 24);
            let expected =
                t % 4 | (t / 4 % 3) << 4 | (t / 12) << 8 | (b % 2) << 12 | (b / 2 % 3) << 16 | (b / 6) << 20 | 12 << 24;
            ensure!(got == expected, "place {i}: {got:#x}, expected {expected:#x}");
        }
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
