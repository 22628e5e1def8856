//! Puts that are completed together.

use crate::arch;
use crate::context::{self, Via};
use crate::rma::{self, Source};
use crate::team::Target;
use crate::tile::Tile;
use crate::{Pod, SymSlice};
use core::cell::Cell;
use core::marker::PhantomData;

/// Puts of one tile that are under way: made by [`batch`], ended by [`quiet`](Self::quiet). A thread's own arrays that it
/// puts stay borrowed, so that changing one too early doesn't compile. Handles (SymSlice, Global, Shared) are Copy and
/// nobody's: whether their memory is changed too early, only the program knows.
#[must_use = "end a batch with quiet(), or with flush() for the next one"]
#[derive(Debug)]
pub struct Batch<'a, G> {
    tile: G,
    ctx: u32,
    /// Invariant: a batch must not be taken for one that borrows for a shorter time.
    sources: PhantomData<Cell<&'a ()>>,
}

/// Begins a batch of puts by the tile, in the default context. All members make the same calls.
///
/// A batch returns from each put at once, and needs one sync of the tile for many: for one put, [`put`](crate::put) is
/// shorter, and where the target has to know of each, [`put_signal`](crate::put_signal).
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 1, || {
///     let dst = shmem_sim::symmetric::<u32>(8);
///     let mut row = [1; 4];
///     let batch = shmem::batch(Thread);
///     batch.put(dst.chunk(0, 4), &row, 1 - shmem::my_pe());
///     let batch = batch.flush();
///     row[0] = 2; // not before the flush
///     batch.put(dst.chunk(1, 4), &row, 1 - shmem::my_pe());
///     batch.quiet();
/// }).unwrap();
/// ```
#[inline(always)]
pub fn batch<'a, G: Tile>(tile: G) -> Batch<'a, G> {
    Batch::new(tile, context::DEFAULT)
}

impl<'a, G: Tile> Batch<'a, G> {
    #[inline(always)]
    pub(crate) fn new(tile: G, ctx: u32) -> Self {
        Self {
            tile,
            ctx,
            sources: PhantomData,
        }
    }

    /// As [`put_nbi`](crate::put_nbi), in the batch's context, whatever context `to` names. All members of the tile call it.
    #[inline(always)]
    #[track_caller]
    pub fn put<T: Pod, S: Source<T, G> + 'a>(&self, dst: SymSlice<T>, src: S, to: impl Target) {
        // The batch's flush or quiet tells the adapter of all of them.
        rma::put_nbi(self.tile, dst, src, Via::new(to, self.ctx | context::DEFERRED));
    }

    /// The sources may be written again: the next batch, which borrows none of them. All members of the tile call it.
    ///
    /// A batch that is carried round a loop borrows for as long as the loop lasts, so that each round makes its own:
    ///
    /// ```
    /// use shmem::prelude::*;
    /// shmem_sim::run(2, 1, 1, || {
    ///     let dst = shmem_sim::symmetric::<u32>(16);
    ///     let mut row = [0; 4];
    ///     for i in 0..4 {
    ///         row[0] = i;
    ///         let batch = shmem::batch(Thread);
    ///         batch.put(dst.chunk(i, 4), &row, 1 - shmem::my_pe());
    ///         let _ = batch.flush(); // `row` is free, the put may still be under way
    ///     }
    ///     shmem::quiet(Thread);
    /// }).unwrap();
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn flush<'b>(self) -> Batch<'b, G> {
        arch::flush(self.tile, self.ctx);
        Batch::new(self.tile, self.ctx)
    }

    /// All puts of the batch's context are done. All members of the tile call it.
    #[inline(always)]
    #[track_caller]
    pub fn quiet(self) {
        arch::quiet(self.tile, self.ctx);
    }
}
