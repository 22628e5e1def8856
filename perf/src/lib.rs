//! Kernels of the benchmarks.
use shmem::prelude::*;
use shmem::relaxed;

pub mod collectives;

/// What a bandwidth kernel calls.
pub mod call {
    /// put
    pub const PUT: u32 = 0;
    /// put_nbi
    pub const PUT_NBI: u32 = 1;
    /// get
    pub const GET: u32 = 2;
    /// get_nbi
    pub const GET_NBI: u32 = 3;
}

/// Each block moves its part of a buffer of `len` elements, `iters` times, stepping through `windows` copies of it on PE
/// `peer`'s side: transfers over one buffer again and again were seen to beat the link's raw rate. Gets step through as many
/// copies on this side, since those under way together write different places.
#[kernel(max_block = 1024, for<0>, for<1>, for<2>, for<3>)]
pub fn bandwidth<const CALL: u32>(there: SymSlice<u32>, here: SymSlice<u32>, windows: u32, peer: u32, iters: u32) {
    let gets = CALL == call::GET || CALL == call::GET_NBI;
    let len = there.len() / u64::from(windows);
    let part = len.div_ceil(u64::from(thread::grid_size())).next_multiple_of(4);
    let begin = part * u64::from(Block.id());
    if begin < len {
        let size = part.min(len - begin);
        let (mut at, end) = (begin, begin + len * u64::from(windows));
        for _ in 0..iters {
            let from = if gets { at } else { begin };
            let (there, here) = (there.slice(at..at + size), here.slice(from..from + size));
            match CALL {
                call::PUT => shmem::put(Block, there, here, peer),
                call::PUT_NBI => shmem::put_nbi(Block, there, here, peer),
                call::GET => shmem::get(Block, here, there, peer),
                _ => shmem::get_nbi(Block, here, there, peer),
            }
            at += len;
            if at == end {
                at = begin;
            }
        }
        shmem::quiet(Block);
    }
}

/// A block gets `here.len()` elements, again and again, from slots of PE `peer` in turn, so that no load finds its line in
/// the L1 cache.
#[kernel(max_block = 1024)]
pub fn get_by_block(here: SymSlice<u32>, there: SymSlice<u32>, peer: u32, iters: u32) {
    get_slots(Block, here, there, peer, iters);
}

/// The same by one thread, which may use all the registers there are.
#[kernel(block = 1)]
pub fn get_by_thread(here: SymSlice<u32>, there: SymSlice<u32>, peer: u32, iters: u32) {
    get_slots(Thread, here, there, peer, iters);
}

#[inline(always)]
fn get_slots<G: Tile>(tile: G, here: SymSlice<u32>, there: SymSlice<u32>, peer: u32, iters: u32) {
    let mut at = 0;
    for _ in 0..iters {
        let next = at + here.len();
        shmem::get(tile, here, there.slice(at..next), peer);
        at = if next == there.len() { 0 } else { next };
    }
}

/// PE 0 sends, PE 1 answers: p and a wait on the word itself.
#[kernel]
pub fn p_pingpong(word: SymSlice<u64>, base: u64, iters: u64) {
    let (me, word) = (shmem::my_pe(), word.at(0));
    let mut i = base;
    while i < base + iters {
        i += 1;
        if me == 0 {
            shmem::p(word, i, 1);
        }
        shmem::wait_until(Thread, word, ge(i));
        if me == 1 {
            shmem::p(word, i, 0);
        }
    }
}

/// The same with a signal. ACQUIRES 0: neither releases nor acquires.
#[kernel(for<0>, for<1>)]
pub fn signal_pingpong<const ACQUIRES: u32>(signal: SymSlice<SignalWord>, base: u64, iters: u64) {
    let (me, signal) = (shmem::my_pe(), signal.at(0));
    let send = |i| {
        if ACQUIRES == 1 {
            shmem::signal_op(signal.set(i), 1 - me);
        } else {
            relaxed::signal_op(signal.set(i), 1 - me);
        }
    };
    let mut i = base;
    while i < base + iters {
        i += 1;
        if me == 0 {
            send(i);
        }
        if ACQUIRES == 1 {
            shmem::wait_until(Thread, signal, ge(i));
        } else {
            relaxed::wait_until(Thread, signal, ge(i));
        }
        if me == 1 {
            send(i);
        }
    }
}

/// put_signal by the block, there and back.
#[kernel(max_block = 1024)]
pub fn put_signal_by_block(
    dst: SymSlice<u32>,
    src: SymSlice<u32>,
    signal: SymSlice<SignalWord>,
    base: u64,
    iters: u64,
) {
    put_signals(Block, dst, src, signal.at(0), base, iters);
}

/// put_signal by one thread, there and back.
#[kernel(block = 1)]
pub fn put_signal_by_thread(
    dst: SymSlice<u32>,
    src: SymSlice<u32>,
    signal: SymSlice<SignalWord>,
    base: u64,
    iters: u64,
) {
    put_signals(Thread, dst, src, signal.at(0), base, iters);
}

#[inline(always)]
fn put_signals<G: Tile>(tile: G, dst: SymSlice<u32>, src: SymSlice<u32>, signal: Signal, base: u64, iters: u64) {
    let me = shmem::my_pe();
    let mut i = base;
    while i < base + iters {
        i += 1;
        if me == 0 {
            shmem::put_signal(tile, dst, src, signal.set(i), 1);
        }
        shmem::wait_until(tile, signal, ge(i));
        if me == 1 {
            shmem::put_signal(tile, dst, src, signal.set(i), 0);
        }
    }
}

/// Barriers of the world by one tile.
#[kernel(collective, max_block = 1024, for<0>, for<1>, for<2>)]
pub fn barriers<const TILE: u32>(all: Collective, iters: u32) {
    for _ in 0..iters {
        match TILE {
            0 => all.barrier(Thread, shmem::world()),
            1 => all.barrier(Warp, shmem::world()),
            _ => all.barrier(Block, shmem::world()),
        }
    }
}

/// Every PE tells every other its number.
#[kernel(collective, block = 32)]
pub fn post(all: Collective, board: SymSlice<f64>, mine: f64) {
    for pe in Warp.strided(shmem::n_pes()) {
        shmem::p(board.at(shmem::my_pe()), mine, pe);
    }
    all.barrier(Warp, shmem::world());
}

/// What a launch costs that does nothing.
#[kernel(collective, block = 32)]
pub fn nothing(_all: Collective) {}

/// The same with the arguments that kernels usually have.
#[kernel(collective, block = 32)]
pub fn nothing_of(_all: Collective, _dst: SymSlice<u32>, _src: SymSlice<u32>, _ready: SymSlice<SignalWord>, _n: u64) {}
