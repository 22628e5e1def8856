//! fence and quiet: the message-passing forms that ORDERING promises.
use shmem::prelude::*;

/// Every thread puts one word by p; then a fence (even rounds) or a quiet (odd rounds), and the leader's signal.
#[kernel(collective)]
pub fn pass_messages(
    all: Collective,
    data: SymSlice<u64>,
    there: SymSlice<SignalWord>,
    back: SymSlice<SignalWord>,
    count: u64,
    wrong: Global<u64>,
) {
    let (me, n, t) = (shmem::my_pe(), shmem::n_pes(), thread::index());
    let (right, left) = ((me + 1) % n, (me + n - 1) % n);
    for round in 1..=count {
        shmem::p(data.at(t), round << 16 | u64::from(t), right);
        if round % 2 == 0 {
            shmem::fence(Block);
        } else {
            shmem::quiet(Block);
        }
        if Block.leader() {
            shmem::signal_op(there.at(0).set(round), right);
        }
        shmem::wait_until(Block, there.at(0), eq(round));
        // Another thread's word than one's own.
        let other = (t + 33) % thread::block_size();
        if data.load(other) != round << 16 | u64::from(other) {
            wrong.store(0, round);
        }
        Block.sync();
        if Block.leader() {
            shmem::signal_op(back.at(0).set(round), left);
        }
        shmem::wait_until(Block, back.at(0), eq(round));
    }
    all.barrier(Block, shmem::world());
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::suite::{Case, full_or_little};
    use anyhow::ensure;
    use shmem_host::{Pe, collective_launch};

    pub const CASES: &[Case] = &[Case {
        name: "message passing by fence and by quiet",
        run: messages,
    }];

    fn messages(pe: &Pe) -> anyhow::Result<()> {
        let data = pe.alloc::<u64>(128)?;
        let (there, back, wrong) = (pe.signals(1)?, pe.signals(1)?, pe.buffer::<u64>(1)?);
        wrong.write(&[0])?;
        collective_launch!(pe, pass_messages<<<1, 128>>>(&data, &there, &back, full_or_little(30, 4), &wrong))?;
        let wrong = wrong.read(0)?;
        ensure!(wrong == 0, "stale data in round {wrong}");
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
