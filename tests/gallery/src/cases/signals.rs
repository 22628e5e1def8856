//! Signals and counters: who writes them, what their values say, who waits for which.

use crate::{Case, Expected::Deadlock, Expected::Kind};
use shmem::prelude::*;
use shmem_sim::BugKind::{CounterAliasing, ResetRace, SignalWriters};
use shmem_sim::{Sim, collective, counters, signals, symmetric};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "counter as identity",
        about: "Chunks of a ring reduce report to one counter; the reader takes a count of k for the first k chunks.",
        seen: "https://github.com/NVIDIA/nvshmem/issues/84",
        expected: Kind(CounterAliasing),
        host: None,
        world: || Sim::new(2).block(32),
        kernel: |fixed| {
            let (data, from) = (symmetric::<u32>(4 * 32), symmetric::<u32>(32));
            let (arrived, chunks) = (counters(1).at(0), signals(4));
            for k in 0..4u32 {
                if shmem::my_pe() == 0 {
                    if fixed {
                        shmem::put_signal(Block, data.chunk(k, 32), from, chunks.at(k).set(1), 1);
                    } else {
                        shmem::put_signal(Block, data.chunk(k, 32), from, arrived.add(1), 1);
                    }
                } else {
                    if fixed {
                        shmem::wait_until(Block, chunks.at(k), eq(1));
                    } else {
                        shmem::wait_until(Block, arrived, ge(u64::from(k) + 1));
                    }
                    data.chunk(k, 32).load(thread::index());
                }
            }
        },
    },
    Case {
        name: "two neighbours, one signal",
        about: "Halo exchange in a ring: the left and the right neighbour set the same signal.",
        seen: "",
        expected: Kind(SignalWriters),
        host: None,
        world: || Sim::new(3).block(32),
        kernel: |fixed| {
            let (halo, row) = (symmetric::<u32>(64), symmetric::<u32>(32));
            let ready = signals(2);
            let (me, n) = (shmem::my_pe(), shmem::n_pes());
            for (side, to) in [(0, (me + 1) % n), (1, (me + n - 1) % n)] {
                let signal = ready.at(if fixed { side } else { 0 });
                shmem::put_signal(Block, halo.chunk(side, 32), row, signal.set(1), to);
            }
            for side in 0..if fixed { 2 } else { 1 } {
                shmem::wait_until(Block, ready.at(side), eq(1));
            }
        },
    },
    Case {
        name: "signals of one sender pass each other",
        about: "Progress is told by setting a signal to 1, then to 2: the 1 may arrive last.",
        seen: "",
        expected: Kind(SignalWriters),
        host: None,
        world: || Sim::new(2),
        kernel: |fixed| {
            let progress = signals(1).at(0);
            if shmem::my_pe() == 0 {
                shmem::signal_op(progress.set(1), 1);
                if fixed {
                    shmem::fence(Thread);
                }
                shmem::signal_op(progress.set(2), 1);
            } else {
                shmem::wait_until(Thread, progress, ge(2));
            }
        },
    },
    Case {
        name: "flag reset while it is set",
        about: "The receiver clears its flag after each round; the sender is already setting it for the next.",
        seen: "https://github.com/uccl-project/uccl/pull/993, https://github.com/pytorch/pytorch/pull/195761",
        expected: Kind(ResetRace),
        host: None,
        world: || Sim::new(2),
        kernel: |fixed| {
            let (ready, seen) = (signals(1).at(0), signals(1).at(0));
            for round in 1..=3 {
                if shmem::my_pe() == 0 {
                    shmem::signal_op(ready.set(if fixed { round } else { 1 }), 1);
                    shmem::wait_until(Thread, seen, ge(round));
                } else {
                    shmem::wait_until(Thread, ready, ge(if fixed { round } else { 1 }));
                    shmem::signal_op(seen.set(round), 0);
                    if !fixed {
                        shmem::signal_reset(ready);
                    }
                }
            }
        },
    },
    Case {
        name: "value that is passed over",
        about: "The sender goes on to epoch 2 before the receiver, which waits for exactly 1, has looked.",
        seen: "",
        expected: Deadlock,
        host: None,
        world: || Sim::new(2),
        kernel: |fixed| {
            let epoch = signals(1).at(0);
            if shmem::my_pe() == 0 {
                for e in 1..=2 {
                    shmem::signal_op(epoch.set(e), 1);
                    shmem::fence(Thread);
                }
            } else if fixed {
                shmem::wait_until(Thread, epoch, ge(1));
            } else {
                shmem::wait_until(Thread, epoch, eq(1));
            }
        },
    },
    Case {
        name: "signal to the wrong neighbour",
        about: "Ring: every PE waits for its left neighbour, and signals to its left instead of to its right.",
        seen: "",
        expected: Deadlock,
        host: None,
        world: || Sim::new(3),
        kernel: |fixed| {
            let from = signals(3);
            let (me, n) = (shmem::my_pe(), shmem::n_pes());
            let (left, right) = ((me + n - 1) % n, (me + 1) % n);
            shmem::signal_op(from.at(me).set(1), if fixed { right } else { left });
            shmem::wait_until(Thread, from.at(left), eq(1));
        },
    },
    Case {
        name: "team index as PE number",
        about: "The first PE of each node wakes its node's others by their index in the node.",
        seen: "https://github.com/ROCm/rocSHMEM/pull/125",
        expected: Deadlock,
        host: None,
        world: || Sim::new(4).node_pes(2).path(shmem_sim::Path::QueuePairs),
        kernel: |fixed| {
            let (node, from) = (shmem::node(), signals(4));
            let first = node.translate(0);
            if node.my_pe() == 0 {
                for i in 1..node.n_pes() {
                    let action = from.at(first).set(1);
                    if fixed {
                        shmem::signal_op(action, node.pe(i));
                    } else {
                        shmem::signal_op(action, i);
                    }
                }
            } else {
                shmem::wait_until(Thread, from.at(first), eq(1));
            }
        },
    },
    Case {
        name: "barrier that one PE leaves out",
        about: "A PE with nothing to send returns early, and the others wait for it in the barrier.",
        seen: "https://github.com/uccl-project/uccl/pull/993",
        expected: Deadlock,
        host: None,
        world: || Sim::new(3).block(32),
        kernel: |fixed| {
            let tokens = if shmem::my_pe() == 1 { 0 } else { 8 };
            if tokens == 0 && !fixed {
                return;
            }
            collective().barrier(Block, shmem::world());
        },
    },
];
