//! How full the symmetric heap is.

use crate::Pe;

/// One PE's symmetric heap in numbers, all of them bytes but for `objects`: [`Pe::heap_stats`].
///
/// `system + used + free == limit`. All but `backed` are the same on every PE at the same point of its program.
///
/// ```
/// use shmem_host::{Backend, World};
///
/// World::builder().pes(2).backend(Backend::Sim).heap(32 << 20).build()?.run(|pe| {
///     let before = pe.heap_stats();
///     assert_eq!((before.limit, before.used, before.objects), (32 << 20, 0, 0));
///     let data = pe.alloc::<u64>(1000)?;
///     let with = pe.heap_stats();
///     assert_eq!((with.used, with.objects, with.free), (8192, 1, before.free - 8192));
///     drop(data);
///     pe.barrier_all()?; // where it is given back
///     assert_eq!((pe.heap_stats().used, pe.heap_stats().peak), (0, 8192));
///     Ok::<(), shmem_host::Error>(())
/// })?;
/// # Ok::<(), shmem_host::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeapStats {
    /// Address space of the heap, as `SHMEM_HEAP` or the builder gave it, rounded up to whole pages: nothing can be
    /// allocated beyond it.
    pub limit: u64,
    /// The library's own, at the heap's start: words of barriers and teams.
    pub system: u64,
    /// In objects, each a multiple of 512.
    pub used: u64,
    /// Neither.
    pub free: u64,
    /// The largest object for which there is room.
    pub largest_free: u64,
    /// The most that were in objects at once.
    pub peak: u64,
    /// Objects that not every PE has dropped, or that were dropped since the last collective allocation or barrier.
    pub objects: u64,
    /// Device memory that this PE's heap has taken so far. None on the simulator, where a page is memory once it is touched.
    pub backed: Option<Backed>,
}

/// Device memory of a heap, which is taken in chunks as objects need it, and kept until the World ends.
///
/// ```
/// use shmem_host::{Backend, Backed, World};
///
/// World::builder().pes(1).backend(Backend::Sim).build()?.run(|pe| {
///     assert_eq!(pe.heap_stats().backed, None::<Backed>);
///     Ok::<(), shmem_host::Error>(())
/// })?;
/// # Ok::<(), shmem_host::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backed {
    /// Of all chunks.
    pub bytes: u64,
    /// How many.
    pub chunks: u32,
}

impl Pe {
    /// How full the symmetric heap is. Not collective, waits for nothing. Example at [`HeapStats`].
    pub fn heap_stats(&self) -> HeapStats {
        let session = self.session();
        session.heap.borrow().stats(session.device.backed())
    }
}
