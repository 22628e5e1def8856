//! Half round trips: PE 0 sends, PE 1 answers. Values rise from `base + 1`, from launch to launch.

use super::by_scope;
use shmem::bulk::Engine;
use shmem::prelude::*;
use shmem::relaxed;

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

by_scope! {
    put_signal_by_thread put_signal_by_warp put_signal_by_block =
        put_signals(dst: SymSlice<u32>, src: SymSlice<u32>, signal: Signal, base: u64, iters: u64),
        "put_signal, there and back.";
    put_pingpong_by_thread put_pingpong_by_warp put_pingpong_by_block =
        puts(dst: SymSlice<u32>, src: SymSlice<u32>, signal: Signal, base: u64, iters: u64),
        "put, fence and a signal of its own, there and back.";
}

#[inline(always)]
fn put_signals<G: Tile>(tile: G, dst: SymSlice<u32>, src: SymSlice<u32>, signal: Signal, base: u64, iters: u64) {
    back_and_forth(tile, signal, base, iters, |i, to| {
        shmem::put_signal(tile, dst, src, signal.set(i), to);
    });
}

/// `put_signal` of a block's bulk engine over the dynamic shared memory, there and back.
#[kernel(max_block = 1024)]
pub fn put_signal_in_bulk(dst: SymSlice<u32>, src: SymSlice<u32>, signal: Signal, base: u64, iters: u64) {
    let mut engine = Engine::new(Block, shmem::shared::dynamic::<u8>());
    back_and_forth(Block, signal, base, iters, |i, to| {
        engine.put_signal(dst, src, signal.set(i), to);
    });
}

#[inline(always)]
fn puts<G: Tile>(tile: G, dst: SymSlice<u32>, src: SymSlice<u32>, signal: Signal, base: u64, iters: u64) {
    back_and_forth(tile, signal, base, iters, |i, to| {
        shmem::put(tile, dst, src, to);
        shmem::fence(tile);
        if tile.leader() {
            shmem::signal_op(signal.set(i), to);
        }
    });
}

#[inline(always)]
fn back_and_forth<G: Tile>(tile: G, signal: Signal, base: u64, iters: u64, mut send: impl FnMut(u64, u32)) {
    let (me, last) = (shmem::my_pe(), base + iters);
    if me == 1 {
        shmem::wait_until(tile, signal, ge(base + 1));
    }
    // Both send in one place: a call in two would not be inlined.
    let mut i = base;
    while i < last {
        i += 1;
        send(i, 1 - me);
        let answer = i + u64::from(me);
        if answer <= last {
            shmem::wait_until(tile, signal, ge(answer));
        }
    }
}
