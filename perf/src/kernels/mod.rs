//! Kernels, by what they measure.

mod atomics;
mod board;
pub mod collectives;
pub mod data;
mod empty;
mod latencies;
mod meetings;
mod ordering;
mod packets;
mod pingpongs;
pub mod reductions;
mod rma_bw;
mod words;

pub use atomics::*;
pub use board::*;
pub use empty::*;
pub use latencies::*;
pub use meetings::*;
pub use ordering::*;
pub use packets::*;
pub use pingpongs::*;
pub use rma_bw::*;
pub use words::*;

use shmem::prelude::*;

/// This thread's number among the grid's, and how many there are.
#[inline(always)]
fn in_grid() -> (u64, u64) {
    let rank = thread::block_index() * thread::block_size() + thread::index();
    (rank.into(), (thread::block_size() * thread::grid_size()).into())
}

/// One kernel for each scope of a function that takes a tile. A thread's and a warp's may use all the registers that there
/// are.
///
/// | `thread warp block = function(parameters), "what it does"` |
/// |---|
macro_rules! by_scope {
    ($($thread:ident $warp:ident $block:ident = $function:ident($($name:ident: $ty:ty),*), $doc:literal;)*) => { $(
        #[doc = concat!($doc, " By one thread.")]
        #[kernel(block = 1)]
        pub fn $thread($($name: $ty),*) {
            $function(Thread, $($name),*);
        }

        #[doc = concat!($doc, " By one warp.")]
        #[kernel(block = 32)]
        pub fn $warp($($name: $ty),*) {
            $function(Warp, $($name),*);
        }

        #[doc = concat!($doc, " By one block.")]
        #[kernel(max_block = 1024)]
        pub fn $block($($name: $ty),*) {
            $function(Block, $($name),*);
        }
    )* };
}
use by_scope;
