//! Collective allocation from the symmetric heap.
//!
//! 1. All PEs meet and compare what they ask for.
//! 2. Each finds the same place in its own book of the heap. Where there is none, all drain their streams, meet again with
//!    what they have dropped, and try once more.
//! 3. Each makes memory for it on its own device, zeroed.
//! 4. All meet again: the block exists once every PE has it, or for none.

use crate::collective::{Call, Turn};
use crate::heap::{AllocRequest, Heap, HeapError, Placed};
use crate::session::Session;
use crate::{Error, Pe, Site, SymBuf};
use shmem::Pod;
use std::panic::Location;

impl Pe {
    /// As [`alloc`](Self::alloc), with the first element at a multiple of `align` bytes: a power of two, at most 4096. Every
    /// symmetric object begins at a multiple of 512 bytes anyhow. The memory is zero. Collective.
    ///
    /// OpenSHMEM 1.5 `shmem_align`, NVSHMEM `nvshmem_align`.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc); [`HeapError::Alignment`](crate::HeapError::Alignment).
    ///
    /// ```
    /// # use shmem_host::{Backend, World};
    /// World::builder().pes(2).backend(Backend::Sim).build()?.run(|pe| {
    ///     let tiles = pe.alloc_aligned::<f32>(1000, 1024)?;
    ///     assert_eq!(tiles.address() % 1024, 0);
    ///     Ok::<(), shmem_host::Error>(())
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    #[doc(alias("shmem_align", "nvshmem_align"))]
    #[track_caller]
    pub fn alloc_aligned<T: Pod>(&self, len: usize, align: usize) -> Result<SymBuf<T>, Error> {
        let request = AllocRequest::of::<T>(len, Location::caller());
        SymBuf::new(self.session_rc(), &request.aligned(align))
    }

    /// As [`alloc`](Self::alloc), but with whatever was in the memory before, which saves the time to zero it: for what is
    /// written before it is read. On the simulator all its bytes are 0xff, so that floats are NaN and indices far out.
    /// Collective.
    ///
    /// OpenSHMEM 1.5 `shmem_malloc`, NVSHMEM `nvshmem_malloc`.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    ///
    /// ```
    /// # use shmem_host::{Backend, World};
    /// World::builder().pes(2).backend(Backend::Sim).build()?.run(|pe| {
    ///     let halo = pe.alloc_uninit::<f32>(256)?;
    ///     assert!(halo.read(0)?.is_nan());
    ///     halo.write(&[0.5; 256])?;
    ///     Ok::<(), shmem_host::Error>(())
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    #[doc(alias("shmem_malloc", "nvshmem_malloc", "malloc"))]
    #[track_caller]
    pub fn alloc_uninit<T: Pod>(&self, len: usize) -> Result<SymBuf<T>, Error> {
        let request = AllocRequest::of::<T>(len, Location::caller());
        SymBuf::new(self.session_rc(), &request.uninit())
    }
}

impl Session {
    pub(crate) fn alloc_symmetric(&self, request: &AllocRequest) -> Result<Placed, Error> {
        let site = request.site.clone();
        let turns = self.meet(Call::Alloc(request.clone()), &site)?;
        let request = Heap::agree(turns.iter().filter_map(requested))?;
        let placed = self.find_place(&site, |heap| heap.place(request))?;
        let backed = self.back(request, &placed);
        let turns = self.meet(Call::Ready(backed), &site)?;
        match turns.iter().find_map(Turn::refused) {
            None => {
                let (pe, offset, serial) = (self.pe, placed.offset, placed.serial);
                tracing::debug!(pe, offset, serial, %site, "allocation");
                Ok(placed)
            }
            Some(error) => {
                self.free_block(placed.serial);
                Err(error)
            }
        }
    }

    /// Collective: every PE finds the same.
    pub(crate) fn find_place(
        &self,
        site: &Site,
        place: impl Fn(&mut Heap) -> Result<Placed, HeapError>,
    ) -> Result<Placed, Error> {
        let first = place(&mut self.heap.borrow_mut());
        match first {
            Err(HeapError::Limit { .. }) => {
                self.wait_all()?;
                self.meet(Call::Reclaim, site)?;
                Ok(place(&mut self.heap.borrow_mut())?)
            }
            other => Ok(other?),
        }
    }

    fn back(&self, request: &AllocRequest, placed: &Placed) -> Result<(), Error> {
        let what = || format!("memory for {} bytes of symmetric heap", placed.bytes);
        self.watched(self.shared.time_limit, &what, |watch| {
            self.device.back(placed.end(), watch)?;
            let address = self.device.heap_base() + placed.offset;
            self.device.reused(address, placed.bytes);
            match placed.used {
                _ if !request.zero => self.device.taint(address, placed.bytes),
                0 => {}
                used => self.device.zero(address, used, watch)?,
            }
            Ok(())
        })
    }
}

fn requested(turn: &Turn) -> Option<&AllocRequest> {
    match &turn.call {
        Call::Alloc(request) => Some(request),
        _ => None,
    }
}
