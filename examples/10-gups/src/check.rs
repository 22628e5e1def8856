//! Both on the host: enqueued, and compared with the CPU.
use crate::hash::{EMPTY, count, insert};
use crate::random::{mix, place, random};
use crate::update::{op, update};
use anyhow::{Context, ensure};
use shmem::collective::Sum;
use shmem::{Kernel, SymSlice};
use shmem_host::{Pe, launch};

/// Blocks and threads of a launch.
pub type Shape = (u32, u32);

/// Every PE makes `count` updates of a table of `len` words each.
///
/// # Errors
/// The first word that is wrong.
pub fn updates<const OP: u32>(pe: &Pe, (blocks, threads): Shape, len: usize, count: u64) -> anyhow::Result<()>
where
    update<OP>: Kernel<Args = (SymSlice<u64>, u64, u64)>,
{
    ensure!(
        len.is_power_of_two(),
        "a table of {len} words, where a power of two is needed"
    );
    let table = pe.alloc::<u64>(len)?;
    let first = |pe: u32| u64::from(pe) * count;
    launch!(pe, update::<OP><<<blocks, threads>>>(&table, first(pe.id()), count))?;
    pe.barrier_all()?;
    let mut expected = vec![0u64; len];
    for i in (0..pe.n()).flat_map(|from| first(from)..first(from) + count) {
        let r = random(i);
        let (to, at) = place(r, pe.n(), len as u64);
        if to == pe.id() {
            let word = &mut expected[at as usize];
            *word = match OP {
                op::XOR => *word ^ r,
                op::ADD => word.wrapping_add(r),
                _ => word.wrapping_sub(r),
            };
        }
    }
    let got = table.to_vec()?;
    let wrong = (0..len).find(|&i| got[i] != expected[i]);
    ensure!(
        wrong.is_none(),
        "words from {wrong:?} on are {got:x?}, expected {expected:x?}"
    );
    Ok(pe.barrier_all()?)
}

/// Keys of a PE: random ones, of which there are `distinct` among all PEs.
pub fn keys(pe: u32, len: usize, distinct: u64) -> Vec<u64> {
    (0..len as u64)
        .map(|i| mix(1 + random(u64::from(pe) << 32 | i) % distinct))
        .collect()
}

/// Every PE inserts its keys into a table of `len` words each.
///
/// # Errors
/// What differs from a set on the CPU.
pub fn inserts(pe: &Pe, (blocks, threads): Shape, len: usize, key: impl Fn(u32) -> Vec<u64>) -> anyhow::Result<()> {
    ensure!(
        len.is_power_of_two(),
        "a table of {len} words, where a power of two is needed"
    );
    let mine = key(pe.id());
    let (table, keys) = (pe.alloc::<u64>(len)?, pe.buffer::<u64>(mine.len())?);
    let (counts, sums) = (pe.alloc::<u64>(3)?, pe.alloc::<u64>(3)?);
    let local = pe.buffer::<u64>(3)?;
    keys.write(&mine)?;
    launch!(pe, insert<<<blocks, threads>>>(&table, &keys, &local))?;
    counts.write(&local.to_vec()?)?;
    pe.stream().reduce(&pe.world(), Sum, &sums, &counts)?;
    pe.barrier_all()?;

    let sorted = |mut keys: Vec<u64>| {
        keys.retain(|&key| key != EMPTY);
        keys.sort_unstable();
        keys
    };
    let all: Vec<u64> = (0..pe.n()).flat_map(&key).collect();
    let (of_all, empty) = (all.len() as u64, all.iter().filter(|&&key| key == EMPTY).count() as u64);
    let mut set = sorted(all);
    set.dedup();
    let of = |pe_: u32| {
        set.iter()
            .copied()
            .filter(move |&key| place(mix(key), pe.n(), len as u64).0 == pe_)
    };
    let (stored, ours): (_, Vec<u64>) = (sorted(table.to_vec()?), of(pe.id()).collect());
    if ours.len() <= len {
        let wrong = (0..ours.len().max(stored.len())).find(|&i| ours.get(i) != stored.get(i));
        ensure!(
            wrong.is_none(),
            "{} keys are stored, expected {}; sorted, the first that differs is number {wrong:?}",
            stored.len(),
            ours.len()
        );
    } else {
        let twice = stored.windows(2).find(|pair| pair[0] == pair[1]);
        let other = stored.iter().find(|key| ours.binary_search(key).is_err());
        ensure!(
            stored.len() == len && twice.is_none() && other.is_none(),
            "{} keys are stored in {len} words; there twice: {twice:?}; never inserted: {other:?}",
            stored.len()
        );
    }
    let (sums, homes) = (sums.to_vec()?, (0..pe.n()).map(|pe| of(pe).count()).collect::<Vec<_>>());
    let [new, old, lost] = [count::NEW, count::OLD, count::LOST].map(|place| sums[place as usize]);
    let expected = homes.iter().map(|&keys| keys.min(len) as u64).sum::<u64>();
    ensure!(
        new == expected && new + old + lost == of_all,
        "{new} keys were new, {old} old, {lost} lost, expected {expected} new ones of {of_all}"
    );
    // What a full table refuses comes again with each of its duplicates.
    let full = homes.iter().any(|&keys| keys > len);
    ensure!(full || lost == empty, "{lost} keys were lost, expected {empty}");
    Ok(pe.barrier_all()?)
}

/// Both with little data, on any backend.
///
/// # Errors
/// As [`updates`] and [`inserts`].
pub fn check(pe: &Pe, shape: Shape, len: usize) -> anyhow::Result<()> {
    updates::<{ op::XOR }>(pe, shape, len, 4 * len as u64).context("xor")?;
    updates::<{ op::ADD }>(pe, shape, len, 4 * len as u64 + 1).context("add")?;
    // Half full; every key twice or more.
    inserts(pe, shape, len, |from| keys(from, len, len as u64 / 2)).context("insert")?;
    inserts(pe, shape, len, |_| keys(0, len, len as u64 / 2)).context("insert of the same")?;
    inserts(pe, shape, len, |from| vec![EMPTY, 7, 7, EMPTY, u64::from(from) + 1]).context("insert of little")?;
    inserts(pe, shape, 8, |from| keys(from, 40, 1000)).context("insert of too many")
}
