//! `shmem-perf BENCHMARK..`: the benchmarks of NVSHMEM's perftests and of `shared/peer`, with rows that match the latter's.

mod atomics;
mod barrier;
mod bench;
mod cli;
mod collective;
mod collective_data;
mod compare;
mod copy_engine;
mod init;
mod latency;
mod launch;
mod on_stream;
mod options;
mod ordering;
mod output;
mod packets;
mod peer;
mod pingpong;
mod plot_table;
mod rma_bw;
mod row;
mod run;
mod word_bw;

use bench::Bench;
use options::Takes::{self, AtomicOp, Bidir, Ctas, Datatype, Iterations, ReduceOp, Scope, Sizes, Threads};
use std::process::ExitCode;

/// One benchmark.
struct Benchmark {
    /// Its name on the command line.
    name: &'static str,
    /// The name of NVSHMEM's program, where it is another one.
    perftest: &'static str,
    /// What it measures.
    what: &'static str,
    /// Options that it has a use for.
    takes: &'static [Takes],
    run: fn(&Bench) -> anyhow::Result<()>,
}

/// | name | perftest | what | options | function |
macro_rules! benchmarks {
    ($($name:literal $perftest:literal $what:literal [$($takes:ident)*] $run:path;)*) => { &[$(
        Benchmark { name: $name, perftest: $perftest, what: $what, takes: &[$($takes),*], run: $run }
    ),*] };
}

/// Every benchmark, in the order of `all`.
const BENCHMARKS: &[Benchmark] = benchmarks! {
    "init" "" "from the first call of the library to the first barrier; allocating 1 GB" [] init::init;
    "put_bw" "shmem_put_bw" "put by blocks, blocking and nbi" [Sizes Iterations Ctas Threads Bidir] rma_bw::put;
    "get_bw" "shmem_get_bw" "get by blocks, blocking and nbi" [Sizes Iterations Ctas Threads Bidir] rma_bw::get;
    "p_bw" "shmem_p_bw" "p, a word per thread" [Sizes Iterations Ctas Threads Datatype Bidir] word_bw::p;
    "g_bw" "shmem_g_bw" "g, a word per thread" [Sizes Iterations Ctas Threads Datatype Bidir] word_bw::g;
    "st_bw" "shmem_st_bw" "stores through ptr" [Sizes Iterations Ctas Threads Datatype Bidir] word_bw::st;
    "p_pingpong" "shmem_p_ping_pong_latency" "p and a wait, half round trip" [Iterations] pingpong::p;
    "signal_pingpong" "shmem_signal_ping_pong_latency" "signal_op and a wait" [Iterations] pingpong::signal;
    "put_signal_pingpong" "shmem_put_signal_ping_pong_latency" "put_signal and a wait" [Sizes Iterations Threads Scope] pingpong::put_signal;
    "put_pingpong" "shmem_put_ping_pong_latency" "put, fence, signal_op and a wait" [Sizes Iterations Threads Scope] pingpong::put;
    "atomic_pingpong" "shmem_atomic_ping_pong_latency" "an atomic and a wait" [Iterations AtomicOp] pingpong::atomic;
    "packet_pingpong" "" "packets of 8 and 16 bytes" [Iterations] packets::pingpong;
    "put_latency" "shmem_put_latency" "put and quiet" [Sizes Iterations Threads Scope] latency::put;
    "get_latency" "shmem_get_latency" "one get at a time" [Sizes Iterations Threads Scope] latency::get;
    "p_latency" "shmem_p_latency" "p and quiet" [Iterations] latency::p;
    "g_latency" "shmem_g_latency" "one g at a time" [Iterations] latency::g;
    "atomic_latency" "shmem_atomic_latency" "one atomic at a time" [Iterations AtomicOp] atomics::latency;
    "atomic_bw" "shmem_atomic_bw" "atomics per second, on one word and on many" [Iterations Ctas Threads AtomicOp] atomics::rate;
    "fence_quiet" "shmem_flush_bench" "fence and quiet behind a p" [Iterations] ordering::fence_quiet;
    "barrier" "barrier_latency" "barrier of all PEs in a kernel" [Iterations Threads Scope] barrier::barrier;
    "sync" "sync_latency" "sync of all PEs in a kernel" [Iterations Threads Scope] barrier::sync;
    "alltoall" "alltoall_latency" "alltoall in a kernel" [Sizes Iterations Ctas Threads Scope] collective::alltoall;
    "bcast" "bcast_latency" "broadcast in a kernel" [Sizes Iterations Ctas Threads Scope] collective::bcast;
    "fcollect" "fcollect_latency" "fcollect in a kernel" [Sizes Iterations Ctas Threads Scope] collective::fcollect;
    "reduction" "reduction_latency" "reduce in a kernel" [Sizes Iterations Ctas Threads Datatype ReduceOp Scope] collective::reduction;
    "reducescatter" "reducescatter_latency" "reduce_scatter in a kernel" [Sizes Iterations Ctas Threads Datatype ReduceOp Scope] collective::reducescatter;
    "barrier_on_stream" "barrier_all_on_stream" "barrier of all PEs on a stream" [Iterations] on_stream::barrier;
    "sync_on_stream" "sync_all_on_stream" "sync of all PEs on a stream" [Iterations] on_stream::sync;
    "alltoall_on_stream" "" "alltoall on a stream" [Sizes Iterations] on_stream::alltoall;
    "bcast_on_stream" "broadcast_on_stream" "broadcast on a stream" [Sizes Iterations] on_stream::bcast;
    "fcollect_on_stream" "" "fcollect on a stream" [Sizes Iterations] on_stream::fcollect;
    "reduction_on_stream" "" "reduce on a stream" [Sizes Iterations Datatype ReduceOp] on_stream::reduction;
    "reducescatter_on_stream" "" "reduce_scatter on a stream" [Sizes Iterations Datatype ReduceOp] on_stream::reducescatter;
    "put_on_stream" "" "put on a stream" [Sizes Iterations] on_stream::put;
    "get_on_stream" "" "get on a stream" [Sizes Iterations] on_stream::get;
    "launch" "" "launches back to back, beside the driver's own call; a graph of them" [Iterations] launch::back_to_back;
    "copy_engine" "" "the driver's copy between two GPUs, the link's ceiling; put on a stream" [Sizes Iterations] copy_engine::copies;
};

fn main() -> ExitCode {
    match cli::main() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shmem-perf: {error:#}");
            ExitCode::FAILURE
        }
    }
}
