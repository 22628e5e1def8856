//! Contexts, as the host makes them.

use crate::session::Session;
use crate::{Error, Pe};
use shmem::{CtxSet, IntoArg, Sharing};
use std::marker::PhantomData;

/// Contexts of this PE for its kernels, from [`Pe::contexts`]: operations in one are ordered and completed apart from those
/// in others. Passed to a kernel as `&contexts`, for a `CtxSet<S>`.
#[derive(Debug)]
pub struct Contexts<S> {
    first: u32,
    count: u32,
    sharing: PhantomData<fn() -> S>,
}

impl<S: Sharing> Contexts<S> {
    /// The kernel's form of it.
    pub fn handle(&self) -> CtxSet<S> {
        CtxSet::__new(self.first, self.count)
    }

    /// How many there are.
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl<S: Sharing> IntoArg<CtxSet<S>> for &Contexts<S> {
    fn into_arg(self) -> CtxSet<S> {
        self.handle()
    }
}

impl Pe {
    /// `count` contexts for kernels of this PE, each for one thread ([`Private`](shmem::Private)), for the threads of one
    /// block ([`BlockShared`](shmem::BlockShared)) or for any ([`GridShared`](shmem::GridShared)). Not collective. Over load
    /// and store a context takes no memory.
    ///
    /// OpenSHMEM `shmem_ctx_create`.
    ///
    /// # Errors
    /// The World has failed.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// use shmem::{BlockShared, CtxSet};
    /// use shmem_host::{Backend, World, collective_launch};
    ///
    /// #[kernel]
    /// pub fn send(contexts: CtxSet<BlockShared>, dst: SymSlice<u32>) {
    ///     let (me, n) = (shmem::my_pe(), shmem::n_pes());
    ///     let ctx = contexts.get(Block.id());
    ///     if Block.elect() {
    ///         shmem::p(dst.at(Block.id()), me, ctx.to((me + 1) % n));
    ///     }
    ///     ctx.quiet(Block);
    /// }
    ///
    /// World::builder().pes(2).backend(Backend::Sim).build()?.run(|pe| {
    ///     let dst = pe.alloc::<u32>(4)?;
    ///     let contexts = pe.contexts(4)?;
    ///     collective_launch!(pe, send<<<4, 32>>>(&contexts, &dst))?;
    ///     pe.barrier_all()?;
    ///     assert_eq!(dst.to_vec()?, [1 - pe.id(); 4]);
    ///     Ok::<(), shmem_host::Error>(())
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    pub fn contexts<S: Sharing>(&self, count: u32) -> Result<Contexts<S>, Error> {
        Ok(Contexts {
            first: self.session().new_contexts(count)?,
            count,
            sharing: PhantomData,
        })
    }
}

impl Session {
    /// The first of `count` numbers for new contexts. Once all are used up they begin again: sets that have the same ones
    /// are ordered and completed together, which is slower and never wrong.
    fn new_contexts(&self, count: u32) -> Result<u32, Error> {
        self.check()?;
        // 0 is the default context.
        let first = Some(self.contexts.get()).filter(|first| first.checked_add(count).is_some());
        let first = first.unwrap_or(1);
        self.contexts.set(first.saturating_add(count));
        Ok(first)
    }
}
