//! Atomics as entries. Adapters add, compare and swap, and do so under masks; floats they don't add.
//!
//! | operation | 8 bytes | 4 bytes |
//! |---|---|---|
//! | add | fetch-add | masked fetch-add, one field |
//! | compare-swap | compare-swap | masked compare-swap |
//! | swap, set, and, or | masked compare-swap that compares nothing | the same |
//! | xor | masked fetch-add, every bit a field | the same |
//! | fetch | read | the same |
//! | add of floats | read, then compare-swaps until one succeeds | the same |
//!
//! An answer of 4 bytes is big-endian, one of 8 native.

use super::place::remote;
use super::queue::Queue;
use super::rma::load_words;
use crate::arch::{self, Space, Strength};
use crate::atomic::{AtomicAdd, Sum};
use crate::team::Peer;
use crate::vector::U64x2;
use crate::{Bf16x2, F16x2};
use shmem_mlx5::entry::{self, Masked};
use shmem_mlx5::{Local, Post, Unit};

/// What is done to the word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Fetch,
    Add,
    Set,
    Swap,
    CompareSwap,
    And,
    Or,
    Xor,
}

/// Does it to the word at this offset of a PE's heap; what was there, where that is wanted.
#[inline(always)]
#[track_caller]
pub(crate) fn access<T: AtomicAdd>(op: Op, at: (u64, Peer), value: T, expected: T, wanted: bool) -> T {
    let (value, expected) = (bits(value), bits(expected));
    let four = size_of::<T>() == 4;
    if op == Op::Add && T::SUM != Sum::Integer {
        return of_bits(add_float(T::SUM, four, at, value));
    }
    of_bits(integer(op, four, at, value, expected, wanted))
}

#[inline(always)]
fn bits<T: AtomicAdd>(value: T) -> u64 {
    let (words, _) = arch::to_words(value);
    u64::from(words[0]) | u64::from(words[1]) << 32
}

#[inline(always)]
fn of_bits<T: AtomicAdd>(bits: u64) -> T {
    arch::from_words([bits as u32, (bits >> 32) as u32, 0, 0])
}

#[inline(never)]
#[track_caller]
fn integer(op: Op, four: bool, at: (u64, Peer), value: u64, expected: u64, wanted: bool) -> u64 {
    let (offset, to) = at;
    if op == Op::Fetch {
        let U64x2([word, _]) = load_words(offset, if four { 4 } else { 8 }, to);
        return if four { word & 0xffff_ffff } else { word };
    }
    let (queue, place) = (Queue::of(to), remote(to.pe, offset));
    // Masks: compare nothing, replace these bits.
    let (swap, mask) = match op {
        Op::And => (0, !value),
        Op::Or => (value, value),
        _ => (value, !0),
    };
    let compare_mask = if op == Op::CompareSwap { !0 } else { 0 };
    let masked = Masked {
        swap,
        compare: expected,
        swap_mask: mask,
        compare_mask,
    };
    if four {
        let masked = Masked {
            swap: swap as u32,
            compare: expected as u32,
            swap_mask: mask as u32,
            compare_mask: compare_mask as u32,
        };
        let field = if op == Op::Xor { !0 } else { 0 };
        return match op {
            Op::Add | Op::Xor => send(queue, wanted, true, |post, old| {
                entry::masked_fetch_add32(post, place, value as u32, field, old)
            }),
            _ => send(queue, wanted, true, |post, old| {
                entry::masked_compare_swap32(post, place, masked, old)
            }),
        };
    }
    match op {
        Op::Add => send(queue, wanted, false, |post, old| {
            entry::fetch_add(post, place, value, old)
        }),
        Op::Xor => send(queue, wanted, false, |post, old| {
            entry::masked_fetch_add64(post, place, value, !0, old)
        }),
        Op::CompareSwap => send(queue, wanted, false, |post, old| {
            entry::compare_swap(post, place, expected, value, old)
        }),
        _ => send(queue, wanted, false, |post, old| {
            entry::masked_compare_swap64(post, place, masked, old)
        }),
    }
}

/// Posts it; what was there, where that is wanted.
#[inline(always)]
#[track_caller]
fn send<const N: usize>(queue: Queue, wanted: bool, four: bool, build: impl FnOnce(Post, Local) -> [Unit; N]) -> u64 {
    if wanted {
        queue.ask(build, |landing| old(landing, four))
    } else {
        queue.post(false, |post| build(post, queue.nowhere()));
        0
    }
}

#[inline(always)]
#[track_caller]
fn old(landing: u64, four: bool) -> u64 {
    // SAFETY: a landing.
    unsafe {
        if four {
            let word: u32 = arch::load(landing, Space::Global, Strength::Relaxed);
            u32::from_be(word).into()
        } else {
            arch::load(landing, Space::Global, Strength::Relaxed)
        }
    }
}

/// A round fails only where another one has succeeded.
#[inline(never)]
#[track_caller]
fn add_float(sum: Sum, four: bool, at: (u64, Peer), value: u64) -> u64 {
    let mut seen = integer(Op::Fetch, four, at, 0, 0, true);
    loop {
        let new = match sum {
            Sum::F64 => (f64::from_bits(seen) + f64::from_bits(value)).to_bits(),
            Sum::F32 => float(seen as u32, value as u32, |a: f32, b| a + b),
            Sum::F16x2 => float(seen as u32, value as u32, |a: F16x2, b| {
                F16x2::from_f32(sums(a.f32(), b.f32()))
            }),
            _ => float(seen as u32, value as u32, |a: Bf16x2, b| {
                Bf16x2::from_f32(sums(a.f32(), b.f32()))
            }),
        };
        let found = integer(Op::CompareSwap, four, at, new, seen, true);
        if found == seen {
            return seen;
        }
        seen = found;
    }
}

#[inline(always)]
fn float<T: AtomicAdd>(a: u32, b: u32, sum: impl Fn(T, T) -> T) -> u64 {
    bits(sum(of_bits(a.into()), of_bits(b.into())))
}

#[inline(always)]
fn sums(a: [f32; 2], b: [f32; 2]) -> [f32; 2] {
    [a[0] + b[0], a[1] + b[1]]
}
