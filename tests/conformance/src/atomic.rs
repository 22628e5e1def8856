//! Atomics at every PE: many threads of all PEs on one word, for every type and order.
use shmem::prelude::*;
use shmem::{AtomicAdd, AtomicInteger, Bf16x2, F16x2};

/// A type that adds, as numbers that it holds exactly.
pub trait Summed: AtomicAdd + KernelArg {
    /// The largest whole number up to which it counts.
    const LARGEST: u64;
    /// The second half of a pair is half as much.
    fn from_number(n: u64) -> Self;
    fn number(self) -> u64;
    /// Whether the halves of a pair agree.
    fn is_whole(self) -> bool;
}

macro_rules! summed { ($($t:ident)*) => { $(impl Summed for $t {
    const LARGEST: u64 = 1 << 24;
    fn from_number(n: u64) -> Self { n as Self }
    fn number(self) -> u64 { self as u64 }
    fn is_whole(self) -> bool { true }
})* } }
summed!(i32 u32 i64 u64 f32 f64);

macro_rules! pairs { ($($t:ident $half:ident $largest:literal;)*) => { $(impl Summed for $t {
    const LARGEST: u64 = $largest;
    fn from_number(n: u64) -> Self { $t([$half::from_f32(n as f32), $half::from_f32(n as f32 / 2.0)]) }
    fn number(self) -> u64 { self.0[0].to_f32() as u64 }
    fn is_whole(self) -> bool { (self.0[1].to_f32() * 2.0).to_bits() == self.0[0].to_f32().to_bits() }
})* } }
pairs! { F16x2 f16 2048; Bf16x2 bf16 256; }

/// Every thread adds 1 to four words of every PE, `rounds` times, in each order. `seen` sums up what came back: each
/// number below the sum once.
#[kernel(collective, for<i32>, for<u32>, for<i64>, for<u64>, for<f32>, for<f64>, for<F16x2>, for<Bf16x2>)]
pub fn add_up<T: Summed>(all: Collective, x: SymSlice<T>, seen: SymSlice<u64>, rounds: u32) {
    let one = T::from_number(1);
    let mut round = 0;
    while round < rounds {
        for pe in 0..shmem::n_pes() {
            shmem::add(x.at(0), one, pe);
            shmem::add_release(x.at(1), one, pe);
            let old = shmem::fetch_add(x.at(2), one, pe);
            shmem::add(seen.at(0), old.number(), pe);
            let old = shmem::fetch_add_acqrel(x.at(3), one, pe);
            shmem::add(seen.at(1), old.number(), pe);
        }
        round += 1;
    }
    all.barrier(Block, shmem::world());
}

/// Every thread hands on what it finds: at the end each number is somewhere once.
#[kernel(collective, for<i32>, for<u32>, for<i64>, for<u64>, for<f32>, for<f64>, for<F16x2>, for<Bf16x2>)]
pub fn hand_on<T: Summed>(all: Collective, x: SymSlice<T>, seen: SymSlice<u64>, mine: SymSlice<T>) {
    for pe in 0..shmem::n_pes() {
        let old = shmem::swap(x.at(0), mine.load(thread::index()), pe);
        shmem::add(seen.at(0), old.number(), pe);
        let old = shmem::swap_acqrel(x.at(1), mine.load(thread::index()), pe);
        shmem::add(seen.at(1), old.number(), pe);
    }
    all.barrier(Block, shmem::world());
    // A word that is set and fetched.
    let (me, n, t) = (shmem::my_pe(), shmem::n_pes(), thread::index());
    let own = x.slice(2u64..x.len()).chunk(me, thread::block_size()).at(t);
    let right = (me + 1) % n;
    shmem::set(own, mine.load(t), right);
    shmem::quiet(Thread);
    if shmem::fetch(own, right).number() != mine.load(t).number() {
        shmem::add(seen.at(2), 1, me);
    }
    shmem::set_release(own, T::from_number(1), right);
    shmem::quiet(Thread);
    if shmem::fetch_acquire(own, right).number() != 1 {
        shmem::add(seen.at(2), 1, me);
    }
    all.barrier(Block, shmem::world());
}

/// The words of [`every_operation`].
pub const OPERATIONS: usize = 14;

/// Integers: increments, masks, and the largest number by compare-and-swap.
#[kernel(collective, for<i32>, for<u32>, for<i64>, for<u64>)]
pub fn every_operation<T: Integer>(all: Collective, x: SymSlice<T>, seen: SymSlice<u64>) {
    let (me, n, t) = (shmem::my_pe(), shmem::n_pes(), thread::index());
    let bit = T::from_bits(1 << (t % T::BITS));
    let others = T::from_bits(!bit.to_bits());
    for pe in 0..n {
        shmem::inc(x.at(0), pe);
        shmem::inc_release(x.at(1), pe);
        let old = shmem::fetch_inc(x.at(2), pe).to_bits() + shmem::fetch_inc_acqrel(x.at(3), pe).to_bits();
        shmem::add(seen.at(0), old, pe);
        // Each bit is set by many threads, and found unset by one.
        shmem::or(x.at(4), bit, pe);
        shmem::or_release(x.at(4), bit, pe);
        let first = shmem::fetch_or(x.at(5), bit, pe).to_bits() & bit.to_bits() == 0;
        shmem::add(seen.at(1), first.into(), pe);
        let first = shmem::fetch_or_acqrel(x.at(6), bit, pe).to_bits() & bit.to_bits() == 0;
        shmem::add(seen.at(1), first.into(), pe);
        // Each bit is cleared by the threads that have it, but for the last one.
        if t % T::BITS != T::BITS - 1 {
            shmem::and(x.at(7), others, pe);
            shmem::and_release(x.at(7), others, pe);
            let last = shmem::fetch_and(x.at(8), others, pe).to_bits() & bit.to_bits() != 0;
            shmem::add(seen.at(2), last.into(), pe);
            let last = shmem::fetch_and_acqrel(x.at(9), others, pe).to_bits() & bit.to_bits() != 0;
            shmem::add(seen.at(2), last.into(), pe);
        }
        // Each bit is flipped by the same number of threads of each PE.
        shmem::xor(x.at(10), bit, pe);
        shmem::fetch_xor(x.at(10), bit, pe);
        shmem::xor_release(x.at(11), bit, pe);
        shmem::fetch_xor_acqrel(x.at(12), bit, pe);
        let mine = T::from_bits((u64::from(me * thread::block_size() + t) * 7919) % 10007);
        let mut largest = shmem::fetch(x.at(13), pe);
        let mut round = 0;
        while largest.to_bits() < mine.to_bits() {
            let old = if round % 2 == 0 {
                shmem::compare_swap(x.at(13), largest, mine, pe)
            } else {
                shmem::compare_swap_acqrel(x.at(13), largest, mine, pe)
            };
            if old.to_bits() == largest.to_bits() {
                break;
            }
            largest = old;
            round += 1;
        }
    }
    all.barrier(Block, shmem::world());
}

/// An integer as its bits.
pub trait Integer: AtomicInteger + KernelArg {
    const BITS: u32;
    fn from_bits(bits: u64) -> Self;
    fn to_bits(self) -> u64;
}
macro_rules! integer { ($($t:ident $u:ident;)*) => { $(impl Integer for $t {
    const BITS: u32 = Self::BITS;
    fn from_bits(bits: u64) -> Self { bits as Self }
    fn to_bits(self) -> u64 { u64::from(self as $u) }
})* } }
integer! { i32 u32; u32 u32; i64 u64; u64 u64; }

/// A lock of one word at PE 0, taken by compare-and-swap and given back by a release, around a counter that nothing else
/// protects.
#[kernel(collective)]
pub fn lock(all: Collective, lock: SymSlice<u32>, count: SymSlice<u64>, rounds: u32) {
    let (lock, count) = (lock.at(0), count.at(0));
    if thread::index().is_multiple_of(8) {
        let mut round = 0;
        while round < rounds {
            shmem::spin_until(|| shmem::compare_swap_acqrel(lock, 0, 1, 0) == 0);
            let value = shmem::g(count, 0);
            shmem::p(count, value + 1, 0);
            shmem::fence(Thread);
            if round % 2 == 0 {
                shmem::set_release(lock, 0, 0);
            } else {
                shmem::fetch_and_acqrel(lock, 0, 0);
            }
            round += 1;
        }
    }
    all.barrier(Block, shmem::world());
}

/// Stores to one's own memory become visible to the PE that acquires what was released after them: by each operation that
/// releases, against each that acquires.
#[kernel(collective)]
pub fn release_and_acquire(
    all: Collective,
    data: SymSlice<u64>,
    there: SymSlice<u64>,
    back: SymSlice<u64>,
    rounds: u64,
    wrong: Global<u64>,
) {
    let (me, n, t) = (shmem::my_pe(), shmem::n_pes(), thread::index());
    let (right, left) = ((me + 1) % n, (me + n - 1) % n);
    let (mine, there, back) = (data.at(t), there.at(t), back.at(t));
    for round in 1..=rounds {
        mine.store(round << 16 | u64::from(t));
        match round % 5 {
            0 => shmem::set_release(there, round, right),
            1 => shmem::add_release(there, 1, right),
            2 => shmem::inc_release(there, right),
            3 => _ = shmem::swap_acqrel(there, round, right),
            _ => _ = shmem::fetch_inc_acqrel(there, right),
        }
        shmem::spin_until(|| {
            let seen = match round % 4 {
                0 => shmem::fetch_acquire(there, me),
                1 => shmem::fetch_add_acqrel(there, 0, me),
                2 => shmem::compare_swap_acqrel(there, round, round, me),
                _ => shmem::wait_until(Thread, there, ge(round)),
            };
            seen == round
        });
        if shmem::g(mine, left) != round << 16 | u64::from(t) {
            wrong.store(0, round);
        }
        shmem::set_release(back, round, left);
        shmem::wait_until(Thread, back, eq(round));
    }
    all.barrier(Block, shmem::world());
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::suite::{Case, full_or_little};
    use anyhow::ensure;
    use shmem_host::{Pe, collective_launch};

    pub const CASES: &[Case] = &[
        Case {
            name: "atomics: sums of every type",
            run: sums,
        },
        Case {
            name: "atomics: swap, set and fetch of every type",
            run: swaps,
        },
        Case {
            name: "atomics: every operation on integers",
            run: operations,
        },
        Case {
            name: "atomics: a lock",
            run: locks,
        },
        Case {
            name: "atomics: release and acquire",
            run: messages,
        },
    ];

    const THREADS: u64 = 32;

    fn sums(pe: &Pe) -> anyhow::Result<()> {
        let n = u64::from(pe.n());
        macro_rules! each { ($($t:ident)*) => { $(
            // All numbers up to the sum are exact.
            let block = (<$t as Summed>::LARGEST / n).clamp(1, THREADS);
            let threads = n * block;
            let rounds = (<$t as Summed>::LARGEST / threads).clamp(1, full_or_little(20, 2));
            let (x, seen) = (pe.alloc::<$t>(4)?, pe.alloc::<u64>(2)?);
            collective_launch!(pe, add_up::<$t><<<1, block as u32>>>(&x, &seen, rounds as u32))?;
            let sum = threads * rounds;
            for (i, x) in x.to_vec()?.into_iter().enumerate() {
                ensure!(x.number() == sum && x.is_whole(), "{} word {i}: {x:?}, expected {sum}", stringify!($t));
            }
            let seen = seen.to_vec()?;
            ensure!(seen == [sum * (sum - 1) / 2; 2], "{}: old values sum up to {seen:?}", stringify!($t));
        )* } }
        each!(i32 u32 i64 u64 f32 f64 F16x2 Bf16x2);
        Ok(())
    }

    fn swaps(pe: &Pe) -> anyhow::Result<()> {
        let threads = u64::from(pe.n()) * THREADS;
        macro_rules! each { ($($t:ident)*) => { $(
            let (x, seen, mine) = (pe.alloc::<$t>(2 + threads as usize)?, pe.alloc::<u64>(3)?, pe.alloc::<$t>(THREADS as usize)?);
            // Pairs count to 256.
            let first = u64::from(pe.id()) * THREADS;
            let numbers: Vec<$t> = (0..THREADS).map(|t| Summed::from_number(first + t)).collect();
            mine.write(&numbers)?;
            collective_launch!(pe, hand_on::<$t><<<1, THREADS as u32>>>(&x, &seen, &mine))?;
            let (x, seen) = (x.to_vec()?, seen.to_vec()?);
            for i in 0..2 {
                let sum = seen[i] + x[i].number();
                ensure!(sum == threads * (threads - 1) / 2, "{} word {i}: {} handed on, {:?} left", stringify!($t), seen[i], x[i]);
            }
            ensure!(seen[2] == 0, "{}: {} times another value than was set", stringify!($t), seen[2]);
        )* } }
        each!(i32 u32 i64 u64 f32 f64 F16x2 Bf16x2);
        Ok(())
    }

    fn operations(pe: &Pe) -> anyhow::Result<()> {
        let n = u64::from(pe.n());
        macro_rules! each { ($($t:ident)*) => { $(
            let threads = full_or_little(128, u64::from($t::BITS));
            let (x, seen) = (pe.alloc::<$t>(OPERATIONS)?, pe.alloc::<u64>(3)?);
            let mut start = [0; OPERATIONS];
            start[7..10].fill(!0);
            x.write(&start)?;
            pe.barrier_all()?;
            collective_launch!(pe, every_operation::<$t><<<1, threads as u32>>>(&x, &seen))?;
            let (sum, bits) = (n * threads, u64::from($t::BITS));
            let flipped = if sum / bits % 2 == 0 { 0 } else { !0 };
            let largest = (0..sum).map(|i| i * 7919 % 10007).max().unwrap();
            let top = (1 as $t) << ($t::BITS - 1);
            let expected = [
                sum as $t, sum as $t, sum as $t, sum as $t, !0, !0, !0, top, top, top, 0, flipped, flipped, largest as $t,
            ];
            let (x, seen) = (x.to_vec()?, seen.to_vec()?);
            ensure!(x == expected, "{}: {x:?}, expected {expected:?}", stringify!($t));
            let expected = [sum * (sum - 1), 2 * bits, 2 * (bits - 1)];
            ensure!(seen == expected, "{}: old values tell {seen:?}, expected {expected:?}", stringify!($t));
        )* } }
        each!(i32 u32 i64 u64);
        Ok(())
    }

    fn locks(pe: &Pe) -> anyhow::Result<()> {
        let (word, count) = (pe.alloc::<u32>(1)?, pe.alloc::<u64>(1)?);
        collective_launch!(pe, lock<<<1, 64>>>(&word, &count, full_or_little(10, 3)))?;
        pe.barrier_all()?;
        let expected = if pe.id() == 0 {
            u64::from(pe.n()) * 8 * full_or_little(10, 3)
        } else {
            0
        };
        let count = count.read(0)?;
        ensure!(count == expected, "{count} times inside, expected {expected}");
        Ok(())
    }

    fn messages(pe: &Pe) -> anyhow::Result<()> {
        let words = || pe.alloc::<u64>(64);
        let (data, there, back, wrong) = (words()?, words()?, words()?, pe.buffer::<u64>(1)?);
        wrong.write(&[0])?;
        collective_launch!(pe, release_and_acquire<<<1, 64>>>(&data, &there, &back, full_or_little(40, 4), &wrong))?;
        let wrong = wrong.read(0)?;
        ensure!(wrong == 0, "stale data in round {wrong}");
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
