//! Barriers: of every tile, again and again, on several slots at once, in a kernel and on the stream.
use shmem::prelude::*;

/// In each round every PE writes to every PE, then a barrier by one of the tiles, then everyone checks and a barrier again.
#[kernel(collective)]
pub fn barriers(all: Collective, cells: SymSlice<u32>, rounds: u32, wrong: Global<u32>) {
    let (me, n) = (shmem::my_pe(), shmem::n_pes());
    let team = shmem::world();
    for round in 1..=rounds {
        if Block.leader() {
            for pe in 0..n {
                shmem::p(cells.at(me), round * 100 + me, pe);
            }
        }
        barrier_by(all, round, team);
        for pe in Block.strided(n) {
            if cells.load(pe) != round * 100 + pe {
                wrong.store(0, round);
            }
        }
        barrier_by(all, round + 1, team);
    }
}

#[inline(always)]
fn barrier_by(all: Collective, round: u32, team: Team) {
    Block.sync();
    match round % 3 {
        0 => all.barrier(Block, team),
        1 => {
            if thread::index() < 32 {
                all.barrier(Warp, team);
            }
        }
        _ => {
            if thread::index() == 0 {
                all.barrier(Thread, team);
            }
        }
    }
    Block.sync();
}

/// Each warp of a block is in barriers of its own slot.
#[kernel(collective)]
pub fn slots(all: Collective, cells: SymSlice<u32>, wrong: Global<u32>) {
    let (me, n, w) = (shmem::my_pe(), shmem::n_pes(), Warp.id());
    let row = cells.chunk(w, n);
    for round in 1..=10 {
        if Warp.leader() {
            for pe in 0..n {
                shmem::p(row.at(me), round, pe);
            }
        }
        all.barrier(Warp, shmem::world().slot(1 + w));
        for pe in Warp.strided(n) {
            if row.load(pe) < round {
                wrong.store(0, round);
            }
        }
        all.sync(Warp, shmem::world().slot(1 + w));
    }
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::suite::Case;
    use anyhow::ensure;
    use shmem_host::{Pe, collective_launch};

    pub const CASES: &[Case] = &[
        Case {
            name: "barrier by block, warp and thread",
            run: by_tile,
        },
        Case {
            name: "barriers on several slots at once",
            run: on_slots,
        },
        Case {
            name: "barriers on the stream",
            run: on_stream,
        },
    ];

    fn by_tile(pe: &Pe) -> anyhow::Result<()> {
        let (cells, wrong) = (pe.alloc::<u32>(pe.n() as usize)?, pe.buffer::<u32>(1)?);
        wrong.write(&[0])?;
        collective_launch!(pe, barriers<<<1, 64>>>(&cells, 12, &wrong))?;
        ensure!(wrong.read(0)? == 0, "round {}", wrong.read(0)?);
        Ok(())
    }

    fn on_slots(pe: &Pe) -> anyhow::Result<()> {
        let (cells, wrong) = (pe.alloc::<u32>(4 * pe.n() as usize)?, pe.buffer::<u32>(1)?);
        wrong.write(&[0])?;
        collective_launch!(pe, slots<<<1, 128>>>(&cells, &wrong))?;
        ensure!(wrong.read(0)? == 0, "round {}", wrong.read(0)?);
        Ok(())
    }

    fn on_stream(pe: &Pe) -> anyhow::Result<()> {
        for _ in 0..20 {
            pe.stream().barrier_all()?;
        }
        Ok(pe.stream().synchronize()?)
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
