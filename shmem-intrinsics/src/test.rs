//! Looking at words without waiting.
//!
//! | call | returns | OpenSHMEM, NVSHMEM |
//! |---|---|---|
//! | [`test()`] | the value, where it stands in the relation | `test` |
//! | [`test_all`] | whether all do | `test_all`, `_all_vector` |
//! | [`test_any`] | the index of one that does | `test_any`, `_any_vector` |
//! | [`test_some`] | how many do, and which | `test_some`, `_some_vector` |
//!
//! The leader looks, and every member gets its answer. A test that succeeds acquires, for the whole tile. Words and values
//! are those of the waits ([`Words`], [`Against`]). In a loop of tests use [`spin_until`](crate::spin_until): a loop of
//! one's own has no time limit, and does not end when another PE fails.

use crate::tile::Tile;
use crate::wait::{Allows, Condition, Relation, WaitWord};
use crate::wait_many::NOWHERE;
use crate::words::{Against, Found, Query, Words};

/// The word's value, where it stands in the relation now: the same in every member. All members call it.
///
/// OpenSHMEM `shmem_test`, NVSHMEM `nvshmem_TYPE_test`; PTX `ld.acquire.sys`.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 1, || {
///     let ready = shmem_sim::signals(1).at(0);
///     shmem::signal_op(ready.set(3), 1 - shmem::my_pe());
///     assert!(shmem::test(Thread, ready, gt(3)).is_none());
///     shmem::spin_until(|| shmem::test(Thread, ready, ge(1)) == Some(3));
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn test<G: Tile, W: Allows<R>, R: Relation>(tile: G, word: W, until: Condition<R, W::Value>) -> Option<W::Value> {
    let seen = if tile.leader() { W::__bits(word.__acquire()) } else { 0 };
    let value = W::__value(tile.broadcast(seen));
    R::holds(value, until.value).then_some(value)
}

/// Whether every word that is not left out stands in the relation now, true where there is none: the same in every member.
/// All members call it. Each is looked at once, one after the other.
///
/// OpenSHMEM `shmem_test_all` and `_all_vector`, NVSHMEM `nvshmem_TYPE_test_all`; PTX `ld.acquire.sys`. Faults with
/// `FaultKind::Length` (words, values).
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(1, 1, 32, || {
///     let x = shmem_sim::symmetric_with(3, |_, i| i as i32);
///     assert!(!shmem::test_all(Warp, x, gt(0)));
///     assert!(shmem::test_all(Warp, x.except(|i| i == 0), gt(0)));
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn test_all<G, S, R, A>(tile: G, words: S, until: Condition<R, A>) -> bool
where
    G: Tile,
    S: Words,
    S::Word: Allows<R>,
    R: Relation,
    A: Against<<S::Word as WaitWord>::Value, G>,
{
    let query = Query::new(tile, words, until);
    let mut all = true;
    if tile.leader() {
        let mut i = 0;
        while all && i < query.len() {
            all = words.__excluded(i) || query.holds(i);
            i += 1;
        }
    }
    tile.broadcast(u64::from(all)) != 0
}

/// The index of one of the words that are not left out and stand in the relation now, None where there is none: the same
/// in every member. All members call it. Fair as [`wait_until_any`](crate::wait_until_any) is.
///
/// OpenSHMEM `shmem_test_any` and `_any_vector`, NVSHMEM `nvshmem_TYPE_test_any`; PTX `ld.acquire.sys`. Faults with
/// `FaultKind::Length` (words, values).
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(1, 1, 32, || {
///     let x = shmem_sim::symmetric_with(3, |_, i| i as u64);
///     assert_eq!(shmem::test_any(Block, x, eq(2)), Some(2));
///     assert_eq!(shmem::test_any(Block, x, gt(2)), None);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn test_any<G, S, R, A>(tile: G, words: S, until: Condition<R, A>) -> Option<u64>
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
        index = query.first(query.start()).or(NOWHERE);
    }
    let index = tile.broadcast(index);
    (index != NOWHERE).then_some(index)
}

/// How many of the words that are not left out stand in the relation now: the same in every member. Their indices are
/// written to the start of `found`, ascending. All members call it, and may read `found` when it returns.
///
/// OpenSHMEM `shmem_test_some` and `_some_vector`, NVSHMEM `nvshmem_TYPE_test_some`; PTX `ld.acquire.sys`. Faults with
/// `FaultKind::Length` (words, values; or `found`, words).
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(1, 1, 32, || {
///     let x = shmem_sim::symmetric_with(4, |_, i| i as u32);
///     shared!(which: [u32; 4]);
///     // A value for each word: 1, 0, 3, 2.
///     let other = shmem_sim::symmetric_with(4, |_, i| i as u32 ^ 1);
///     assert_eq!(shmem::test_some(Block, x, lt(other), which), 2);
///     assert_eq!((which.load(0), which.load(1)), (0, 2));
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn test_some<G, S, R, A>(tile: G, words: S, until: Condition<R, A>, mut found: impl Found<G>) -> u64
where
    G: Tile,
    S: Words,
    S::Word: Allows<R>,
    R: Relation,
    A: Against<<S::Word as WaitWord>::Value, G>,
{
    let query = Query::new(tile, words, until);
    query.check_room(&found);
    let count = if tile.leader() {
        query.collect(&mut found).or(0)
    } else {
        0
    };
    tile.broadcast(count)
}
