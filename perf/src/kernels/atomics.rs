//! Atomics on words of 8 bytes at the peer. The operation is an argument: each has its own loop.

use super::in_grid;
use shmem::prelude::*;

/// Atomic operations.
pub mod amo {
    /// inc
    pub const INC: u32 = 0;
    /// add 1
    pub const ADD: u32 = 1;
    /// and [`BITS`]
    pub const AND: u32 = 2;
    /// or [`BITS`]
    pub const OR: u32 = 3;
    /// xor [`BITS`]
    pub const XOR: u32 = 4;
    /// set to [`BITS`]
    pub const SET: u32 = 5;
    /// swap with [`BITS`]
    pub const SWAP: u32 = 6;
    /// `fetch_inc`
    pub const FETCH_INC: u32 = 7;
    /// `fetch_add` 1
    pub const FETCH_ADD: u32 = 8;
    /// `fetch_and` [`BITS`]
    pub const FETCH_AND: u32 = 9;
    /// `fetch_or` [`BITS`]
    pub const FETCH_OR: u32 = 10;
    /// `fetch_xor` [`BITS`]
    pub const FETCH_XOR: u32 = 11;
    /// `compare_swap` of 0 with [`BITS`]
    pub const COMPARE_SWAP: u32 = 12;
    /// The operand of those that don't count.
    pub const BITS: u64 = 0x5555;
}

/// Whether the operation has a result.
#[inline(always)]
pub const fn fetches(op: u32) -> bool {
    op >= amo::SWAP
}

/// Applies the operation at PE `pe`; `expected` is for `compare_swap`. What the word was, or 0 where there is no result.
#[inline(always)]
fn apply<const OP: u32>(x: Sym<u64>, operand: u64, expected: u64, pe: u32) -> u64 {
    match OP {
        amo::INC => shmem::inc(x, pe),
        amo::ADD => shmem::add(x, operand, pe),
        amo::AND => shmem::and(x, operand, pe),
        amo::OR => shmem::or(x, operand, pe),
        amo::XOR => shmem::xor(x, operand, pe),
        amo::SET => shmem::set(x, operand, pe),
        amo::SWAP => return shmem::swap(x, operand, pe),
        amo::FETCH_INC => return shmem::fetch_inc(x, pe),
        amo::FETCH_ADD => return shmem::fetch_add(x, operand, pe),
        amo::FETCH_AND => return shmem::fetch_and(x, operand, pe),
        amo::FETCH_OR => return shmem::fetch_or(x, operand, pe),
        amo::FETCH_XOR => return shmem::fetch_xor(x, operand, pe),
        _ => return shmem::compare_swap(x, expected, operand, pe),
    }
    0
}

/// What an operation is given where its values need not rise.
#[inline(always)]
const fn operand(op: u32) -> u64 {
    match op {
        amo::ADD | amo::FETCH_ADD => 1,
        _ => amo::BITS,
    }
}

/// A loop of one operation.
trait Loop {
    fn run<const OP: u32>(self);
}

/// Runs the loop of operation `op`.
#[inline(always)]
fn select(op: u32, of: impl Loop) {
    match op {
        amo::INC => of.run::<{ amo::INC }>(),
        amo::ADD => of.run::<{ amo::ADD }>(),
        amo::AND => of.run::<{ amo::AND }>(),
        amo::OR => of.run::<{ amo::OR }>(),
        amo::XOR => of.run::<{ amo::XOR }>(),
        amo::SET => of.run::<{ amo::SET }>(),
        amo::SWAP => of.run::<{ amo::SWAP }>(),
        amo::FETCH_INC => of.run::<{ amo::FETCH_INC }>(),
        amo::FETCH_ADD => of.run::<{ amo::FETCH_ADD }>(),
        amo::FETCH_AND => of.run::<{ amo::FETCH_AND }>(),
        amo::FETCH_OR => of.run::<{ amo::FETCH_OR }>(),
        amo::FETCH_XOR => of.run::<{ amo::FETCH_XOR }>(),
        _ => of.run::<{ amo::COMPARE_SWAP }>(),
    }
}

/// The same operation on one word (`stride` 0) or on one for each thread (1), again and again.
#[kernel(max_block = 1024)]
pub fn atomic_rate(op: u32, words: SymSlice<u64>, stride: u32, peer: u32, iters: u32) {
    struct Rate(Sym<u64>, u32, u32);
    impl Loop for Rate {
        #[inline(always)]
        fn run<const OP: u32>(self) {
            let Self(x, peer, iters) = self;
            for _ in 0..iters {
                apply::<OP>(x, operand(OP), 0, peer);
            }
        }
    }
    let x = words.at(u64::from(stride) * in_grid().0);
    select(op, Rate(x, peer, iters));
    shmem::quiet(Block);
}

/// One operation at a time: each waits for the result of the one before, or for its quiet where it has none. `last` becomes
/// the last result.
#[kernel(block = 1)]
pub fn atomic_latency(op: u32, word: Sym<u64>, last: Global<u64>, peer: u32, iters: u32) {
    struct Latency(Sym<u64>, Global<u64>, u32, u32);
    impl Loop for Latency {
        #[inline(always)]
        fn run<const OP: u32>(self) {
            let Self(x, last, peer, iters) = self;
            let mut old = 0;
            for _ in 0..iters {
                // The top bit is never set: no word counts that far.
                old = apply::<OP>(x, operand(OP) + (old >> 63), 0, peer);
                if !fetches(OP) {
                    shmem::quiet(Thread);
                }
            }
            last.store(0, old);
        }
    }
    select(op, Latency(word, last, peer, iters));
}

/// PE 0 makes the word of PE 1 one more, PE 1 that of PE 0, by an operation whose values can rise: not `and` and `or`.
#[kernel(block = 1)]
pub fn atomic_pingpong(op: u32, word: Sym<u64>, base: u64, iters: u64) {
    struct Pingpong(Sym<u64>, u64, u64);
    impl Loop for Pingpong {
        #[inline(always)]
        fn run<const OP: u32>(self) {
            let Self(x, base, iters) = self;
            let me = shmem::my_pe();
            let send = |i: u64| {
                let operand = match OP {
                    amo::ADD | amo::FETCH_ADD => 1,
                    amo::XOR | amo::FETCH_XOR => i ^ (i - 1),
                    _ => i,
                };
                apply::<OP>(x, operand, i - 1, 1 - me);
            };
            let mut i = base;
            while i < base + iters {
                i += 1;
                if me == 0 {
                    send(i);
                }
                shmem::wait_until(Thread, x, ge(i));
                if me == 1 {
                    send(i);
                }
            }
        }
    }
    select(op, Pingpong(word, base, iters));
}
