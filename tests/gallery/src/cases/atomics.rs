//! Words that many change: atomics at other PEs, and between the blocks of one.

use crate::Case;
use crate::Expected::Kind;
use shmem::prelude::*;
use shmem::scope::Gpu;
use shmem_sim::BugKind::{MixedAccess, MixedDomains, RelaxedSignal, RelaxedWait, Unordered, WriteConflict};
use shmem_sim::{Path, Sim, collective, counters, global, symmetric};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "counting by g and p",
        about: "Places in a remote list are given out by reading its length and writing it back.",
        seen: "",
        expected: Kind(WriteConflict),
        host: None,
        world: || Sim::new(3),
        kernel: |fixed| {
            let length = symmetric::<u32>(1).at(0);
            if fixed {
                shmem::fetch_add(length, 1, 0);
            } else {
                let old = shmem::g(length, 0);
                shmem::p(length, old + 1, 0);
            }
            collective().barrier(Thread, shmem::world());
            if shmem::my_pe() == 0 {
                assert_eq!(length.load(), 3, "every PE has taken a place");
            }
        },
    },
    Case {
        name: "atomics and plain stores on one word",
        about: "A counter that peers add to is set back by a plain store.",
        seen: "",
        expected: Kind(MixedAccess),
        host: None,
        world: || Sim::new(2),
        kernel: |fixed| {
            let bids = symmetric::<u64>(1).at(0);
            if shmem::my_pe() == 0 {
                if fixed {
                    shmem::swap(bids, 0, 0);
                } else {
                    bids.store(0);
                }
            } else {
                shmem::fetch_add(bids, 5, 0);
            }
        },
    },
    Case {
        name: "atomics through two domains",
        about: "PE 0 and its neighbour in the node add by load and store, PE 2 through its NIC: to one word.",
        seen: "",
        expected: Kind(MixedDomains),
        host: None,
        world: || Sim::new(3).path(Path::QueuePairs).node_pes(2),
        kernel: |fixed| {
            let (word, count) = (symmetric::<u64>(1).at(0), counters(1).at(0));
            if fixed {
                shmem::signal_op(count.add(1), 0);
            } else {
                shmem::add(word, 1, 0);
            }
        },
    },
    Case {
        name: "spinning on a plain load",
        about: "A loop of one's own looks at the flag with an ordinary load.",
        seen: "https://github.com/vllm-project/vllm/issues/8404",
        expected: Kind(Unordered),
        host: None,
        world: || Sim::new(2),
        kernel: |fixed| {
            let flag = symmetric::<u32>(1).at(0);
            if shmem::my_pe() == 0 {
                shmem::p(flag, 1, 1);
            } else if fixed {
                shmem::spin_until(|| shmem::test(Thread, flag, eq(1)).is_some());
            } else {
                shmem::spin_until(|| flag.load() == 1);
            }
        },
    },
    Case {
        name: "lock without acquire",
        about: "A lock at PE 0 is taken by a relaxed compare_swap: what it protects may be read as it was before.",
        seen: "",
        expected: Kind(RelaxedWait),
        host: None,
        world: || Sim::new(3),
        kernel: |fixed| {
            let (lock, sum) = (symmetric::<u32>(1).at(0), symmetric::<u64>(1));
            shmem::spin_until(|| {
                let was = if fixed {
                    shmem::compare_swap_acqrel(lock, 0, 1, 0)
                } else {
                    shmem::compare_swap(lock, 0, 1, 0)
                };
                was == 0
            });
            let mut before = [0];
            shmem::get(Thread, &mut before, sum, 0);
            shmem::put(Thread, sum, &[before[0] + 1], 0);
            shmem::quiet(Thread);
            shmem::set_release(lock, 0, 0);
        },
    },
    Case {
        name: "last block without release",
        about: "Blocks leave partial sums and take a ticket that does not release; the last one adds them up.",
        seen: "https://github.com/NVIDIA/Fuser/pull/2391",
        expected: Kind(RelaxedSignal),
        host: None,
        world: || Sim::new(1).grid(3),
        kernel: |fixed| {
            let (partial, tickets) = (global::<f32>(3), global::<u32>(1).word::<Gpu>(0));
            partial.store(Block.id(), 0.5);
            let ticket = if fixed {
                tickets.fetch_add_acqrel(1)
            } else {
                tickets.fetch_add_acquire(1)
            };
            if ticket == 2 {
                let _: f32 = (0..3).map(|i| partial.load(i)).sum();
            }
        },
    },
    Case {
        name: "last block without acquire",
        about: "As before, but the ticket releases and does not acquire.",
        seen: "https://github.com/pytorch/pytorch/pull/193321",
        expected: Kind(RelaxedWait),
        host: None,
        world: || Sim::new(1).grid(3),
        kernel: |fixed| {
            let (partial, tickets) = (global::<f32>(3), global::<u32>(1).word::<Gpu>(0));
            partial.store(Block.id(), 0.5);
            let ticket = if fixed {
                tickets.fetch_add_acqrel(1)
            } else {
                tickets.fetch_add_release(1)
            };
            if ticket == 2 {
                let _: f32 = (0..3).map(|i| partial.load(i)).sum();
            }
        },
    },
];
