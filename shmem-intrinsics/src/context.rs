//! Contexts: operations that are ordered and completed apart from those of others.
//!
//! A fence, quiet or flush of a context covers the operations that were issued in it, and memory stores. Over a network each
//! context has queues of its own, so that parts of a kernel that put at the same time neither wait for each other's
//! operations nor queue up behind them. Over load and store all contexts take the same way: a quiet then covers more than it
//! must.
//!
//! | type | made by | what it is |
//! |---|---|---|
//! | [`CtxSet`] | the host, `pe.contexts::<S>(n)`; a kernel's argument | n contexts |
//! | [`Ctx`] | [`CtxSet::get`], [`default_context`] | one of them |
//! | [`Private`], [`BlockShared`], [`GridShared`] | | who uses a context, as a type |
//!
//! Calls that name no context use the default one.

use crate::arch;
use crate::batch::Batch;
use crate::fault::{FaultKind, check};
use crate::team::Target;
use crate::tile::{InBlock, Thread, Tile};
use crate::{Index, KernelArg};
use core::marker::PhantomData;

/// The number of the context that calls use which name none.
pub(crate) const DEFAULT: u32 = 0;
/// The context of what bulk engines haven't completed yet: only they can.
pub(crate) const BULK: u32 = !(PRIVATE | DEFERRED);

/// In a context's number: one thread uses it.
const PRIVATE: u32 = 1 << 31;
/// In the number that an operation takes along: the adapter need not be told of it yet.
pub(crate) const DEFERRED: u32 = 1 << 30;

/// What a context's number says besides.
#[derive(Clone, Copy)]
pub(crate) struct Mode {
    pub(crate) private: bool,
    pub(crate) deferred: bool,
}

/// The parts of the number that an operation takes along.
#[inline(always)]
pub(crate) fn number_of(ctx: u32) -> (Mode, u32) {
    let mode = Mode {
        private: ctx & PRIVATE != 0,
        deferred: ctx & DEFERRED != 0,
    };
    (mode, ctx & !(PRIVATE | DEFERRED))
}

/// Who uses a context at the same time: [`Private`], [`BlockShared`] or [`GridShared`].
pub trait Sharing: Copy + 'static {
    /// In the number of such a context.
    #[doc(hidden)]
    const __MARK: u32 = 0;
}

/// One thread: the context needs no locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Private;
/// Threads of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockShared;
/// Any thread of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GridShared;

impl Sharing for Private {
    const __MARK: u32 = PRIVATE;
}
impl Sharing for BlockShared {}
impl Sharing for GridShared {}

/// Tiles that may order and complete a context of this sharing: `Thread` a [`Private`] one, those within a block a
/// [`BlockShared`] one, all a [`GridShared`] one.
pub trait SharedBy<G: Tile>: Sharing {}
impl SharedBy<Thread> for Private {}
impl<G: InBlock> SharedBy<G> for BlockShared {}
impl<G: Tile> SharedBy<G> for GridShared {}

/// One context, from [`CtxSet::get`] or [`default_context`].
///
/// NVSHMEM `nvshmem_ctx_t`; OpenSHMEM `shmem_ctx_t`, where `SHMEM_CTX_PRIVATE` is [`Private`].
///
/// ```
/// use shmem::prelude::*;
/// use shmem::{BlockShared, CtxSet};
///
/// /// Each block puts its chunk in a context of its own, and completes that alone.
/// #[kernel]
/// pub fn send(contexts: CtxSet<BlockShared>, dst: SymSlice<u32>, src: SymSlice<u32>, to: u32) {
///     let (ctx, mine) = (contexts.get(Block.id()), Block.id());
///     shmem::put_nbi(Block, dst.chunk(mine, 64), src.chunk(mine, 64), ctx.to(to));
///     ctx.quiet(Block);
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ctx<S: Sharing> {
    number: u32,
    sharing: PhantomData<S>,
}

/// The context that calls use which name none. Any thread of the grid uses it.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 32, || {
///     let x = shmem_sim::symmetric::<u32>(1);
///     let ctx = shmem::default_context();
///     shmem::p(x.at(0), 1, ctx.to(1)); // the same as p(x.at(0), 1, 1)
///     ctx.quiet(Warp);
/// }).unwrap();
/// ```
#[inline(always)]
pub const fn default_context() -> Ctx<GridShared> {
    Ctx::new(DEFAULT)
}

impl<S: Sharing> Ctx<S> {
    const fn new(number: u32) -> Self {
        Self {
            number,
            sharing: PhantomData,
        }
    }

    /// The target of a call, in this context: `put(Block, dst, src, ctx.to(pe))`, `p(x, 1, ctx.to((team, i)))`.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// shmem_sim::run(2, 1, 1, || {
    ///     let x = shmem_sim::symmetric::<u32>(1);
    ///     shmem::p(x.at(0), 1, shmem::default_context().to(shmem::world().pe(1)));
    /// }).unwrap();
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn to<T: Target>(self, target: T) -> Via<T> {
        Via {
            target,
            ctx: self.number,
        }
    }

    /// As [`fence`](crate::fence()), for what was and will be issued in this context. All members call it.
    ///
    /// NVSHMEM `nvshmem_ctx_fence`. [`to`](Self::to) and [`default_context`] have examples.
    #[inline(always)]
    #[track_caller]
    pub fn fence<G: Tile>(self, tile: G)
    where
        S: SharedBy<G>,
    {
        arch::fence(tile, self.number);
    }

    /// As [`quiet`](crate::quiet()), for what was issued in this context. All members call it.
    ///
    /// NVSHMEM `nvshmem_ctx_quiet`.
    #[inline(always)]
    #[track_caller]
    pub fn quiet<G: Tile>(self, tile: G)
    where
        S: SharedBy<G>,
    {
        arch::quiet(tile, self.number);
    }

    /// As [`quiet_visible`](crate::quiet_visible()), for what was issued in this context. All members call it.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// shmem_sim::run(2, 1, 32, || {
    ///     let x = shmem_sim::symmetric::<u32>(32);
    ///     let ctx = shmem::default_context();
    ///     shmem::p(x.at(thread::index()), 1, ctx.to(1 - shmem::my_pe()));
    ///     ctx.quiet_visible(Warp);
    /// }).unwrap();
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn quiet_visible<G: Tile>(self, tile: G)
    where
        S: SharedBy<G>,
    {
        arch::quiet_visible(tile, self.number);
    }

    /// As [`flush`](crate::flush()), for what was issued in this context. All members call it.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// shmem_sim::run(2, 1, 32, || {
    ///     let (dst, src) = (shmem_sim::symmetric::<u32>(32), shmem_sim::symmetric::<u32>(32));
    ///     let ctx = shmem::default_context();
    ///     shmem::put_nbi(Warp, dst, src, ctx.to(1 - shmem::my_pe()));
    ///     ctx.flush(Warp);
    ///     src.store(Warp.rank(), 5);
    /// }).unwrap();
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn flush<G: Tile>(self, tile: G)
    where
        S: SharedBy<G>,
    {
        arch::flush(tile, self.number);
    }

    /// As [`batch`](crate::batch()), in this context.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// shmem_sim::run(2, 1, 1, || {
    ///     let dst = shmem_sim::symmetric::<u32>(4);
    ///     let batch = shmem::default_context().batch(Thread);
    ///     batch.put(dst, &[1, 2, 3, 4], 1 - shmem::my_pe());
    ///     batch.quiet();
    /// }).unwrap();
    /// ```
    #[inline(always)]
    pub fn batch<'a, G: Tile>(self, tile: G) -> Batch<'a, G>
    where
        S: SharedBy<G>,
    {
        Batch::new(tile, self.number)
    }
}

/// A target in a context: [`Ctx::to`].
#[derive(Clone, Copy, Debug)]
pub struct Via<T> {
    target: T,
    ctx: u32,
}

impl<T> Via<T> {
    #[inline(always)]
    pub(crate) fn new(target: T, ctx: u32) -> Self {
        Self { target, ctx }
    }
}

impl<T: Target> Target for Via<T> {
    #[inline(always)]
    #[track_caller]
    fn pe(self) -> u32 {
        self.target.pe()
    }

    #[inline(always)]
    fn __ctx(self) -> u32 {
        self.ctx
    }
}

/// Contexts as a kernel's argument. The host makes them with `pe.contexts::<S>(n)`.
///
/// [`Ctx`] has an example.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CtxSet<S: Sharing> {
    first: u32,
    count: u32,
    sharing: PhantomData<fn() -> S>,
}

// SAFETY: two numbers.
unsafe impl<S: Sharing> KernelArg for CtxSet<S> {}

impl<S: Sharing> CtxSet<S> {
    /// For the host.
    #[doc(hidden)]
    pub const fn __new(first: u32, count: u32) -> Self {
        Self {
            first,
            count,
            sharing: PhantomData,
        }
    }

    /// How many there are.
    #[inline(always)]
    pub fn len(self) -> u32 {
        self.count
    }

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.count == 0
    }

    /// Context i. Faults with `FaultKind::Index` where i is outside.
    #[inline(always)]
    #[track_caller]
    pub fn get(self, i: impl Index) -> Ctx<S> {
        let (i, count) = (i.index(), u64::from(self.count));
        check(i < count, FaultKind::Index, i, count);
        // Numbers are below the marks: the host gives out no others.
        Ctx::new((self.first + i as u32) & !DEFERRED | S::__MARK)
    }
}
