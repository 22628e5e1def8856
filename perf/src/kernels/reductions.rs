//! Collectives that combine elements: the float sum by every scope, the other types and operations by a block.

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
    algorithm: u32,
    iters: u32,
) {
    let (all, tile) = (by(all, algorithm), S::tile(all));
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
    algorithm: u32,
    iters: u32,
) {
    let (all, tile) = (by(all, algorithm), S::tile(all));
    for _ in 0..iters {
        all.reduce_scatter(tile, shmem::world(), O::VALUE, dst, src);
    }
}
