//! Waiting for several words at once.
//!
//! | call | returns when | returns | OpenSHMEM, NVSHMEM |
//! |---|---|---|---|
//! | [`wait_until_all`] | all do | | `wait_until_all`, `_all_vector` |
//! | [`wait_until_any`] | one does | which | `wait_until_any`, `_any_vector` |
//! | [`wait_until_some`] | one does | how many, and which | `wait_until_some`, `_some_vector` |
//!
//! The words are a `SymSlice`, or `words.except(|i| ..)` ([`Words`]); they are compared with one value or with a value
//! each ([`Against`]). Bounded as [`wait_until`](crate::wait_until) is.

use crate::arch;
use crate::tile::Tile;
use crate::wait::{Allows, Condition, Relation, WaitWord};
use crate::words::{Against, Found, Look, Query, Words};

/// No index.
pub(crate) const NOWHERE: u64 = u64::MAX;

/// Waits until every word that is not left out stands in the relation; at once where there is none. All members call it
/// and share the words out among them. Each word has done so at some moment since the call, not all at the same. Acquires,
/// for the whole tile.
///
/// OpenSHMEM `shmem_wait_until_all` and `_all_vector`, NVSHMEM `nvshmem_TYPE_wait_until_all`; PTX `ld.acquire.sys`, then
/// the tile's sync. Faults with `FaultKind::Length` (words, values), `FaultKind::TimeLimit`.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(4, 1, 32, || {
///     let arrived = shmem_sim::signals(4);
///     let n = shmem::n_pes();
///     for pe in Block.strided(n) {
///         shmem::signal_op(arrived.at(shmem::my_pe()).set(7), pe);
///     }
///     shmem::wait_until_all(Block, arrived, eq(7));
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn wait_until_all<G, S, R, A>(tile: G, words: S, until: Condition<R, A>)
where
    G: Tile,
    S: Words,
    S::Word: Allows<R>,
    R: Relation,
    A: Against<<S::Word as WaitWord>::Value, G>,
{
    let query = Query::new(tile, words, until);
    let mut i = u64::from(tile.rank());
    while i < query.len() {
        if !words.__excluded(i) {
            query.wait(i);
        }
        i += u64::from(tile.size());
    }
    tile.sync();
}

/// Waits until one of the words that are not left out stands in the relation, and returns its index: the same in every
/// member. None where there is no word to wait for. All members call it. Acquires, for the whole tile.
///
/// Where several do, any of them may be told; each call begins to look at another place, so that none is passed over for
/// ever.
///
/// OpenSHMEM `shmem_wait_until_any` and `_any_vector`, NVSHMEM `nvshmem_TYPE_wait_until_any`; PTX `ld.acquire.sys` by the
/// leader, then the tile's sync. Faults with `FaultKind::Length` (words, values), `FaultKind::TimeLimit`.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(3, 1, 32, || {
///     let (arrived, done) = (shmem_sim::signals(3), shmem_sim::global::<u32>(3));
///     for pe in Block.strided(3) {
///         shmem::signal_op(arrived.at(shmem::my_pe()).set(1), pe);
///     }
///     let mut count = 0;
///     while let Some(pe) = shmem::wait_until_any(Block, arrived.except(|pe| done.load(pe) == 1), eq(1)) {
///         Block.sync();
///         if Block.leader() {
///             done.store(pe, 1);
///         }
///         Block.sync();
///         count += 1;
///     }
///     assert_eq!(count, 3);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn wait_until_any<G, S, R, A>(tile: G, words: S, until: Condition<R, A>) -> Option<u64>
where
    G: Tile,
    S: Words,
    S::Word: Allows<R>,
    R: Relation,
    A: Against<<S::Word as WaitWord>::Value, G>,
{
    let query = Query::new(tile, words, until);
    let mut index = NOWHERE;
    if tile.leader() && query.len() != 0 {
        let start = query.start();
        arch::spin(&query.watch_any(), || {
            let look = query.first(start);
            index = look.or(NOWHERE);
            look != Look::None
        });
    }
    let index = tile.broadcast(index);
    (index != NOWHERE).then_some(index)
}

/// Waits until at least one of the words that are not left out stands in the relation; writes the indices of all that do
/// to the start of `found`, ascending, and returns how many: the same in every member. 0 where there is no word to wait
/// for. All members call it, and may read `found` when it returns. Acquires, for the whole tile.
///
/// OpenSHMEM `shmem_wait_until_some` and `_some_vector`, NVSHMEM `nvshmem_TYPE_wait_until_some`; PTX `ld.acquire.sys` by
/// the leader, then the tile's sync. Faults with `FaultKind::Length` (words, values; or `found`, words),
/// `FaultKind::TimeLimit`.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 1, || {
///     let arrived = shmem_sim::counters(4);
///     shmem::signal_op(arrived.at(1).add(2), 1 - shmem::my_pe());
///     let mut which = [0; 4];
///     let count = shmem::wait_until_some(Thread, arrived, ge(2), &mut which);
///     assert_eq!((count, which[0]), (1, 1));
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn wait_until_some<G, S, R, A>(tile: G, words: S, until: Condition<R, A>, mut found: impl Found<G>) -> u64
where
    G: Tile,
    S: Words,
    S::Word: Allows<R>,
    R: Relation,
    A: Against<<S::Word as WaitWord>::Value, G>,
{
    let query = Query::new(tile, words, until);
    query.check_room(&found);
    let mut count = 0;
    if tile.leader() && query.len() != 0 {
        arch::spin(&query.watch_any(), || {
            let look = query.collect(&mut found);
            count = look.or(0);
            look != Look::None
        });
    }
    tile.broadcast(count)
}
