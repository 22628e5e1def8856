//! Mixture of experts, for few tokens: `dispatch` brings each token's row to the PEs of its experts and packs what arrives by expert, `combine`
//! brings the experts' results back and adds them up, weighted. A row goes once to each PE, however many of its experts are there, and so does
//! their sum on its way back.
#![allow(
    clippy::needless_range_loop,
    reason = "on a GPU, arrays under counted loops stay in registers; under iterators they go to local memory"
)]

mod cast;
mod experts;
mod from_experts;
mod kernels;
mod layout;
mod to_experts;
pub use experts::{factor, stand_in};
pub use kernels::{combine, combine_packets, dispatch, dispatch_packets};
pub use layout::*;

#[cfg(not(target_arch = "nvptx64"))]
mod check;
#[cfg(not(target_arch = "nvptx64"))]
mod host;
#[cfg(not(target_arch = "nvptx64"))]
pub use check::{Batch, Routing, Set, check};
#[cfg(not(target_arch = "nvptx64"))]
pub use host::{Config, FEW, Moe, Pending, Work};
