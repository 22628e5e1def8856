//! Shared memory: arrays of the block, apart from each other and from other blocks; dynamic shared memory.
use shmem::prelude::*;

const ROWS: usize = 4;

fn other_array() -> Shared<u64> {
    shared!(words: [u64; 16 * ROWS]);
    words
}

/// Each block reverses its numbers through two arrays and the dynamic part.
#[kernel]
pub fn reverse(out: Global<u32>) {
    let (t, size) = (thread::index(), thread::block_size());
    shared!(numbers: [u32; 64]);
    let words = other_array();
    let dynamic = shmem::shared::dynamic::<u16>();
    numbers.store(t, Block.id() * 1000 + t);
    words.store(t, !0);
    dynamic.store(t, t as u16 + 7);
    Block.sync();
    let back = size - 1 - t;
    let sum = numbers.load(back) + u32::from(dynamic.load(back)) + u32::from(words.load(back) != !0);
    out.chunk(Block.id(), size).store(t, sum);
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::suite::Case;
    use anyhow::ensure;
    use shmem_host::{Pe, collective_launch};

    pub const CASES: &[Case] = &[Case {
        name: "shared arrays, static and dynamic",
        run: reversing,
    }];

    fn reversing(pe: &Pe) -> anyhow::Result<()> {
        let out = pe.buffer::<u32>(6 * 64)?;
        collective_launch!(pe, reverse<<<6, 64, 256>>>(&out))?;
        for (i, got) in out.to_vec()?.into_iter().enumerate() {
            let (block, back) = (i as u32 / 64, 63 - i as u32 % 64);
            ensure!(
                got == block * 1000 + back + back + 7,
                "block {block}, element {i}: {got}"
            );
        }
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
