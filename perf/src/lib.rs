//! Kernels of the benchmarks.
use shmem::prelude::*;
use shmem::relaxed;

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
/// `peer`'s side: transfers over one buffer again and again were seen to beat the link's raw rate.
#[kernel(max_block = 1024, for<0>, for<1>, for<2>, for<3>)]
pub fn bandwidth<const CALL: u32>(there: SymSlice<u32>, here: SymSlice<u32>, windows: u32, peer: u32, iters: u32) {
    let len = here.len();
    let part = len.div_ceil(u64::from(thread::grid_size())).next_multiple_of(4);
    let begin = part * u64::from(Block.id());
    if begin < len {
        let end = (begin + part).min(len);
        let here = here.slice(begin..end);
        let mut window = 0;
        for _ in 0..iters {
            let there = there.chunk(window, len).slice(begin..end);
            match CALL {
                call::PUT => shmem::put(Block, there, here, peer),
                call::PUT_NBI => shmem::put_nbi(Block, there, here, peer),
                call::GET => shmem::get(Block, here, there, peer),
                _ => shmem::get_nbi(Block, here, there, peer),
            }
            window = if window + 1 == windows { 0 } else { window + 1 };
        }
        shmem::quiet(Block);
    }
}

/// One tile gets `here.len()` elements, again and again, from slots of PE `peer` in turn, so that no load finds its line in
/// the L1 cache.
#[kernel(max_block = 1024, for<0>, for<1>)]
pub fn get_latency<const BLOCK: u32>(here: SymSlice<u32>, there: SymSlice<u32>, peer: u32, iters: u32) {
    let slots = (there.len() / here.len()) as u32;
    let mut slot = 0;
    for _ in 0..iters {
        let there = there.chunk(slot, here.len());
        if BLOCK == 1 {
            shmem::get(Block, here, there, peer);
        } else {
            shmem::get(Thread, here, there, peer);
        }
        slot = if slot + 1 == slots { 0 } else { slot + 1 };
    }
}

/// PE 0 sends, PE 1 answers: p and a wait on the word itself.
#[kernel]
pub fn p_pingpong(word: SymSlice<u64>, base: u64, iters: u64) {
    let (me, word) = (shmem::my_pe(), word.at(0));
    for i in base + 1..=base + iters {
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
    for i in base + 1..=base + iters {
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

/// put_signal by one thread or by the block, there and back.
#[kernel(max_block = 1024, for<0>, for<1>)]
pub fn put_signal_pingpong<const BLOCK: u32>(
    dst: SymSlice<u32>,
    src: SymSlice<u32>,
    signal: SymSlice<SignalWord>,
    base: u64,
    iters: u64,
) {
    let (me, signal) = (shmem::my_pe(), signal.at(0));
    let send = |i| {
        if BLOCK == 1 {
            shmem::put_signal(Block, dst, src, signal.set(i), 1 - me);
        } else {
            shmem::put_signal(Thread, dst, src, signal.set(i), 1 - me);
        }
    };
    for i in base + 1..=base + iters {
        if me == 0 {
            send(i);
        }
        shmem::wait_until(Block, signal, ge(i));
        if me == 1 {
            send(i);
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
