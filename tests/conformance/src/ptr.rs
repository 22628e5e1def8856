//! Pointers to a peer's memory: loads, stores and atomics through them.
use crate::scalar::{Element, Wide};
use shmem::prelude::*;

/// Thread t of every PE stores to element `me * block + t` of every PE through a pointer, and loads it back.
#[kernel(collective, for<u8>, for<u16>, for<u32>, for<f64>, for<Wide>)]
pub fn store_then_load<T: Element>(all: Collective, data: SymSlice<T>, wrong: Global<u32>) {
    let (me, n, t) = (shmem::my_pe(), shmem::n_pes(), thread::index());
    let mine = data.chunk(me, thread::block_size()).at(t);
    for pe in 0..n {
        match shmem::ptr(mine, pe) {
            Some(x) => x.store(T::from_number(me * 7 + t * 3 + pe)),
            None => wrong.store(0, 1 + pe),
        }
    }
    all.barrier(Block, shmem::world());
    for pe in 0..n {
        let expected = T::from_number(me * 7 + t * 3 + pe).number();
        if shmem::ptr(mine, pe).is_none_or(|x| x.load().number() != expected) {
            wrong.store(1, 1 + pe);
        }
        let got = data.chunk(pe, thread::block_size()).load(t);
        if got.number() != T::from_number(pe * 7 + t * 3 + me).number() {
            wrong.store(2, 1 + pe);
        }
    }
}

/// Every thread of every PE adds and takes the largest number through pointers; then waits for its peer's word through one.
#[kernel(collective)]
pub fn atomics(all: Collective, x: SymSlice<u64>, seen: Global<u64>) {
    let (me, n, t) = (shmem::my_pe(), shmem::n_pes(), thread::index());
    for pe in 0..n {
        let Some((sum, largest)) = shmem::ptr(x.at(0), pe).zip(shmem::ptr(x.at(1), pe)) else {
            return;
        };
        sum.word().add_release(1);
        let (largest, mine) = (largest.word(), u64::from(me * thread::block_size() + t));
        let mut old = largest.load();
        while old < mine {
            let now = largest.compare_swap_acqrel(old, mine);
            if now == old {
                break;
            }
            old = now;
        }
    }
    let Some(right) = shmem::ptr(x.at(0), (me + 1) % n) else {
        return;
    };
    let total = u64::from(n * thread::block_size());
    seen.store(t, shmem::wait_until(Block, right.word(), ge(total)));
    all.barrier(Block, shmem::world());
}

/// Whether there is a pointer to each PE.
#[kernel]
pub fn found_by(data: SymSlice<u32>, found: Global<u32>) {
    for pe in Block.strided(shmem::n_pes()) {
        found.store(pe, u32::from(shmem::ptr(data.at(0), pe).is_some()));
    }
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::suite::Case;
    use anyhow::ensure;
    use shmem_host::{Pe, collective_launch, launch};

    pub const CASES: &[Case] = &[
        Case {
            name: "ptr: store and load of every element size",
            run: every_size,
        },
        Case {
            name: "ptr: atomics and a wait",
            run: atomic,
        },
        Case {
            name: "ptr: only where load and store reaches",
            run: only_where_it_reaches,
        },
    ];

    fn every_size(pe: &Pe) -> anyhow::Result<()> {
        macro_rules! each { ($($t:ty)*) => { $(
            let (data, wrong) = (pe.alloc::<$t>(64 * pe.n() as usize)?, pe.buffer::<u32>(3)?);
            collective_launch!(pe, store_then_load::<$t><<<1, 64>>>(&data, &wrong))?;
            let wrong = wrong.to_vec()?;
            ensure!(wrong == [0; 3], "{}: no pointer, wrong there, wrong here (PE + 1): {wrong:?}", stringify!($t));
        )* } }
        each!(u8 u16 u32 f64 Wide);
        Ok(())
    }

    fn only_where_it_reaches(pe: &Pe) -> anyhow::Result<()> {
        let (found, node) = (reached(pe)?, pe.node());
        for other in (0..pe.n()).filter(|&other| other != pe.id()) {
            let near = node.members().contains(&other);
            ensure!(
                found[other as usize] == near,
                "PE {other}, of the node {node:?}: {found:?}"
            );
        }
        Ok(())
    }

    /// Which PEs this one reaches by load and store: where adapters carry everything, not even itself.
    pub(crate) fn reached(pe: &Pe) -> anyhow::Result<Vec<bool>> {
        let (data, found) = (pe.alloc::<u32>(1)?, pe.buffer::<u32>(pe.n() as usize)?);
        launch!(pe, found_by<<<1, 32>>>(&data, &found))?;
        Ok(found.to_vec()?.into_iter().map(|found| found == 1).collect())
    }

    fn atomic(pe: &Pe) -> anyhow::Result<()> {
        let (x, seen) = (pe.alloc::<u64>(2)?, pe.buffer::<u64>(96)?);
        collective_launch!(pe, atomics<<<1, 96>>>(&x, &seen))?;
        let total = u64::from(pe.n()) * 96;
        let (x, seen) = (x.to_vec()?, seen.to_vec()?);
        ensure!(x == [total, total - 1], "{x:?} of {total}");
        ensure!(seen == [total; 96], "expected {total} in every thread: {seen:?}");
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) use host::reached;
