//! Teams: whose numbers a target is in, and whom a barrier orders.

use crate::{Case, Expected::Deadlock, Expected::Kind};
use shmem::prelude::*;
use shmem_sim::BugKind::Unordered;
use shmem_sim::{Sim, collective, signals, symmetric, team};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "team index used as world index",
        about: "A ring within a team puts to the next index, as if that were the PE's number in the world.",
        seen: "",
        expected: Deadlock,
        host: None,
        world: || Sim::new(4).block(32),
        kernel: |fixed| {
            let (row, ready) = (symmetric::<u32>(32), signals(1).at(0));
            let Some(odd) = team(&[1, 3]) else { return };
            let (from, next) = (symmetric::<u32>(32), (odd.my_pe() + 1) % odd.n_pes());
            if fixed {
                shmem::put_signal(Block, row, from, ready.set(1), odd.pe(next));
            } else {
                shmem::put_signal(Block, row, from, ready.set(1), next);
            }
            shmem::wait_until(Block, ready, eq(1));
            row.load(thread::index());
        },
    },
    Case {
        name: "barrier of a team for data of others",
        about: "Columns of a grid exchange data, and rows have the barrier: it orders only a row's own puts.",
        seen: "",
        expected: Kind(Unordered),
        host: None,
        world: || Sim::new(4).block(32),
        kernel: |fixed| {
            let (data, from, me) = (symmetric::<u32>(32), symmetric::<u32>(32), shmem::my_pe());
            let row = [me / 2 * 2, me / 2 * 2 + 1];
            let column = [me % 2, me % 2 + 2];
            let (row, column) = (team(&row), team(&column));
            let (Some(row), Some(column)) = (row, column) else {
                return;
            };
            shmem::put(Block, data, from, column.pe(1 - column.my_pe()));
            collective().barrier(Block, if fixed { column } else { row });
            data.load(thread::index());
        },
    },
];
