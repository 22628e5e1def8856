//! The kernels. Few rows go in packets, by blocks of at most 512 threads, which have twice the registers: nothing is spilled.
use crate::layout::*;
use crate::{from_experts, to_experts};
use shmem::prelude::*;
use shmem::vector::Bf16x8;

/// Sends each token's row to the PEs of its experts, and packs what comes from all PEs by expert. In halves: other work may go on between, and
/// only the second one waits. Rows go by puts. Dynamic shared memory: [`Config::dispatch_bytes`](crate::Config::dispatch_bytes).
#[kernel(collective, programmatic, max_block = 1024, for<false>, for<true>)]
pub fn dispatch<const FP8: bool>(_all: Collective, halves: u32, s: Shape, tokens: Tokens, inbox: Inbox, out: Packed) {
    to_experts::dispatch::<FP8, false>(halves, s, tokens, inbox, out);
}

/// As [`dispatch`](crate::dispatch()), in packets.
#[kernel(collective, programmatic, max_block = 512, for<false>, for<true>)]
pub fn dispatch_packets<const FP8: bool>(
    _all: Collective,
    halves: u32,
    s: Shape,
    tokens: Tokens,
    inbox: Inbox,
    out: Packed,
) {
    to_experts::dispatch::<FP8, true>(halves, s, tokens, inbox, out);
}

/// Sends the sums of the experts' results `y`, weighted, to the tokens' PEs, one of each token, and adds up what comes for this PE's tokens, and
/// what its own experts made of them, in `z`. `y` is laid out as [`Packed::rows`], but in bf16. Halves and puts as in
/// [`dispatch`](crate::dispatch()); the second half reads `y` too. Dynamic shared memory: [`Config::combine_bytes`](crate::Config::combine_bytes).
#[kernel(collective, programmatic, max_block = 1024)]
pub fn combine(
    _all: Collective,
    halves: u32,
    s: Shape,
    y: Global<Bf16x8>,
    from: Packed,
    inbox: Inbox,
    chosen: Global<i32>,
    z: Global<Bf16x8>,
) {
    from_experts::combine::<false>(halves, s, y, from, inbox, chosen, z);
}

/// As [`combine`](crate::combine()), in packets.
#[kernel(collective, programmatic, max_block = 512)]
pub fn combine_packets(
    _all: Collective,
    halves: u32,
    s: Shape,
    y: Global<Bf16x8>,
    from: Packed,
    inbox: Inbox,
    chosen: Global<i32>,
    z: Global<Bf16x8>,
) {
    from_experts::combine::<true>(halves, s, y, from, inbox, chosen, z);
}
