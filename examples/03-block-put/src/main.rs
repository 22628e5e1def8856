//! `cargo xtask run block-put`: 100 rounds with random data, checked on the host.
use anyhow::ensure;
use block_put::{put_by_blocks, put_staged};
use shmem_host::{World, collective_launch};

const ROUNDS: u32 = 100;

fn main() -> anyhow::Result<()> {
    let len: usize = std::env::args().nth(1).map_or(Ok(20_011), |n| n.parse())?;
    World::from_env()?.run(|pe| {
        let (src, dst) = (pe.alloc::<u32>(len)?, pe.alloc::<u32>(len)?);
        let left = (pe.id() + pe.n() - 1) % pe.n();
        for round in 0..ROUNDS {
            let staged = round % 2 == 1;
            src.write(&(0..len as u32).map(|i| element(pe.id(), round, i)).collect::<Vec<_>>())?;
            dst.write(&vec![!0; len])?;
            pe.barrier_all()?;
            if staged {
                collective_launch!(pe, put_staged<<<4, 256>>>(&dst, &src, round))?;
            } else {
                collective_launch!(pe, put_by_blocks<<<4, 256>>>(&dst, &src))?;
            }
            pe.stream().barrier_all()?;
            for (i, got) in dst.to_vec()?.into_iter().enumerate() {
                let key = if staged { round } else { 0 };
                let expected = element(left, round, i as u32) ^ key;
                ensure!(
                    got == expected,
                    "round {round}: element {i} is {got:#x}, expected {expected:#x}"
                );
            }
            // Nobody starts the next round before everyone has read.
            pe.barrier_all()?;
        }
        println!(
            "PE {}/{} block-put verified: {ROUNDS} rounds of {len} elements",
            pe.id(),
            pe.n()
        );
        Ok(())
    })
}

/// A number that depends on all three and looks random.
fn element(pe: u32, round: u32, i: u32) -> u32 {
    let x = (i ^ (pe << 24) ^ (round << 16)).wrapping_mul(0x9e37_79b9);
    (x ^ (x >> 15)).wrapping_mul(0x85eb_ca6b)
}
