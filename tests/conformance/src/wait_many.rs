//! Waits and tests for several words: every kind of word, form and tile, with words left out and a value for each.
use shmem::prelude::*;

/// What a word grows by in a round: more than there are words, so that none looks as if it was of the next round.
const STEP: u32 = 1024;

/// How a tile waits.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Form {
    /// 0 thread, 1 eight lanes, 2 block.
    pub tile: u32,
    /// 0 wait all, 1 wait any, 2 wait some, 3 test all, 4 test any, 5 test some.
    pub call: u32,
    /// 0 one value for all words, 1 a value for each.
    pub each: u32,
    pub rounds: u32,
}

/// A word that can be waited for.
pub trait Kind: Pod {
    type Value: Pod;
    fn value(n: u32) -> Self::Value;
    /// Writes `value`, which is `step` more than what was written before.
    fn write(word: Sym<Self>, value: u32, step: u32, to: u32);
    /// Waits by the form until every word but the last is at least `value`, or its own one of `values`. Calls `seen` with
    /// the index of each word, once.
    fn wait<G: InBlock>(tile: G, words: Watched<Self>, form: Form, value: u32, seen: impl FnMut(u64));
}

/// Words, a value for each, and whether each has been told.
#[derive(Clone, Copy)]
pub struct Watched<K: Kind> {
    pub words: SymSlice<K>,
    pub values: Global<K::Value>,
    pub told: Global<u32>,
    pub found: Shared<u32>,
}

macro_rules! kinds { ($($word:ident $value:ident $write:ident;)*) => { $(
    impl Kind for $word {
        type Value = $value;
        fn value(n: u32) -> $value { n as $value }
        #[inline(always)]
        fn write(word: Sym<Self>, value: u32, step: u32, to: u32) { $write(word, value as $value, step, to); }
        #[inline(always)]
        fn wait<G: InBlock>(tile: G, w: Watched<Self>, form: Form, value: u32, mut seen: impl FnMut(u64)) {
            let last = w.words.len() - 1;
            let rest = w.words.except(|i| i == last || w.told.load(i) != 0);
            let (one, each) = (ge(value as $value), ge(w.values));
            let mut left = last;
            let mut tell = |i: u64| {
                seen(i);
                tile.sync();
                if tile.leader() {
                    w.told.store(i, w.told.load(i) + 1);
                }
                tile.sync();
                left -= 1;
                left
            };
            match (form.call, form.each) {
                (0, 0) => shmem::wait_until_all(tile, rest, one),
                (0, _) => shmem::wait_until_all(tile, rest, each),
                (1, 0) => while let Some(i) = shmem::wait_until_any(tile, rest, one) { tell(i); },
                (1, _) => while let Some(i) = shmem::wait_until_any(tile, rest, each) { tell(i); },
                (2, 0) => while tell_all(shmem::wait_until_some(tile, rest, one, w.found), w.found, &mut tell) != 0 {},
                (2, _) => while tell_all(shmem::wait_until_some(tile, rest, each, w.found), w.found, &mut tell) != 0 {},
                (3, 0) => shmem::spin_until(|| shmem::test_all(tile, rest, one)),
                (3, _) => shmem::spin_until(|| shmem::test_all(tile, rest, each)),
                (4, 0) => shmem::spin_until(|| shmem::test_any(tile, rest, one).is_some_and(|i| tell(i) == 0)),
                (4, _) => shmem::spin_until(|| shmem::test_any(tile, rest, each).is_some_and(|i| tell(i) == 0)),
                (_, 0) => shmem::spin_until(|| tell_all(shmem::test_some(tile, rest, one, w.found), w.found, &mut tell) == 0),
                (_, _) => shmem::spin_until(|| tell_all(shmem::test_some(tile, rest, each, w.found), w.found, &mut tell) == 0),
            }
            if form.call % 3 == 0 {
                for i in 0..last {
                    tell(i);
                }
            }
        }
    }
)* } }
kinds! {
    SignalWord u64 set;
    CounterWord u64 add;
    u32 u32 put;
    i32 i32 put;
    u64 u64 put;
    i64 i64 put;
}

fn set(word: Signal, value: u64, _step: u32, to: u32) {
    shmem::signal_op(word.set(value), to);
}
fn add(word: Counter, _value: u64, step: u32, to: u32) {
    shmem::signal_op(word.add(step.into()), to);
}
fn put<T: Pod>(word: Sym<T>, value: T, _step: u32, to: u32) {
    shmem::p(word, value, to);
}

/// Tells the first `count` indices; returns how many words are left, not 0 where there was none to tell.
#[inline(always)]
fn tell_all(count: u64, found: Shared<u32>, mut tell: impl FnMut(u64) -> u64) -> u64 {
    let mut left = u64::MAX;
    for k in 0..count {
        left = tell(found.load(k).into());
    }
    left
}

/// Every PE writes two of the words of every PE, each behind some data; the last word stays as it is. One tile of each PE
/// waits for the others, and each of its members looks at the data. Among up to 79 PEs.
#[kernel(collective, for<SignalWord>, for<CounterWord>, for<u32>, for<i32>, for<u64>, for<i64>)]
pub fn wait_by<K: Kind>(
    all: Collective,
    words: SymSlice<K>,
    data: SymSlice<u32>,
    values: Global<K::Value>,
    told: Global<u32>,
    form: Form,
    wrong: Global<u32>,
) {
    let (me, n, t) = (shmem::my_pe(), shmem::n_pes(), thread::index());
    shared!(found: [u32; 160]);
    let watched = Watched {
        words,
        values,
        told,
        found,
    };
    let mut round = 1;
    while round <= form.rounds {
        for i in Block.strided(2 * n + 1) {
            values.store(i, K::value(STEP * round + i));
            told.store(i, 0);
        }
        // The writers of the block are other threads than those of a small tile.
        let mut k = t.wrapping_sub(32);
        while k < n {
            let (to, mut i) = ((me + k) % n, me);
            while i < 2 * n {
                shmem::p(data.at(i), STEP * round + i, to);
                shmem::fence(Thread);
                let value = STEP * round + i;
                K::write(words.at(i), value, if round == 1 { value } else { STEP }, to);
                i += n;
            }
            k += 32;
        }
        Block.sync();
        let seen = |i: u64| {
            if data.load(i) != STEP * round + i as u32 {
                wrong.store(0, round);
            }
        };
        match form.tile {
            0 if t == 0 => K::wait(Thread, watched, form, STEP * round, seen),
            1 if t < 8 => K::wait(SubWarp::<8>, watched, form, STEP * round, seen),
            2 => K::wait(Block, watched, form, STEP * round, seen),
            _ => {}
        }
        Block.sync();
        for i in Block.strided(2 * n + 1) {
            if told.load(i) != u32::from(i < 2 * n) {
                wrong.store(1, 1 + i);
            }
        }
        all.barrier(Block, shmem::world());
        round += 1;
    }
}

/// Looks at words that stay as they are: -3, 0, 5, 7, -1. Bit k of a result says that question k has another answer.
#[kernel]
pub fn looks(x: SymSlice<i32>, wide: SymSlice<i64>, out: Global<u64>) {
    let mut wrong = 0u64;
    let mut question = 0;
    let mut check = |ok: bool| {
        wrong |= u64::from(!ok) << question;
        question += 1;
    };
    shared!(found: [u32; 5]);
    shared!(values: [i32; 5]);
    if Block.leader() {
        let mut i = 0;
        while i < 5 {
            values.store(i, i - 3);
            i += 1;
        }
    }
    Block.sync();
    let none = x.slice(0..0);
    check(shmem::test(Block, x.at(0), lt(-2)) == Some(-3));
    check(shmem::test(Warp, x.at(0), gt(-3)).is_none());
    check(shmem::test(Thread, wide.at(0), le(-3)) == Some(-3));
    check(shmem::test_all(Block, x, ge(-3)));
    check(!shmem::test_all(Block, x, gt(-3)));
    check(shmem::test_all(Warp, x.except(|i| i == 0), gt(-3)));
    check(shmem::test_all(SubWarp::<4>, none, eq(9)));
    check(shmem::test_any(Block, x, eq(7)) == Some(3));
    check(shmem::test_any(Warp, wide, eq(8)).is_none());
    check(shmem::test_any(Thread, x.except(|i| i % 2 == 0), gt(0)) == Some(3));
    check(shmem::test_any(Block, none, ne(9)).is_none());
    check(shmem::test_some(Block, x, lt(0), found) == 2 && (found.load(0), found.load(1)) == (0, 4));
    Block.sync();
    check(shmem::test_some(Block, x, eq(9), found) == 0);
    // -3 <= -3, 0 <= -2, 5 <= -1, 7 <= 0, -1 <= 1.
    check(shmem::test_some(Block, x, le(values), found) == 2 && (found.load(0), found.load(1)) == (0, 4));
    check(shmem::test_some(Thread, x, ne(&[-3, 0, 1, 7, -1]), &mut [0; 5]) == 1);
    let mut which = [0; 8];
    check(shmem::test_some(Thread, wide, gt(&[-4i64, 0, 4, 7, 0][..]), &mut which[..]) == 2 && which[..2] == [0, 2]);
    shmem::wait_until_all(Block, none, eq(9));
    shmem::wait_until_all(SubWarp::<16>, x.except(|i| i == 2), ne(5));
    check(shmem::wait_until_any(Block, none, eq(9)).is_none());
    check(shmem::wait_until_any(Warp, x.except(|_| true), eq(9)).is_none());
    check(shmem::wait_until_any(Warp, x, eq(5)) == Some(2));
    check(shmem::wait_until_some(Thread, wide.except(|i| i < 5), eq(9), &mut [0; 5]) == 0);
    check(shmem::wait_until_some(Thread, wide, le(wide), &mut which) == 5 && which[..5] == [0, 1, 2, 3, 4]);
    // Of two that do, neither is passed over for ever.
    let (mut told, mut tries) = (0u32, 0);
    while told != 0b1100 && tries < 200 {
        told |= shmem::test_any(Warp, x, gt(4)).map_or(0, |i| 1 << i);
        tries += 1;
    }
    check(told == 0b1100);
    out.store(thread::index(), wrong);
}

/// A signal that is set, waited for and reset, round by round, always to the same value.
#[kernel(collective)]
pub fn reset(
    all: Collective,
    there: SymSlice<SignalWord>,
    back: SymSlice<SignalWord>,
    rounds: u64,
    wrong: Global<u64>,
) {
    let (me, n) = (shmem::my_pe(), shmem::n_pes());
    let (right, left) = ((me + 1) % n, (me + n - 1) % n);
    for round in 1..=rounds {
        if Block.leader() {
            shmem::signal_op(there.at(0).set(7), right);
        }
        shmem::wait_until(Block, there.at(0), eq(7));
        Block.sync();
        if Block.leader() {
            shmem::signal_reset(there.at(0));
            if shmem::signal_fetch(there.at(0)) != 0 {
                wrong.store(0, round);
            }
            shmem::signal_op(back.at(0).set(round), left);
        }
        shmem::wait_until(Block, back.at(0), eq(round));
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
            name: "waits and tests for several words, every kind",
            run: every_form,
        },
        Case {
            name: "tests of words that stay as they are",
            run: looking,
        },
        Case {
            name: "signal_reset",
            run: resetting,
        },
    ];

    fn every_form(pe: &Pe) -> anyhow::Result<()> {
        forms(pe, full_or_little(3, 2), full_or_little(1, 31))
    }

    /// Every `step`-th of all kinds and forms.
    fn forms(pe: &Pe, rounds: u32, step: u32) -> anyhow::Result<()> {
        let mut number = 0;
        let words = 2 * pe.n() as usize + 1;
        macro_rules! each { ($($t:ident)*) => { $(
            for k in 0..36 {
                number += 1;
                if number % step != 0 {
                    continue;
                }
                let form = Form { tile: k % 3, call: k / 3 % 6, each: k / 18, rounds };
                let (word, data) = (pe.alloc::<$t>(words)?, pe.alloc::<u32>(words)?);
                let values = pe.buffer::<<$t as Kind>::Value>(words)?;
                let (told, wrong) = (pe.buffer::<u32>(words)?, pe.buffer::<u32>(2)?);
                collective_launch!(pe, wait_by::<$t><<<1, 64>>>(&word, &data, &values, &told, form, &wrong))?;
                let wrong = wrong.to_vec()?;
                ensure!(
                    wrong == [0, 0],
                    "{}, tile {}, call {}, each {}: stale data in round {}, word {} not told once (+ 1)",
                    stringify!($t), form.tile, form.call, form.each, wrong[0], wrong[1]
                );
            }
        )* } }
        each!(SignalWord CounterWord u32 i32 u64 i64);
        Ok(())
    }

    fn looking(pe: &Pe) -> anyhow::Result<()> {
        let (x, wide, out) = (pe.alloc::<i32>(5)?, pe.alloc::<i64>(5)?, pe.buffer::<u64>(64)?);
        x.write(&[-3, 0, 5, 7, -1])?;
        wide.write(&[-3, 0, 5, 7, -1])?;
        collective_launch!(pe, looks<<<1, 64>>>(&x, &wide, &out))?;
        for (t, wrong) in out.to_vec()?.into_iter().enumerate() {
            ensure!(wrong == 0, "thread {t}: questions {wrong:#b}");
        }
        Ok(())
    }

    fn resetting(pe: &Pe) -> anyhow::Result<()> {
        let (there, back, wrong) = (pe.signals(1)?, pe.signals(1)?, pe.buffer::<u64>(1)?);
        collective_launch!(pe, reset<<<1, 64>>>(&there, &back, full_or_little(20, 4), &wrong))?;
        let wrong = wrong.read(0)?;
        ensure!(wrong == 0, "not 0 in round {wrong}");
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
