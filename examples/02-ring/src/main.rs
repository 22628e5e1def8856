//! `cargo xtask run ring`: 100 launches with random data, checked on the host.
use anyhow::ensure;
use ring::ring;
use shmem_host::{World, collective_launch};

const LAUNCHES: u64 = 100;
const ROUNDS: u64 = 3;
const BLOCKS: u32 = 4;

fn main() -> anyhow::Result<()> {
    World::from_env()?.run(|pe| {
        // An odd number of elements per block: heads and tails that are not 16-byte aligned are part of the check.
        let len = BLOCKS as usize * 1003;
        let data = pe.alloc::<u32>(len)?;
        let ready = pe.signals(BLOCKS as usize)?;
        for launch in 0..LAUNCHES {
            let start: Vec<u32> = random(launch).take(len).collect();
            data.write(&start)?;
            pe.barrier_all()?;
            collective_launch!(pe, ring<<<BLOCKS, 128>>>(&data, &ready, ROUNDS, launch * ROUNDS))?;
            pe.barrier_all()?;
            let end = data.to_vec()?;
            // The last round leaves PE p with what passed it: p + 1 additions, after full turns in the rounds before. A
            // lone PE keeps what it sent itself.
            let passed = (ROUNDS - 1) * u64::from(pe.n()) + u64::from(pe.id()) + 1;
            let grown = if pe.id() == 0 {
                ROUNDS * u64::from(pe.n())
            } else {
                passed
            };
            for (i, (&s, &e)) in start.iter().zip(&end).enumerate() {
                let expected = s.wrapping_add(grown as u32);
                ensure!(
                    e == expected,
                    "launch {launch}: element {i} is {e:#x}, expected {expected:#x}"
                );
            }
        }
        println!(
            "PE {}/{} ring verified: {LAUNCHES} launches of {ROUNDS} rounds, {len} elements",
            pe.id(),
            pe.n()
        );
        Ok(())
    })
}

/// The same numbers on every PE.
fn random(seed: u64) -> impl Iterator<Item = u32> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 32) as u32
    })
}
