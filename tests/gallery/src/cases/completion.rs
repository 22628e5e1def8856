//! What is done, and when: quiet, flush, barrier.

use crate::{Case, Expected::Kind};
use shmem::prelude::*;
use shmem::{BlockShared, GridShared};
use shmem_sim::BugKind::{GetNotComplete, MissingQuiet, MissingSync, SourceReused, Unordered, WrongContext};
use shmem_sim::{Sim, collective, contexts, global, symmetric};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "sync used as barrier",
        about: "Ring shift: p to the right neighbour, then sync, which waits for the PEs but not for the data.",
        seen: "https://github.com/Sandia-OpenSHMEM/SOS/pull/115",
        expected: Kind(MissingQuiet),
        host: None,
        world: || Sim::new(3).block(32),
        kernel: |fixed| {
            let data = symmetric::<u32>(32);
            let right = (shmem::my_pe() + 1) % shmem::n_pes();
            shmem::p(data.at(thread::index()), 7, right);
            if fixed {
                collective().barrier(Block, shmem::world());
            } else {
                collective().sync(Block, shmem::world());
            }
            data.load(thread::index());
        },
    },
    Case {
        name: "barrier of another context",
        about: "Puts in a context of one's own are not covered by a barrier.",
        seen: "https://github.com/openshmem-org/specification/pull/63",
        expected: Kind(WrongContext),
        host: None,
        world: || Sim::new(2).block(32),
        kernel: |fixed| {
            let data = symmetric::<u32>(32);
            let ctx = contexts::<BlockShared>(1).get(0);
            shmem::put_nbi(Block, data, symmetric::<u32>(32), ctx.to(1 - shmem::my_pe()));
            if fixed {
                ctx.quiet(Block);
            }
            collective().barrier(Block, shmem::world());
            data.load(thread::index());
        },
    },
    Case {
        name: "quiet of another context",
        about: "Two contexts, one for each half of the data; only one of them is quieted before the sync.",
        seen: "https://github.com/uccl-project/uccl/pull/998",
        expected: Kind(WrongContext),
        host: None,
        world: || Sim::new(2).block(32),
        kernel: |fixed| {
            let (data, from) = (symmetric::<u32>(64), symmetric::<u32>(64));
            let queues = contexts::<GridShared>(2);
            for half in 0..2 {
                let to = queues.get(half).to(1 - shmem::my_pe());
                shmem::put_nbi(Block, data.chunk(half, 32), from.chunk(half, 32), to);
            }
            queues.get(0).quiet(Block);
            if fixed {
                queues.get(1).quiet(Block);
            }
            collective().sync(Block, shmem::world());
            data.load(2 * thread::index());
        },
    },
    Case {
        name: "put to oneself",
        about: "All-to-all: one's own part is put as well, and read at once.",
        seen: "",
        expected: Kind(MissingQuiet),
        host: None,
        world: || Sim::new(2).block(32),
        kernel: |fixed| {
            let (all, mine) = (symmetric::<u32>(64), symmetric::<u32>(32));
            let me = shmem::my_pe();
            for pe in 0..2 {
                shmem::put(Block, all.chunk(me, 32), mine, pe);
            }
            if fixed {
                shmem::quiet(Block);
            }
            all.chunk(me, 32).load(thread::index());
        },
    },
    Case {
        name: "quiet of one thread",
        about: "Each warp puts its part; the leader of the block quiets, but has not met the other warps.",
        seen: "https://github.com/ROCm/mori/pull/404",
        expected: Kind(MissingQuiet),
        host: None,
        world: || Sim::new(2).block(96),
        kernel: |fixed| {
            let (data, from) = (symmetric::<u32>(96), symmetric::<u32>(96));
            let part = Warp.id();
            shmem::put_nbi(Warp, data.chunk(part, 32), from.chunk(part, 32), 1 - shmem::my_pe());
            if fixed {
                shmem::quiet(Block);
            } else if Block.leader() {
                shmem::quiet(Thread);
            }
            collective().sync(Block, shmem::world());
            data.load(thread::index());
        },
    },
    Case {
        name: "barrier of one block",
        about: "Two blocks of a PE put; the first calls the barrier for both, and has not met the second.",
        seen: "",
        expected: Kind(MissingSync),
        host: None,
        world: || Sim::new(2).grid(2).block(32),
        kernel: |fixed| {
            let (data, from) = (symmetric::<u32>(64), symmetric::<u32>(64));
            let part = Block.id();
            shmem::put(Block, data.chunk(part, 32), from.chunk(part, 32), 1 - shmem::my_pe());
            let all = collective();
            if fixed {
                all.barrier(all.grid(), shmem::world());
            } else if part == 0 {
                all.barrier(Block, shmem::world());
            }
            if part == 0 {
                data.load(32 + thread::index());
            }
        },
    },
    Case {
        name: "staging buffer rewritten",
        about: "Chunks are packed into one staging buffer and sent by put_nbi, which may still read it.",
        seen: "https://github.com/openshmem-org/specification/issues/241",
        expected: Kind(SourceReused),
        host: None,
        world: || Sim::new(2).block(32),
        kernel: |fixed| {
            let (inbox, staging) = (symmetric::<u32>(4 * 32), symmetric::<u32>(32));
            for chunk in 0..4 {
                staging.store(thread::index(), chunk);
                Block.sync();
                shmem::put_nbi(Block, inbox.chunk(chunk, 32), staging, 1 - shmem::my_pe());
                if fixed {
                    shmem::flush(Block);
                } else {
                    Block.sync();
                }
            }
        },
    },
    Case {
        name: "shared memory of the next phase",
        about: "A tile in shared memory is sent by put_nbi, and the next phase of the kernel uses it for something else.",
        seen: "https://github.com/deepseek-ai/DeepEP/issues/657",
        expected: Kind(SourceReused),
        host: None,
        world: || Sim::new(2).block(32),
        kernel: |fixed| {
            let inbox = symmetric::<u32>(32);
            shared!(tile: [u32; 32]);
            tile.store(thread::index(), 7);
            Block.sync();
            shmem::put_nbi(Block, inbox, tile, 1 - shmem::my_pe());
            if fixed {
                shmem::flush(Block);
            }
            Block.sync();
            tile.store(thread::index(), 0);
        },
    },
    Case {
        name: "get_nbi used before quiet",
        about: "Rows of the neighbour are fetched ahead by get_nbi, and used after a sync alone.",
        seen: "https://github.com/ROCm/mori/pull/404",
        expected: Kind(GetNotComplete),
        host: None,
        world: || Sim::new(2).block(32),
        kernel: |fixed| {
            let (rows, here) = (symmetric::<f32>(64), global::<f32>(64));
            shmem::get_nbi(Block, here, rows, 1 - shmem::my_pe());
            if fixed {
                shmem::quiet(Block);
            }
            Block.sync();
            here.load(2 * thread::index());
        },
    },
    Case {
        name: "read before anybody said so",
        about: "A PE stores, a neighbour reads it with g, and nothing lies between.",
        seen: "https://github.com/Sandia-OpenSHMEM/SOS/pull/1053",
        expected: Kind(Unordered),
        host: None,
        world: || Sim::new(3).block(32),
        kernel: |fixed| {
            let data = symmetric::<u32>(32);
            data.store(thread::index(), 1 + shmem::my_pe());
            if fixed {
                collective().sync(Block, shmem::world());
            }
            shmem::g(data.at(thread::index()), (shmem::my_pe() + 1) % 3);
        },
    },
];
