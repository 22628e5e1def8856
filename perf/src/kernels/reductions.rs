//! Collectives that combine elements: the float sum by every scope and each algorithm, the other types and operations by a
//! block.

use super::collectives::{Scope, by};
use shmem::collective::{And, Max, Min, Or, Prod, ReduceOp, Sum, Xor};
use shmem::prelude::*;

/// An operation by its type.
pub trait Operation<T: Pod>: ReduceOp<T> + 'static {
    /// It.
    const VALUE: Self;
}

macro_rules! operations { ($($name:ident)*) => { $(
    impl<T: Pod> Operation<T> for $name
    where
        Self: ReduceOp<T>,
    {
        const VALUE: Self = Self;
    }
)* } }
operations!(Sum Prod Min Max And Or Xor);

/// reduce of the world, again and again.
#[kernel(
    collective, max_block = 1024,
    for<f32, Sum, Thread>, for<f32, Sum, Warp>, for<f32, Sum, Block>, for<f32, Sum, Grid>,
    for<f32, Prod, Block>, for<f32, Min, Block>, for<f32, Max, Block>,
    for<i32, Sum, Block>, for<i32, And, Block>, for<i32, Or, Block>, for<i32, Xor, Block>,
    for<i64, Sum, Block>, for<f64, Sum, Block>, for<f16, Sum, Block>, for<bf16, Sum, Block>
)]
pub fn reduces<T: KernelArg + Pod, O: Operation<T>, S: Scope>(
    all: Collective,
    dst: SymSlice<T>,
    src: SymSlice<T>,
    iters: u32,
) {
    let tile = S::tile(all);
    for _ in 0..iters {
        all.reduce(tile, shmem::world(), O::VALUE, dst, src);
    }
}

/// `reduce_scatter` of the world, again and again.
#[kernel(
    collective, max_block = 1024,
    for<f32, Sum, Thread>, for<f32, Sum, Warp>, for<f32, Sum, Block>, for<f32, Sum, Grid>,
    for<f32, Prod, Block>, for<f32, Min, Block>, for<f32, Max, Block>,
    for<i32, Sum, Block>, for<i32, And, Block>, for<i32, Or, Block>, for<i32, Xor, Block>,
    for<i64, Sum, Block>, for<f64, Sum, Block>, for<f16, Sum, Block>, for<bf16, Sum, Block>
)]
pub fn reduce_scatters<T: KernelArg + Pod, O: Operation<T>, S: Scope>(
    all: Collective,
    dst: SymSlice<T>,
    src: SymSlice<T>,
    iters: u32,
) {
    let tile = S::tile(all);
    for _ in 0..iters {
        all.reduce_scatter(tile, shmem::world(), O::VALUE, dst, src);
    }
}

/// The float sum by a block, by the algorithm: 1 packets, 2 one-shot, 3 two-shot.
#[kernel(collective, max_block = 1024)]
pub fn reduces_by(all: Collective, dst: SymSlice<f32>, src: SymSlice<f32>, algorithm: u32, iters: u32) {
    for _ in 0..iters {
        by(all, algorithm).reduce(Block, shmem::world(), Sum, dst, src);
    }
}

/// The same, each member its part.
#[kernel(collective, max_block = 1024)]
pub fn reduce_scatters_by(all: Collective, dst: SymSlice<f32>, src: SymSlice<f32>, algorithm: u32, iters: u32) {
    for _ in 0..iters {
        by(all, algorithm).reduce_scatter(Block, shmem::world(), Sum, dst, src);
    }
}
