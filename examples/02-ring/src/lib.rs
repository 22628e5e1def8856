//! Data travels round a ring of PEs: each block waits for its part, changes it, and hands it on.
use shmem::prelude::*;

/// Block b passes `data.chunk(b, n)` round the ring, `rounds` times. PE 0 starts each round; every PE adds 1 to each
/// element on its way, so that after a full turn an element has grown by the number of PEs.
///
/// `data` has one chunk per block, `ready` one signal per block, both zero signals before the first launch; `epoch` is the
/// number of rounds of earlier launches.
#[kernel(max_block = 1024)]
pub fn ring(data: SymSlice<u32>, ready: SymSlice<SignalWord>, rounds: u64, epoch: u64) {
    let (me, n) = (shmem::my_pe(), shmem::n_pes());
    let right = (me + 1) % n;
    let mine = data.chunk(Block.id(), data.len() / u64::from(thread::grid_size()));
    let arrived = ready.at(Block.id());
    for round in epoch + 1..=epoch + rounds {
        // PE 0 sends first and waits for the data to come round; everyone else waits first.
        if me != 0 {
            shmem::wait_until(Block, arrived, eq(round));
        }
        for i in Block.strided(mine.len() as u32) {
            mine.store(i, mine.load(i).wrapping_add(1));
        }
        // The put reads what other threads of the block stored.
        Block.sync();
        shmem::put_signal(Block, mine, mine, arrived.set(round), right);
        if me == 0 {
            shmem::wait_until(Block, arrived, eq(round));
        }
    }
}
