//! Sums and extremes over tiles, and what a warp reduces and matches.
use shmem::prelude::*;
use shmem::reduce::Number;

pub trait Element: Number + KernelArg {}
impl Element for f32 {}
impl Element for f64 {}
impl Element for u32 {}
impl Element for i32 {}
impl Element for u64 {}
impl Element for i64 {}

/// Rows 9 to 11 of `out`, by blocks of any size.
#[kernel(for<f32>, for<f64>, for<u32>, for<i32>, for<u64>, for<i64>)]
pub fn of_block<T: Element>(x: Global<T>, out: Global<T>) {
    let (t, size) = (thread::index(), thread::block_size());
    let v = x.load(t);
    let row = |r: u32| out.chunk(r, size);
    // One after the other, so that a slow member would see the next one's words.
    let (sum, max, min) = (Block.sum(v), Block.max(v), Block.min(v));
    row(9).store(t, sum);
    row(10).store(t, max);
    row(11).store(t, min);
}

/// Rows 0 to 8: thread, four lanes, warp.
#[kernel(for<f32>, for<f64>, for<u32>, for<i32>, for<u64>, for<i64>)]
pub fn of_tiles<T: Element>(x: Global<T>, out: Global<T>) {
    let (t, size) = (thread::index(), thread::block_size());
    let v = x.load(t);
    let row = |r: u32| out.chunk(r, size);
    row(0).store(t, Thread.sum(v));
    row(1).store(t, Thread.max(v));
    row(2).store(t, Thread.min(v));
    row(3).store(t, SubWarp::<4>.sum(v));
    row(4).store(t, SubWarp::<4>.max(v));
    row(5).store(t, SubWarp::<4>.min(v));
    row(6).store(t, Warp.sum(v));
    row(7).store(t, Warp.max(v));
    row(8).store(t, Warp.min(v));
}

/// Types of different size after each other, many times.
#[kernel]
pub fn in_turns(wrong: Global<u32>) {
    let t = thread::index();
    let n = u64::from(thread::block_size());
    for round in 0..6u32 {
        let wide = Block.sum(u64::from(t) << 33);
        let narrow = Block.sum(t + round);
        let float = Block.max(f64::from(t) * 0.5);
        let small = Block.min(t as f32 - 3.0);
        let all = wide == n * (n - 1) / 2 << 33
            && u64::from(narrow) == n * (n - 1) / 2 + n * u64::from(round)
            && float == (n - 1) as f64 * 0.5
            && small == -3.0;
        if !all {
            wrong.store(0, round + 1);
        }
    }
}

#[kernel(block = 64)]
pub fn of_warp(x: Global<u32>, out: Global<u32>) {
    let t = thread::index();
    let v = x.load(t);
    let signed = v as i32;
    let results = [
        warp::reduce_add(v),
        warp::reduce_min(v),
        warp::reduce_max(v),
        warp::reduce_min(signed) as u32,
        warp::reduce_max(signed) as u32,
        warp::reduce_and(v),
        warp::reduce_or(v),
        warp::reduce_xor(v),
        warp::match_any(v % 3),
        warp::match_any(u64::from(v % 5) << 40),
        u32::from(warp::match_all(v)) | u32::from(warp::match_all(t / 32)) << 1,
        warp::shuffle_up(v, 3),
        warp::shuffle_down(u64::from(v) << 7, 5) as u32,
    ];
    let mut i = 0;
    while i < results.len() {
        out.chunk(t, results.len()).store(i, results[i]);
        i += 1;
    }
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::suite::{Case, full_or_little, noise};
    use anyhow::ensure;
    use shmem_host::{Pe, collective_launch};

    pub const CASES: &[Case] = &[
        Case {
            name: "sum, max, min: floats",
            run: floats,
        },
        Case {
            name: "sum, max, min: integers",
            run: integers,
        },
        Case {
            name: "sum, max, min: types in turns",
            run: turns,
        },
        Case {
            name: "reductions and matches of a warp",
            run: warps,
        },
    ];

    /// The order that the module promises: halves of the distance, within warps and then among them.
    fn tree<T: Element>(values: &[T], f: &dyn Fn(T, T) -> T) -> T {
        let mut v = values.to_vec();
        let mut distance = 16;
        while distance > 0 {
            for i in 0..v.len() {
                if i + distance < v.len() {
                    v[i] = f(v[i], v[i + distance]);
                }
            }
            distance /= 2;
        }
        v[0]
    }

    fn block<T: Element>(values: &[T], f: &dyn Fn(T, T) -> T) -> T {
        let warps: Vec<T> = values.chunks(32).map(|warp| tree(warp, f)).collect();
        tree(&warps, f)
    }

    type Op<T> = Box<dyn Fn(T, T) -> T>;

    fn of<T: Element>(pe: &Pe, number: impl Fn(u64) -> T, ops: &[Op<T>; 3]) -> anyhow::Result<()>
    where
        of_block<T>: shmem::Kernel<Args = (Global<T>, Global<T>)>,
        of_tiles<T>: shmem::Kernel<Args = (Global<T>, Global<T>)>,
    {
        let most = if pe.n() > 2 { 200 } else { 1000 };
        for &size in full_or_little(&[32u32, 96, 40, 1, 33, most][..], &[64, 40]) {
            let values: Vec<T> = (0..size).map(|i| number(noise(u64::from(size), i.into()))).collect();
            let n = size as usize;
            let (x, out) = (pe.buffer::<T>(n)?, pe.buffer::<T>(12 * n)?);
            x.write(&values)?;
            let whole_warps = size % 32 == 0;
            collective_launch!(pe, of_block::<T><<<1, size>>>(&x, &out))?;
            if whole_warps {
                collective_launch!(pe, of_tiles::<T><<<1, size>>>(&x, &out))?;
            }
            let out = out.to_vec()?;
            for (o, op) in ops.iter().enumerate() {
                let expect = |row: usize, t: usize, expected: T| {
                    let got = out[row * n + t];
                    ensure!(
                        bits(&got) == bits(&expected),
                        "block of {size}, row {row}, thread {t}: {:x?}, expected {:x?}",
                        bits(&got),
                        bits(&expected)
                    );
                    Ok(())
                };
                let of_block = block(&values, op);
                for t in 0..n {
                    expect(9 + o, t, of_block)?;
                    if whole_warps {
                        expect(o, t, values[t])?;
                        expect(3 + o, t, butterfly(&values[t / 4 * 4..][..4], op))?;
                        expect(6 + o, t, butterfly(&values[t / 32 * 32..][..32], op))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn butterfly<T: Element>(values: &[T], f: &dyn Fn(T, T) -> T) -> T {
        let mut v = values.to_vec();
        let mut distance = v.len() / 2;
        while distance > 0 {
            v = (0..v.len()).map(|i| f(v[i], v[i ^ distance])).collect();
            distance /= 2;
        }
        v[0]
    }

    fn bits<T: Pod>(value: &T) -> &[u8] {
        shmem::bytemuck::bytes_of(value)
    }

    fn floats(pe: &Pe) -> anyhow::Result<()> {
        // -0 and +0 among them, so that an extreme that may return either shows.
        let number = |r: u64| match r % 8 {
            0 => 0.0,
            1 => -0.0,
            _ => (r >> 40) as f32 * 1.37 - 9e6,
        };
        let signed_max = |a: f32, b: f32| {
            if a == b {
                f32::from_bits(a.to_bits() & b.to_bits())
            } else {
                a.max(b)
            }
        };
        let signed_min = |a: f32, b: f32| {
            if a == b {
                f32::from_bits(a.to_bits() | b.to_bits())
            } else {
                a.min(b)
            }
        };
        of::<f32>(
            pe,
            number,
            &[Box::new(|a, b| a + b), Box::new(signed_max), Box::new(signed_min)],
        )?;
        let only_zeros = |r: u64| if r.is_multiple_of(2) { 0.0 } else { -0.0 };
        of::<f32>(
            pe,
            only_zeros,
            &[Box::new(|a, b| a + b), Box::new(signed_max), Box::new(signed_min)],
        )?;
        of::<f64>(
            pe,
            |r| r as f64 * 1e-3 - 1e15,
            &[Box::new(|a, b| a + b), Box::new(f64::max), Box::new(f64::min)],
        )
    }

    fn integers(pe: &Pe) -> anyhow::Result<()> {
        macro_rules! each {
            ($($t:ty)*) => { $(of::<$t>(
                pe,
                |r| r as $t,
                &[Box::new(<$t>::wrapping_add), Box::new(|a, b| a.max(b)), Box::new(|a, b| a.min(b))],
            )?;)* };
        }
        each!(u32 i32 u64 i64);
        Ok(())
    }

    fn turns(pe: &Pe) -> anyhow::Result<()> {
        let wrong = pe.buffer::<u32>(1)?;
        for &size in full_or_little(&[1u32, 64, 250][..], &[70]) {
            wrong.write(&[0])?;
            collective_launch!(pe, in_turns<<<2, size>>>(&wrong))?;
            ensure!(wrong.read(0)? == 0, "block of {size}, round {}", wrong.read(0)? - 1);
        }
        Ok(())
    }

    fn warps(pe: &Pe) -> anyhow::Result<()> {
        let values: Vec<u32> = (0..64).map(|i| noise(3, i) as u32 | 1 << 20).collect();
        let (x, out) = (pe.buffer::<u32>(64)?, pe.buffer::<u32>(64 * 13)?);
        x.write(&values)?;
        collective_launch!(pe, of_warp<<<1, 64>>>(&x, &out))?;
        for (t, got) in out.to_vec()?.chunks(13).enumerate() {
            let (lane, mine) = (t % 32, &values[t / 32 * 32..][..32]);
            let v = mine[lane];
            let signed = || mine.iter().map(|&v| v as i32);
            let alike =
                |same: &dyn Fn(u32) -> bool| (0..32).filter(|&i| same(mine[i])).fold(0u32, |bits, i| bits | 1 << i);
            let expected = [
                mine.iter().fold(0u32, |a, &b| a.wrapping_add(b)),
                *mine.iter().min().unwrap(),
                *mine.iter().max().unwrap(),
                signed().min().unwrap() as u32,
                signed().max().unwrap() as u32,
                mine.iter().fold(!0, |a, b| a & b),
                mine.iter().fold(0, |a, b| a | b),
                mine.iter().fold(0, |a, b| a ^ b),
                alike(&|w| w % 3 == v % 3),
                alike(&|w| w % 5 == v % 5),
                2,
                mine[lane.checked_sub(3).unwrap_or(lane)],
                *mine.get(lane + 5).unwrap_or(&v) << 7,
            ];
            ensure!(got == expected, "thread {t}: {got:x?}, expected {expected:x?}");
        }
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
