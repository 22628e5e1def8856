//! Data and the word that tells of it: what comes first at the target.

use crate::{Case, Expected::Kind};
use shmem::prelude::*;
use shmem::{GridShared, relaxed};
use shmem_sim::BugKind::{MissingFence, RelaxedSignal, RelaxedWait, WrongContext};
use shmem_sim::{Sim, contexts, counters, signals, symmetric};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "signal overtakes put",
        about: "Halo exchange: put of a row, then signal_op, with no fence between.",
        seen: "https://github.com/NVIDIA/nvshmem/pull/36",
        expected: Kind(MissingFence),
        host: None,
        world: || Sim::new(2).block(64),
        kernel: |fixed| {
            let (halo, ready) = (symmetric::<u32>(64), signals(1).at(0));
            let row = symmetric::<u32>(64);
            let peer = 1 - shmem::my_pe();
            row.store(thread::index(), 7);
            Block.sync();
            if fixed {
                shmem::put_signal(Block, halo, row, ready.set(1), peer);
            } else {
                shmem::put(Block, halo, row, peer);
                if Block.leader() {
                    shmem::signal_op(ready.set(1), peer);
                }
            }
            shmem::wait_until(Block, ready, eq(1));
            halo.load(63 - thread::index());
        },
    },
    Case {
        name: "put_signal covers only itself",
        about: "A message of two puts: the signal goes with the second, and tells nothing of the first.",
        seen: "https://github.com/openshmem-org/specification/issues/206",
        expected: Kind(MissingFence),
        host: None,
        world: || Sim::new(2).block(32),
        kernel: |fixed| {
            let (header, body) = (symmetric::<u64>(2), symmetric::<u32>(128));
            let ready = signals(1).at(0);
            if shmem::my_pe() == 0 {
                shmem::put(Block, header, symmetric::<u64>(2), 1);
                if fixed {
                    shmem::fence(Block);
                }
                shmem::put_signal(Block, body, symmetric::<u32>(128), ready.set(1), 1);
            } else {
                shmem::wait_until(Block, ready, eq(1));
                header.load(0);
            }
        },
    },
    Case {
        name: "fence of one thread",
        about: "Every thread puts its element; the leader fences and signals for all of them without a sync.",
        seen: "https://github.com/microsoft/mscclpp/issues/517",
        expected: Kind(MissingFence),
        host: None,
        world: || Sim::new(2).block(64),
        kernel: |fixed| {
            let (data, ready) = (symmetric::<u32>(64), signals(1).at(0));
            if shmem::my_pe() == 0 {
                shmem::p(data.at(thread::index()), 7, 1);
                if fixed {
                    shmem::fence(Block);
                }
                if Block.leader() {
                    shmem::fence(Thread);
                    shmem::signal_op(ready.set(1), 1);
                }
            } else {
                shmem::wait_until(Block, ready, eq(1));
                data.load(thread::index());
            }
        },
    },
    Case {
        name: "flag by p",
        about: "A ready flag is a word like any other: the p that sets it overtakes the put.",
        seen: "",
        expected: Kind(MissingFence),
        host: None,
        world: || Sim::new(2).block(32),
        kernel: |fixed| {
            let (data, flag) = (symmetric::<f32>(256), symmetric::<u32>(1).at(0));
            if shmem::my_pe() == 0 {
                shmem::put(Block, data, symmetric::<f32>(256), 1);
                if fixed {
                    shmem::fence(Block);
                }
                if Block.leader() {
                    shmem::p(flag, 1, 1);
                }
            } else {
                shmem::wait_until(Block, flag, eq(1));
                data.load(8 * thread::index());
            }
        },
    },
    Case {
        name: "expert counts tokens",
        about: "MoE dispatch: tokens by put_nbi, and a counter at the expert that may be there before them.",
        seen: "https://github.com/deepseek-ai/DeepEP/issues/166",
        expected: Kind(MissingFence),
        host: None,
        world: || Sim::new(3).block(64),
        kernel: |fixed| {
            let (inbox, tokens) = (symmetric::<u32>(6 * 16), symmetric::<u32>(2 * 16));
            let arrived = counters(1).at(0);
            let me = shmem::my_pe();
            if me > 0 {
                let slot = 2 * (me - 1) + Warp.id();
                shmem::put_nbi(Warp, inbox.chunk(slot, 16), tokens.chunk(Warp.id(), 16), 0);
                if fixed {
                    shmem::fence(Warp);
                }
                if Warp.leader() {
                    shmem::signal_op(arrived.add(1), 0);
                }
            } else {
                shmem::wait_until(Block, arrived, ge(4));
                inbox.load(thread::index());
            }
        },
    },
    Case {
        name: "relaxed wait",
        about: "All-reduce by reading the peers' data: the flag is polled without acquiring.",
        seen: "https://github.com/vllm-project/vllm/issues/8404",
        expected: Kind(RelaxedWait),
        host: None,
        world: || Sim::new(2).block(32),
        kernel: |fixed| {
            let (data, ready) = (symmetric::<u32>(32), signals(1).at(0));
            let peer = 1 - shmem::my_pe();
            data.store(thread::index(), 7);
            Block.sync();
            if Block.leader() {
                shmem::signal_op(ready.set(1), peer);
            }
            if fixed {
                shmem::wait_until(Block, ready, eq(1));
            } else {
                relaxed::wait_until(Block, ready, eq(1));
            }
            shmem::g(data.at(thread::index()), peer);
        },
    },
    Case {
        name: "relaxed signal",
        about: "Data for the peers to read is stored, and told of by a signal that does not release.",
        seen: "https://github.com/ROCm/rccl/pull/1932",
        expected: Kind(RelaxedSignal),
        host: None,
        world: || Sim::new(2).block(32),
        kernel: |fixed| {
            let (data, ready) = (symmetric::<u32>(32), signals(1).at(0));
            let peer = 1 - shmem::my_pe();
            data.store(thread::index(), 7);
            Block.sync();
            if Block.leader() {
                if fixed {
                    shmem::signal_op(ready.set(1), peer);
                } else {
                    relaxed::signal_op(ready.set(1), peer);
                }
            }
            shmem::wait_until(Block, ready, eq(1));
            shmem::g(data.at(thread::index()), peer);
        },
    },
    Case {
        name: "flag through a peer pointer",
        about: "Data and flag are stored through the peer's mapped address; the store of the flag releases nothing.",
        seen: "https://github.com/NVIDIA/nccl/issues/765",
        expected: Kind(RelaxedSignal),
        host: None,
        world: || Sim::new(2),
        kernel: |fixed| {
            let (data, flag) = (symmetric::<u32>(1).at(0), symmetric::<u32>(1).at(0));
            let peer = 1 - shmem::my_pe();
            let (Some(there), Some(told)) = (shmem::ptr(data, peer), shmem::ptr(flag, peer)) else {
                return;
            };
            there.store(7);
            if fixed {
                told.word().store_release(1);
            } else {
                told.store(1);
            }
            shmem::wait_until(Thread, flag, eq(1));
            data.load();
        },
    },
    Case {
        name: "fence of another context",
        about: "Bulk data goes in a context of its own; the fence before the signal is of the default one.",
        seen: "https://github.com/openshmem-org/specification/pull/63",
        expected: Kind(WrongContext),
        host: None,
        world: || Sim::new(2).block(32),
        kernel: |fixed| {
            let (data, ready) = (symmetric::<u32>(64), signals(1).at(0));
            let bulk = contexts::<GridShared>(1).get(0);
            if shmem::my_pe() == 0 {
                shmem::put(Block, data, symmetric::<u32>(64), bulk.to(1));
                if fixed {
                    bulk.quiet(Block);
                } else {
                    shmem::fence(Block);
                }
                if Block.leader() {
                    shmem::signal_op(ready.set(1), 1);
                }
            } else {
                shmem::wait_until(Block, ready, eq(1));
                data.load(thread::index());
            }
        },
    },
    Case {
        name: "hash entry shown too early",
        about: "Insert into a table at another PE: the key is claimed by compare_swap, and shown before its value is there.",
        seen: "",
        expected: Kind(MissingFence),
        host: None,
        world: || Sim::new(2),
        kernel: |fixed| {
            let (key, value) = (symmetric::<u64>(1).at(0), symmetric::<u64>(1).at(0));
            let claimed = u64::MAX;
            if shmem::my_pe() == 0 {
                if shmem::compare_swap(key, 0, claimed, 1) == 0 {
                    shmem::p(value, 100, 1);
                    if fixed {
                        shmem::fence(Thread);
                    }
                    shmem::set(key, 42, 1);
                }
            } else {
                shmem::wait_until(Thread, key, eq(42));
                value.load();
            }
        },
    },
];
