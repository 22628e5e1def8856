//! Shuffles and votes of a warp and of its parts.
use shmem::prelude::*;

#[kernel]
pub fn exchange(out: Global<u64>) {
    let (t, lane) = (thread::index(), warp::lane_id());
    let results = [
        u64::from(warp::shuffle(t * 10, 5)),
        u64::from(warp::shuffle_xor(lane, 3)),
        warp::shuffle(u64::from(t) << 40, 31),
        u64::from(warp::ballot(lane % 3 == 0)),
        u64::from(warp::any(lane == 9)) | u64::from(warp::all(lane < 32)) << 1 | u64::from(warp::any(lane == 40)) << 2,
        u64::from(SubWarp::<8>.shuffle(lane, 2)),
        u64::from(SubWarp::<4>.ballot(lane % 2 == 1)),
        SubWarp::<16>.broadcast(u64::from(lane) + 1),
        Block.broadcast(u64::from(t) + 77),
        u64::from(SubWarp::<8>.id() * 100 + SubWarp::<8>.rank()),
    ];
    let mut i = 0;
    while i < results.len() {
        out.chunk(t, results.len()).store(i, results[i]);
        i += 1;
    }
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::suite::Case;
    use anyhow::ensure;
    use shmem_host::{Pe, collective_launch};

    pub const CASES: &[Case] = &[Case {
        name: "shuffles, votes, broadcasts",
        run: exchanges,
    }];

    fn exchanges(pe: &Pe) -> anyhow::Result<()> {
        let out = pe.buffer::<u64>(96 * 10)?;
        collective_launch!(pe, exchange<<<1, 96>>>(&out))?;
        let thirds = (0..32).step_by(3).fold(0u64, |bits, i| bits | 1 << i);
        for (t, got) in out.to_vec()?.chunks(10).enumerate() {
            let (t, lane) = (t as u64, t as u64 % 32);
            let first = t - lane;
            let expected = [
                (first + 5) * 10,
                lane ^ 3,
                (first + 31) << 40,
                thirds,
                0b011,
                lane / 8 * 8 + 2,
                0b1010,
                lane / 16 * 16 + 1,
                77,
                t / 8 * 100 + t % 8,
            ];
            ensure!(got == expected, "thread {t}: {got:?}, expected {expected:?}");
        }
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
