//! A hash table over all PEs: each thread claims an entry at the PE that owns its key, by compare-and-swap.
use shmem::prelude::*;
use shmem::scope::Gpu;

/// One element, so that a lookup is one access. An entry is claimed once and never given back.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub key: u64,
    pub value: u64,
}
// SAFETY: zeros are an entry that is not in use.
unsafe impl Zeroable for Entry {}
// SAFETY: two numbers without padding.
unsafe impl Pod for Entry {}

/// The key of an entry that is not in use: fresh memory is an empty table.
pub const EMPTY: u64 = 0;

/// The PE that owns a key, and the entry where looking for it begins.
#[inline(always)]
fn home(key: u64, n: u32, entries: u64) -> (u32, u64) {
    let h = (key ^ key >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let h = h ^ h >> 33;
    ((h % u64::from(n)) as u32, h / u64::from(n) % entries)
}

/// Inserts a key and its value for each thread. A key that is there already gets the value; where several threads insert
/// one at the same time, it gets that of one of them. `lost` counts the pairs that found no place: the table of the key's
/// PE is full, or the key is [`EMPTY`].
///
/// Nothing is ordered: the compare-and-swap decides alone who owns an entry, and its result says so. A reader needs a barrier
/// between (the end of the kernel and one on the stream will do), because it could see a key ahead of its value.
#[kernel]
pub fn insert(table: SymSlice<Entry>, keys: Global<u64>, values: Global<u64>, lost: Global<u32>) {
    let i = thread::block_index() * thread::block_size() + thread::index();
    if u64::from(i) >= keys.len() {
        return;
    }
    let key = keys.load(i);
    let (pe, mut at) = home(key, shmem::n_pes(), table.len());
    if key != EMPTY {
        for _ in 0..table.len() {
            let entry = table.at(at);
            let found = shmem::compare_swap(shmem::field!(entry, Entry, key), EMPTY, key, pe);
            if found == EMPTY || found == key {
                shmem::p(shmem::field!(entry, Entry, value), values.load(i), pe);
                return;
            }
            at = if at + 1 == table.len() { 0 } else { at + 1 };
        }
    }
    lost.word::<Gpu>(0).add(1);
}

/// The value of each thread's key; 0, and one more in `missing`, where it is not there. Behind a barrier that follows the
/// last insert.
#[kernel]
pub fn find(table: SymSlice<Entry>, keys: Global<u64>, values: Global<u64>, missing: Global<u32>) {
    let i = thread::block_index() * thread::block_size() + thread::index();
    if u64::from(i) >= keys.len() {
        return;
    }
    let key = keys.load(i);
    let (pe, mut at) = home(key, shmem::n_pes(), table.len());
    values.store(i, 0);
    for _ in 0..table.len() {
        let entry = shmem::g(table.at(at), pe);
        if entry.key == EMPTY {
            break;
        }
        if entry.key == key {
            values.store(i, entry.value);
            return;
        }
        at = if at + 1 == table.len() { 0 } else { at + 1 };
    }
    missing.word::<Gpu>(0).add(1);
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use anyhow::ensure;
    use shmem_host::{Pe, collective_launch};
    use std::collections::{BTreeMap, BTreeSet};

    /// Entries of a table, per PE.
    const ENTRIES: usize = 37;
    /// Pairs that a PE inserts: more than two blocks.
    const PAIRS: usize = 77;

    /// Tables with room: keys of one PE's own, keys that all PEs insert, one key for everybody. Then more keys than fit.
    pub fn check(pe: &Pe) -> anyhow::Result<()> {
        let own = |from: u32, i: usize| u64::from(from) << 40 | (i as u64 % 11 + 1);
        check_keys(pe, "own keys", own, Some(0))?;
        check_keys(pe, "the same keys", |_, i| i as u64 % 13 + 1, Some(0))?;
        check_keys(pe, "one key", |_, _| u64::MAX, Some(0))?;
        check_keys(pe, "no key", |_, _| EMPTY, Some(PAIRS as u32))?;
        check_keys(
            pe,
            "too many keys",
            |from, i| u64::from(from / 2) << 40 | (i as u64 + 1),
            None,
        )
    }

    /// Little data, for runs of many seeds.
    pub fn check_small(pe: &Pe) -> anyhow::Result<()> {
        check_keys(pe, "the same keys", |_, i| i as u64 % 13 + 1, Some(0))
    }

    /// Every PE inserts its keys; `lost` is what each must lose, if that is certain.
    fn check_keys(pe: &Pe, what: &str, key: impl Fn(u32, usize) -> u64, lost: Option<u32>) -> anyhow::Result<()> {
        let table = pe.alloc::<Entry>(ENTRIES)?;
        let (keys, values) = (pe.buffer::<u64>(PAIRS)?, pe.buffer::<u64>(PAIRS)?);
        let (refused, missing) = (pe.buffer::<u32>(1)?, pe.buffer::<u32>(1)?);
        let value = |from: u32, i: usize| u64::from(from) * 1000 + i as u64 + 1;
        keys.write(&(0..PAIRS).map(|i| key(pe.id(), i)).collect::<Vec<_>>())?;
        values.write(&(0..PAIRS).map(|i| value(pe.id(), i)).collect::<Vec<_>>())?;
        pe.barrier_all()?;
        collective_launch!(pe, insert<<<3, 32>>>(&table, &keys, &values, &refused))?;
        pe.barrier_all()?;
        collective_launch!(pe, find<<<3, 32>>>(&table, &keys, &values, &missing))?;

        // What any PE may have put there.
        let mut pairs = BTreeMap::<u64, BTreeSet<u64>>::new();
        for from in 0..pe.n() {
            for i in 0..PAIRS {
                pairs.entry(key(from, i)).or_default().insert(value(from, i));
            }
        }
        let (found, mut absent) = (values.to_vec()?, 0);
        for (i, &found) in found.iter().enumerate() {
            let key = key(pe.id(), i);
            absent += u32::from(found == 0);
            ensure!(
                found == 0 || pairs[&key].contains(&found),
                "{what}: key {key} has {found}"
            );
        }
        let (refused, missing) = (refused.read(0)?, missing.read(0)?);
        ensure!(
            refused == absent && missing == absent && lost.is_none_or(|lost| lost == refused),
            "{what}: {refused} were refused and {missing} are missing, {absent} have no value, expected {lost:?}"
        );

        // Our own table has all of its keys, each once, or it is full.
        let entries = table.to_vec()?;
        let stored: Vec<u64> = entries.iter().map(|e| e.key).filter(|&key| key != EMPTY).collect();
        let distinct: BTreeSet<u64> = stored.iter().copied().collect();
        let ours = |&key: &u64| key != EMPTY && home(key, pe.n(), ENTRIES as u64).0 == pe.id();
        let expected: BTreeSet<u64> = pairs.keys().copied().filter(ours).collect();
        ensure!(
            distinct.len() == stored.len(),
            "{what}: a key is there twice: {stored:?}"
        );
        ensure!(
            distinct.is_subset(&expected) && distinct.len() == expected.len().min(ENTRIES),
            "{what}: {distinct:?}, expected {expected:?} or {ENTRIES} of them"
        );
        for entry in entries.iter().filter(|e| e.key != EMPTY) {
            ensure!(pairs[&entry.key].contains(&entry.value), "{what}: {entry:?}");
        }
        Ok(pe.barrier_all()?)
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::{check, check_small};
