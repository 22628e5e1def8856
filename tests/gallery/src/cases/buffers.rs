//! Buffers that are used again: when the reader is done with them.

use crate::Case;
use crate::Expected::{Either, Kind};
use shmem::prelude::*;
use shmem_sim::BugKind::{BufferReused, MissingSync, Unordered, WriteConflict};
use shmem_sim::{Sim, collective, signals, symmetric};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "one buffer too few",
        about: "Exchange in rounds without an answer: two buffers in turn are needed, and one is there.",
        seen: "https://github.com/deepseek-ai/DeepEP/issues/166",
        expected: Kind(BufferReused),
        host: None,
        world: || Sim::new(2).block(32),
        kernel: |fixed| {
            let (inbox, outbox) = (symmetric::<u32>(64), symmetric::<u32>(32));
            let ready = signals(1).at(0);
            for round in 1..=4u64 {
                let slot = if fixed { round % 2 } else { 0 };
                // Rounds arrive in order. That does not make the last one read.
                shmem::fence(Block);
                shmem::put_signal(
                    Block,
                    inbox.chunk(slot, 32),
                    outbox,
                    ready.set(round),
                    1 - shmem::my_pe(),
                );
                shmem::wait_until(Block, ready, ge(round));
                inbox.chunk(slot, 32).load(thread::index());
                Block.sync();
            }
        },
    },
    Case {
        name: "credit given before reading",
        about: "The receiver tells the sender that the buffer is free when it has been told of the data, not when it has read it.",
        seen: "https://github.com/deepseek-ai/DeepEP/issues/323",
        expected: Kind(BufferReused),
        host: None,
        world: || Sim::new(2).block(32),
        kernel: |fixed| {
            let (data, from) = (symmetric::<u32>(32), symmetric::<u32>(32));
            let (ready, free) = (signals(1).at(0), signals(1).at(0));
            for round in 1..=3u64 {
                if shmem::my_pe() == 0 {
                    shmem::put_signal(Block, data, from, ready.set(round), 1);
                    shmem::wait_until(Block, free, ge(round));
                } else {
                    shmem::wait_until(Block, ready, ge(round));
                    if fixed {
                        data.load(thread::index());
                        Block.sync();
                    }
                    if Block.leader() {
                        shmem::signal_op(free.set(round), 0);
                    }
                    if !fixed {
                        data.load(thread::index());
                        Block.sync();
                    }
                }
            }
        },
    },
    Case {
        name: "credit one epoch too early",
        about: "Pipeline over two slots: the sender waits for the credit of three rounds ago instead of two.",
        seen: "https://github.com/deepseek-ai/DeepEP/issues/323",
        expected: Kind(BufferReused),
        host: None,
        world: || Sim::new(2).block(32),
        kernel: |fixed| {
            let (data, from) = (symmetric::<u32>(64), symmetric::<u32>(32));
            let (ready, free) = (signals(2), signals(1).at(0));
            for round in 1..=6u64 {
                let slot = round % 2;
                if shmem::my_pe() == 0 {
                    let credit = round.saturating_sub(if fixed { 2 } else { 3 });
                    shmem::wait_until(Block, free, ge(credit));
                    shmem::fence(Block);
                    shmem::put_signal(Block, data.chunk(slot, 32), from, ready.at(slot).set(round), 1);
                } else {
                    shmem::wait_until(Block, ready.at(slot), ge(round));
                    data.chunk(slot, 32).load(thread::index());
                    Block.sync();
                    if Block.leader() {
                        shmem::signal_op(free.set(round), 0);
                        shmem::fence(Thread);
                    }
                }
            }
        },
    },
    Case {
        name: "stepping on while peers read",
        about: "Stencil that reads its neighbours' rows with get: the barrier behind the reads is missing.",
        seen: "https://github.com/deepseek-ai/DeepEP/issues/668",
        expected: Kind(BufferReused),
        host: None,
        world: || Sim::new(3).block(32),
        kernel: |fixed| {
            let (row, halo) = (symmetric::<f32>(32), symmetric::<f32>(32));
            let left = (shmem::my_pe() + 2) % 3;
            for step in 0..3 {
                row.store(thread::index(), step as f32);
                collective().barrier(Block, shmem::world());
                shmem::get(Block, halo, row, left);
                if fixed {
                    collective().barrier(Block, shmem::world());
                }
            }
        },
    },
    Case {
        name: "two senders, one place",
        about: "Gather: each PE is to write its own chunk at the root, and all of them write the first.",
        seen: "",
        expected: Kind(WriteConflict),
        host: None,
        world: || Sim::new(3).block(32),
        kernel: |fixed| {
            let (all, mine) = (symmetric::<u32>(96), symmetric::<u32>(32));
            let me = shmem::my_pe();
            mine.store(thread::index(), me);
            Block.sync();
            shmem::put(Block, all.chunk(if fixed { me } else { 0 }, 32), mine, 0);
            collective().barrier(Block, shmem::world());
        },
    },
    Case {
        name: "source not written by all",
        about: "Every thread packs its element, and the block puts the buffer without a sync between.",
        seen: "https://github.com/microsoft/mscclpp/pull/407",
        expected: Kind(MissingSync),
        host: None,
        world: || Sim::new(2).block(64),
        kernel: |fixed| {
            let (inbox, packed) = (symmetric::<u32>(64), symmetric::<u32>(64));
            packed.store(63 - thread::index(), thread::index());
            if fixed {
                Block.sync();
            }
            shmem::put(Block, inbox, packed, 1 - shmem::my_pe());
        },
    },
    Case {
        name: "only the leader has waited",
        about: "One thread waits for the signal; the others read the data without having met it.",
        seen: "https://github.com/NVIDIA/nvshmem/issues/75",
        // Unordered: the leader had not begun to wait.
        expected: Either(MissingSync, Unordered),
        host: None,
        world: || Sim::new(2).block(64),
        kernel: |fixed| {
            let (data, from) = (symmetric::<u32>(64), symmetric::<u32>(64));
            let ready = signals(1).at(0);
            if shmem::my_pe() == 0 {
                shmem::put_signal(Block, data, from, ready.set(1), 1);
                return;
            }
            if Block.leader() {
                shmem::wait_until(Thread, ready, eq(1));
            }
            if fixed {
                Block.sync();
            }
            data.load(thread::index());
        },
    },
];
