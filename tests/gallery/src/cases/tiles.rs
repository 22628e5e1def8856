//! Threads of one block: what all of them must call, and when they must meet.

use crate::{Case, Expected::Deadlock, Expected::Kind};
use shmem::prelude::*;
use shmem_sim::BugKind::{DivergentCall, MissingSync, Uninitialised};
use shmem_sim::{Sim, collective, global, symmetric};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "tile call in a branch",
        about: "A put of the whole block in a branch that half of its warps take; the others are at another call.",
        seen: "https://github.com/tile-ai/tilelang/issues/1026",
        expected: Kind(DivergentCall),
        host: None,
        world: || Sim::new(2).block(64),
        kernel: |fixed| {
            let (data, from) = (symmetric::<u32>(64), symmetric::<u32>(64));
            let to = 1 - shmem::my_pe();
            if fixed || Warp.id() == 0 {
                shmem::put(Block, data, from, to);
            } else {
                Block.sync();
            }
        },
    },
    Case {
        name: "barrier in a branch",
        about: "Threads beyond the end of the data skip the branch with the block's sync in it, and go on to the next call.",
        seen: "https://github.com/NVIDIA/cuCollections/pull/522",
        expected: Kind(DivergentCall),
        host: None,
        world: || Sim::new(1).block(64),
        kernel: |fixed| {
            let data = global::<u32>(40);
            let inside = thread::index() < 40;
            if inside {
                data.store(thread::index(), 1);
            }
            if fixed || inside {
                Block.sync();
            }
            shmem::fence(Block);
        },
    },
    Case {
        name: "grid barrier that a block leaves out",
        about: "A block that has no work returns before the grid's sync.",
        seen: "",
        expected: Deadlock,
        host: None,
        world: || Sim::new(1).grid(3).block(32),
        kernel: |fixed| {
            let blocks_with_work = if fixed { 3 } else { 2 };
            if Block.id() < blocks_with_work {
                collective().grid().sync();
            }
        },
    },
    Case {
        name: "one sync in a loop of two phases",
        about: "Partial results go through shared memory in a loop; the next round writes before the last one is read.",
        seen: "https://github.com/yelhousni/zprize-GPU-MSM-harness/pull/1",
        expected: Kind(MissingSync),
        host: None,
        world: || Sim::new(1).block(64),
        kernel: |fixed| {
            shared!(values: [u32; 64]);
            for round in 0..3 {
                values.store(thread::index(), round);
                Block.sync();
                values.load(63 - thread::index());
                if fixed {
                    Block.sync();
                }
            }
        },
    },
    Case {
        name: "shared memory that nobody has set",
        about: "A histogram in shared memory is counted up from whatever was there.",
        seen: "",
        expected: Kind(Uninitialised),
        host: None,
        world: || Sim::new(1).block(32),
        kernel: |fixed| {
            shared!(bins: [u32; 32]);
            let mine = thread::index();
            if fixed {
                bins.store(mine, 0);
            }
            bins.store(mine, bins.load(mine) + 1);
        },
    },
];
