//! Teams: indices, translation, `(team, index)` as the target of every call, barriers of several teams at once.
use shmem::prelude::*;

/// Every call that takes a target goes to the right by `(team, index)`.
#[kernel(collective)]
pub fn by_index(
    all: Collective,
    dst: SymSlice<u64>,
    src: SymSlice<u64>,
    ready: SymSlice<SignalWord>,
    count: SymSlice<CounterWord>,
    got: Global<u64>,
) {
    let team = shmem::node();
    let (me, n) = (team.my_pe(), team.n_pes());
    let right = team.pe((me + 1) % n);
    for i in Block.strided(128) {
        src.store(i, u64::from(me) * 1000 + u64::from(i));
    }
    Block.sync();
    if Block.leader() {
        shmem::p(dst.at(0), u64::from(me) + 7, right);
        shmem::signal_op(count.at(0).add(u64::from(me) + 1), right);
    }
    shmem::put(Warp, dst.slice(1..33), src.slice(1..33), right);
    shmem::put_nbi(Block, dst.slice(33..64), src.slice(33..64), (team, (me + 1) % n));
    shmem::quiet(Block);
    shmem::put_signal(Block, dst.slice(64..128), src.slice(64..128), ready.at(0).set(1), right);
    shmem::wait_until(Block, ready.at(0), eq(1));
    shmem::wait_until(Block, count.at(0), ge(1));
    all.barrier(Block, team);
    for i in Block.strided(128) {
        got.store(i, dst.load(i));
    }
    if Block.leader() {
        got.store(128, shmem::g(src.at(5), right));
    }
    // Nobody leaves before the g of its left neighbour.
    all.sync(Block, team.slot(7));
}

/// What the teams say of themselves.
#[kernel]
pub fn numbers(out: Global<u32>) {
    let (world, node) = (shmem::world(), shmem::node());
    let none = u32::MAX;
    let results = [
        world.my_pe(),
        world.n_pes(),
        node.n_pes(),
        node.translate(node.my_pe()),
        node.translate_to(0, world).unwrap_or(none),
        world.translate_to(node.translate(0), node).unwrap_or(none),
        world.translate_to(world.n_pes(), node).unwrap_or(none),
    ];
    let mut i = 0;
    while i < results.len() {
        out.store(i, results[i]);
        i += 1;
    }
}

/// One warp is in barriers of the world, another in those of the node, on the same slot numbers.
#[kernel(collective)]
pub fn two_teams(all: Collective, cells: SymSlice<u32>, wrong: Global<u32>) {
    let (w, team) = (Warp.id(), if Warp.id() == 0 { shmem::world() } else { shmem::node() });
    let (me, n) = (team.my_pe(), team.n_pes());
    // Teams may be of different size.
    let row = cells.chunk(w, shmem::n_pes());
    for round in 1..=20 {
        for i in Warp.strided(n) {
            shmem::p(row.at(me), round, (team, i));
        }
        all.barrier(Warp, team.slot(round % 3));
        for i in Warp.strided(n) {
            if row.load(i) < round {
                wrong.store(0, round);
            }
        }
        all.sync(Warp, team.slot(3));
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
            name: "teams: (team, index) as a target",
            run: targets,
        },
        Case {
            name: "teams: indices and translation",
            run: translation,
        },
        Case {
            name: "barriers of two teams at once",
            run: barriers,
        },
    ];

    fn targets(pe: &Pe) -> anyhow::Result<()> {
        let (dst, src) = (pe.alloc::<u64>(128)?, pe.alloc::<u64>(128)?);
        let (ready, count, got) = (pe.signals(1)?, pe.counters(1)?, pe.buffer::<u64>(129)?);
        collective_launch!(pe, by_index<<<1, 96>>>(&dst, &src, &ready, &count, &got))?;
        let (me, n) = (u64::from(pe.node().my_pe()), u64::from(pe.node().n_pes()));
        let (left, right) = ((me + n - 1) % n, (me + 1) % n);
        for (i, got) in (0..).zip(got.to_vec()?) {
            let expected = match i {
                0 => left + 7,
                128 => right * 1000 + 5,
                _ => left * 1000 + i,
            };
            ensure!(got == expected, "element {i}: {got}, expected {expected}");
        }
        ensure!(count.read(0)?.value() == left + 1);
        Ok(())
    }

    fn translation(pe: &Pe) -> anyhow::Result<()> {
        let out = pe.buffer::<u32>(7)?;
        collective_launch!(pe, numbers<<<1, 1>>>(&out))?;
        let (me, n, node) = (pe.id(), pe.n(), pe.node());
        let expected = [
            me,
            n,
            node.n_pes(),
            me,
            node.translate(0).unwrap_or(u32::MAX),
            0,
            u32::MAX,
        ];
        ensure!(out.to_vec()? == expected, "{:?}, expected {expected:?}", out.to_vec()?);
        Ok(())
    }

    fn barriers(pe: &Pe) -> anyhow::Result<()> {
        let (cells, wrong) = (pe.alloc::<u32>(2 * pe.n() as usize)?, pe.buffer::<u32>(1)?);
        collective_launch!(pe, two_teams<<<1, 64>>>(&cells, &wrong))?;
        ensure!(wrong.read(0)? == 0, "round {}", wrong.read(0)?);
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
