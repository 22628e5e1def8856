//! Kernels that do nothing, for what a launch costs.

use shmem::prelude::*;

/// Launched on one PE.
#[kernel(block = 32)]
pub fn alone() {}

/// What a launch costs that does nothing.
#[kernel(collective, block = 32)]
pub fn nothing(_all: Collective) {}

/// The same with the arguments that kernels usually have.
#[kernel(collective, block = 32)]
pub fn nothing_of(_all: Collective, _dst: SymSlice<u32>, _src: SymSlice<u32>, _ready: SymSlice<SignalWord>, _n: u64) {}
