//! One kernel for each call, to see what it costs: `tests/table.rs` compares the registers and the instructions of each with
//! the table in `docs/src/costs.md`. Nobody launches them.
//!
//! They have parameters for all that a call may need; what a kernel does not use costs nothing. Values are arguments,
//! so that no check is decided by the compiler, except for the length of a tile, which usually is a constant.
#![allow(
    clippy::too_many_arguments,
    clippy::unit_arg,
    missing_docs,
    unused_variables,
    reason = "each kernel is one call, and all have the same parameters"
)]

use shmem::async_copy::{commit, copy_async, wait_group};
use shmem::prelude::*;
use shmem::relaxed;
use shmem::vector::F32x4;
use shmem::*;

/// A kernel and the call that it makes.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The call as it is written in the kernel.
    pub call: &'static str,
    pub symbol: &'static str,
}

/// The PTX that holds all of them.
#[cfg(not(target_arch = "nvptx64"))]
pub fn images() -> &'static Images {
    nothing::images()
}

/// | part | what it is |
/// |---|---|
/// | `out` | the parameter that a result is written to |
/// | `(all: Collective, ..)` | the parameters of every kernel |
/// | `put_block = put(Block, dst, src, pe);` | a kernel's name, and the call that it makes and that names its row |
macro_rules! calls {
    ($out:ident in $parameters:tt $($name:ident = $call:expr;)*) => {
        $(
            #[kernel(collective)]
            pub fn $name $parameters {
                keep($out, $call);
            }
        )*

        /// Every kernel, in the order of the table.
        #[cfg(not(target_arch = "nvptx64"))]
        pub const ROWS: &[Row] = &[$(Row { call: stringify!($call), symbol: <$name as Kernel>::SYMBOL }),*];
    };
}

calls! {
    out in (
        all: Collective, out: *mut u64, pe: u32, i: u64, n: u64, v: u32, v64: u64,
        dst: SymSlice<u32>, src: SymSlice<u32>, local: Global<u32>, bytes: SymSlice<u8>, lines: SymSlice<F32x4>,
        word: Sym<u32>, long: Sym<u64>, float: Sym<f32>, halves: Sym<F16x2>, brains: Sym<Bf16x2>,
        signal: Signal, counter: Counter, signals: SymSlice<SignalWord>, found: Global<u32>,
        team: Team, floats: SymSlice<f32>, brain_floats: SymSlice<bf16>, parts: SymSlice<collective::Part>, packets: SymSlice<Packet<u32>>, packets_12: SymSlice<Packet<[u32; 3]>>
    )

    nothing = ();
    me = my_pe();
    load = src.load(i);
    store = dst.store(i, v);

    p_u32 = p(dst.at(i), v, pe);
    p_16_bytes = p(lines.at(i), F32x4([1.0; 4]), pe);
    p_by_team = p(dst.at(i), v, world().pe(pe));
    p_by_made_team = p(dst.at(i), v, team.pe(pe));
    g_u32 = g(src.at(i), pe);

    put_thread = put(Thread, dst, src, pe);
    put_warp = put(Warp, dst, src, pe);
    put_block = put(Block, dst, src, pe);
    put_group = put(Block.groups::<4>(), dst, src, pe);
    put_grid = put(all.grid(), dst, src, pe);
    put_global = put(Block, dst, local, pe);
    put_shared = put(Block, dst, shared::dynamic(), pe);
    put_bytes = put(Block, bytes, bytes.slice(0..i), pe);
    put_16_bytes = put(Block, lines, lines.slice(0..i), pe);
    put_computed = put(Block, dst, computed(dst, |k| local.load(k) + v), pe);
    put_nbi_thread = put_nbi(Thread, dst, src, pe);
    put_nbi_warp = put_nbi(Warp, dst, src, pe);
    put_nbi_block = put_nbi(Block, dst, src, pe);
    put_signal_thread = put_signal(Thread, dst, src, signal.set(v64), pe);
    put_signal_warp = put_signal(Warp, dst, src, signal.set(v64), pe);
    put_signal_block = put_signal(Block, dst, src, signal.set(v64), pe);
    put_signal_add = put_signal(Block, dst, src, counter.add(v64), pe);
    put_signal_nbi_block = put_signal_nbi(Block, dst, src, signal.set(v64), pe);
    batch_of_two = {
        let b = batch(Block);
        b.put(dst, src, pe);
        b.put(lines, lines.slice(0..i), pe);
        b.quiet()
    };

    get_thread = get(Thread, dst, src, pe);
    get_warp = get(Warp, dst, src, pe);
    get_block = get(Block, dst, src, pe);
    get_bytes = get(Block, bytes, bytes.slice(0..i), pe);
    get_nbi_thread = get_nbi(Thread, dst, src, pe);
    get_nbi_block = get_nbi(Block, dst, src, pe);

    iput_thread = iput(Thread, dst, src, i, v64, n, pe);
    iput_block = iput(Block, dst, src, i, v64, n, pe);
    iput_nbi_block = iput_nbi(Block, dst, src, i, v64, n, pe);
    iget_thread = iget(Thread, dst, src, i, v64, n, pe);
    iget_block = iget(Block, dst, src, i, v64, n, pe);
    iget_nbi_block = iget_nbi(Block, dst, src, i, v64, n, pe);

    signal_set = signal_op(signal.set(v64), pe);
    signal_add = signal_op(counter.add(v64), pe);
    signal_set_relaxed = relaxed::signal_op(signal.set(v64), pe);
    signal_value = signal_fetch(signal);
    signal_zero = signal_reset(signal);

    atomic_fetch = fetch(word, pe);
    atomic_set = set(word, v, pe);
    atomic_add = add(word, v, pe);
    atomic_add_release = add_release(word, v, pe);
    atomic_inc = inc(word, pe);
    atomic_or = or(word, v, pe);
    atomic_fetch_add = fetch_add(word, v, pe);
    atomic_fetch_add_acqrel = fetch_add_acqrel(word, v, pe);
    atomic_fetch_add_u64 = fetch_add(long, v64, pe);
    atomic_fetch_add_f32 = fetch_add(float, v as f32, pe);
    atomic_fetch_add_f16x2 = fetch_add(halves, F16x2([f16::ONE; 2]), pe);
    atomic_fetch_add_bf16x2 = fetch_add(brains, Bf16x2([bf16::ONE; 2]), pe);
    atomic_fetch_xor = fetch_xor(word, v, pe);
    atomic_swap = swap(word, v, pe);
    atomic_compare_swap = compare_swap(word, v, 1, pe);
    word_fetch_add = local.word::<scope::Gpu>(i).fetch_add(v);

    packet_send = packet::send(packets.at(i), v, v, pe);
    packet_receive = packet::receive(packets.at(i), v);
    packet_send_12 = packet::send(packets_12.at(i), [v; 3], v, pe);
    packet_receive_12 = packet::receive(packets_12.at(i), v);

    wait_signal_thread = wait_until(Thread, signal, ge(v64));
    wait_signal_warp = wait_until(Warp, signal, ge(v64));
    wait_signal_block = wait_until(Block, signal, ge(v64));
    wait_signal_relaxed = relaxed::wait_until(Thread, signal, ge(v64));
    wait_counter_thread = wait_until(Thread, counter, ge(v64));
    wait_word_thread = wait_until(Thread, word, eq(v));
    wait_word_block = wait_until(Block, word, eq(v));
    wait_word_relaxed = relaxed::wait_until(Thread, word, eq(v));
    wait_all_thread = wait_until_all(Thread, signals, ge(v64));
    wait_all_block = wait_until_all(Block, signals, ge(v64));
    wait_any_thread = wait_until_any(Thread, signals, ge(v64));
    wait_any_block = wait_until_any(Block, signals, ge(v64));
    wait_some_thread = wait_until_some(Thread, signals, ge(v64), found);
    wait_some_block = wait_until_some(Block, signals, ge(v64), found);
    test_thread = test(Thread, signal, ge(v64));
    test_block = test(Block, signal, ge(v64));
    test_any_thread = test_any(Thread, signals, ge(v64));
    test_any_block = test_any(Block, signals, ge(v64));

    fence_thread = fence(Thread);
    fence_block = fence(Block);
    quiet_thread = quiet(Thread);
    quiet_block = quiet(Block);
    flush_thread = flush(Thread);
    flush_block = flush(Block);
    barrier_thread = all.barrier(Thread, world());
    barrier_warp = all.barrier(Warp, world());
    barrier_block = all.barrier(Block, world());
    barrier_made_team = all.barrier(Block, team);
    broadcast_block = all.broadcast(Block, world(), dst, src, pe);
    fcollect_block = all.fcollect(Block, world(), dst, src);
    alltoall_block = all.alltoall(Block, world(), dst, src);
    alltoallv_block = all.alltoallv(Block, world(), dst, src, parts, parts);
    reduce_thread = all.reduce(Thread, world(), collective::Sum, floats, floats);
    reduce_block = all.reduce(Block, world(), collective::Sum, floats, floats);
    reduce_block_packets = all.by(collective::Algorithm::Packets).reduce(Block, world(), collective::Sum, floats, floats);
    reduce_block_bf16 = all.reduce(Block, world(), collective::Sum, brain_floats, brain_floats);
    reduce_made_team = all.reduce(Block, team, collective::Sum, floats, floats);
    reduce_grid = all.reduce(all.grid(), world(), collective::Sum, floats, floats);
    reduce_scatter_block = all.reduce_scatter(Block, world(), collective::Sum, floats, floats);
    sync_thread = all.sync(Thread, world());
    sync_block = all.sync(Block, world());
    sync_tile = Block.sync();
    sync_group = Block.groups::<4>().sync();
    sync_grid = all.grid().sync();

    ptr_load = ptr(src.at(i), pe).map(PeerPtr::load);
    ptr_store = ptr(dst.at(i), pe).map(|at| at.store(v));
    register_tile = write(Block, dst, read::<4, u32, _>(Block, src));
    sum_warp = Warp.sum(v);
    sum_block = Block.sum(v);
    sum_block_f32 = Block.sum(v as f32);
    copy_async_block = copy_async(Block, shared::dynamic::<u32>(), src);
    copy_async_all = {
        copy_async(Block, shared::dynamic::<F32x4>(), lines);
        commit();
        wait_group::<0>()
    };
}

/// Writes a call's result, if it has one, without a check: the row is to be the call's cost.
#[inline(always)]
fn keep<R: Copy>(out: *mut u64, result: R) {
    if size_of::<R>() != 0 {
        // SAFETY: nobody launches these kernels; `out` would have room for any result.
        unsafe { out.cast::<R>().write(result) }
    }
}
