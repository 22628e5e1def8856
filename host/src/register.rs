//! Memory of the program's own as a symmetric object.
//!
//! 1. Each PE has the platform look at its memory and hold it. All meet, compare what they ask for, and hear whether it can
//!    be done everywhere.
//! 2. Each finds the same range of the heap's addresses in its own book: as high as possible, where the heap has no memory of
//!    its own.
//! 3. Each process passes the memory of its PEs to the others, and maps everybody's at that range of everybody's heap.
//! 4. All meet again: the object exists once every process has it, or for none.
//!
//! Once every PE has dropped the object, the heap's own pages come back, before anybody can get the range.

use crate::collective::{Call, Turn};
use crate::heap::{AllocRequest, Heap, HeapError, Placed};
use crate::session::Session;
use crate::{Error, Pe, SymBuf};
use shmem::Pod;
use std::os::fd::BorrowedFd;
use std::panic::Location;

/// Memory of the program's own, for [`Pe::register`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum UserMemory<'a> {
    /// On GPUs: memory of this PE's device that was made with `cuMemCreate`, for handles that are POSIX file descriptors, and
    /// is mapped at this address. Memory of `cudaMalloc` and of pools has no such handle.
    Device {
        /// Where its first byte is mapped, a `CUdeviceptr`.
        address: u64,
    },
    /// On the simulator: a memfd that is sealed against shrinking. The object begins at its first byte.
    File(BorrowedFd<'a>),
}

/// Memory that can't be registered. Every PE gets an error, those whose memory could be as
/// [`HeapError::Refused`](crate::HeapError::Refused) where the other PE is in another process. The World stays usable.
///
/// ```
/// use shmem_host::{Backend, Error, RegisterError, UserMemory, World};
///
/// World::builder().pes(2).backend(Backend::Sim).build()?.run(|pe| {
///     let refused = pe.register::<f32>(UserMemory::Device { address: 4096 }, 8).map(drop);
///     assert!(matches!(refused, Err(Error::Register(RegisterError::OtherKind { .. }))));
///     pe.barrier_all()
/// })?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The backend can't map memory of this kind.
    #[error("PE {pe}: {given} was given, but backend {backend} registers {takes}")]
    OtherKind {
        /// Whose memory.
        pe: u32,
        /// What it is.
        given: &'static str,
        /// The backend.
        backend: &'static str,
        /// What can be registered there.
        takes: &'static str,
    },
    /// It ends too early. Memory is mapped in whole pages.
    #[error("PE {pe}: the object takes {asked} bytes, in whole pages of {page}, but its memory has {there}")]
    TooShort {
        /// Whose memory.
        pe: u32,
        /// Bytes of the object, rounded up.
        asked: u64,
        /// Bytes of the memory.
        there: u64,
        /// Bytes of a page.
        page: u64,
    },
    /// A file that could become shorter, which would end whoever touches what is gone.
    #[error(
        "PE {pe}: the file may shrink while PEs use it: give a memfd with the seal F_SEAL_SHRINK (memfd_create with MFD_ALLOW_SEALING)"
    )]
    MayShrink {
        /// Whose memory.
        pe: u32,
    },
    /// There is no handle that others could map it by.
    #[error(
        "PE {pe}: the memory can't be shared ({cause}): memory of cudaMalloc has no handle; make it with cuMemCreate and \
         requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, or allocate it with Pe::alloc"
    )]
    NoHandle {
        /// Whose memory.
        pe: u32,
        /// The driver's words.
        cause: String,
    },
    /// The system refused to map it.
    #[error("the memory of PE {owner} can't be mapped: {cause}")]
    Map {
        /// Whose memory.
        owner: u32,
        /// The system's words.
        cause: String,
    },
}

impl Pe {
    /// Makes memory of the program's own a symmetric object of `len` elements: kernels of all PEs reach it as they reach what
    /// [`alloc`](Self::alloc) gave. Its contents stay. Collective: every PE calls it, with memory of its own and the same
    /// `len`.
    ///
    /// The object takes addresses of the symmetric heap, in whole pages (4 KiB on the simulator; on GPUs what the driver's
    /// granularity is, 2 MiB), so that `SHMEM_HEAP` limits it too. The memory lives until every PE has dropped the object,
    /// also where the program closes its own handle before. What the program does with it by its own address is
    /// ordered against kernels of PEs where a stream or a barrier orders it, and not within a kernel.
    ///
    /// NVSHMEM `nvshmemx_buffer_register_symmetric`.
    ///
    /// # Errors
    /// [`RegisterError`] for the memory; otherwise as [`alloc`](Self::alloc).
    ///
    /// ```
    /// use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
    /// use shmem_host::{Backend, UserMemory, World};
    /// use std::os::fd::AsFd;
    ///
    /// World::builder().pes(2).backend(Backend::Sim).build()?.run(|pe| {
    ///     let file = memfd_create("mine", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ///     ftruncate(&file, 4096)?;
    ///     fcntl_add_seals(&file, SealFlags::SHRINK)?;
    ///     rustix::io::pwrite(&file, &[7 + pe.id() as u8], 0)?;
    ///
    ///     let data = pe.register::<u8>(UserMemory::File(file.as_fd()), 4096)?;
    ///     let theirs = pe.buffer::<u8>(1)?;
    ///     pe.stream().get(&theirs, data.part(..1)?, 1 - pe.id())?;
    ///     assert_eq!(theirs.read(0)?, 8 - pe.id() as u8);
    ///     Ok::<(), anyhow::Error>(())
    /// })?;
    /// # Ok::<(), anyhow::Error>(())
    /// ```
    #[doc(alias("nvshmemx_buffer_register_symmetric"))]
    #[track_caller]
    pub fn register<T: Pod>(&self, memory: UserMemory<'_>, len: usize) -> Result<SymBuf<T>, Error> {
        let (session, request) = (self.session_rc(), AllocRequest::of::<T>(len, Location::caller()));
        session.refuse_in_capture("Pe::register")?;
        let placed = session.register_symmetric(&request, memory)?;
        Ok(SymBuf::placed(session, &request, placed))
    }
}

/// The platform lets go of memory that it holds for a PE, unless it has been mapped.
struct Held<'a>(&'a Session);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.shared.platform.let_go(self.0.pe);
    }
}

impl Session {
    fn register_symmetric(&self, request: &AllocRequest, memory: UserMemory<'_>) -> Result<Placed, Error> {
        let (site, platform) = (&request.site, &self.shared.platform);
        self.check()?;
        let page = platform.page();
        let held = Held(self);
        let looked = match request.bytes_of(page) {
            Some(bytes) => platform.hold(self.pe, memory, bytes).map_err(Error::from),
            None => Err(request.too_large().into()),
        };
        // What comes back from the others is words.
        let mine = looked.clone().err();
        let call = Call::Register(request.clone(), platform.backed_end(self.pe), looked);
        let turns = self.meet(call, site)?;
        let request = Heap::agree(
            turns
                .iter()
                .filter_map(|turn| registered(turn).map(|(request, _)| request)),
        )?;
        if let Some(refused) = turns.iter().find_map(Turn::refused) {
            return Err(mine.unwrap_or(refused));
        }
        // The heap of one PE may have more memory than another's.
        let above = turns
            .iter()
            .filter_map(|turn| registered(turn).map(|(_, end)| end))
            .max();
        let placed = self.find_place(site, |heap| heap.place_high(request, page, above.unwrap_or(0)))?;
        let mut mapped = Ok(());
        // Waits for other processes.
        self.device.while_blocked(&mut || {
            mapped = platform.map_held(&self.shared.group, self.pe, &placed);
        });
        let mine = mapped.clone().err();
        let turns = self.meet(Call::Ready(mapped), site)?;
        drop(held);
        match turns.iter().find_map(Turn::refused) {
            None => Ok(placed),
            Some(refused) => {
                self.free_block(placed.serial);
                Err(mine.unwrap_or(refused))
            }
        }
    }

    /// Frees a block of the heap that no PE has, or has any more.
    pub(crate) fn free_block(&self, serial: u64) {
        let freed = self.heap.borrow_mut().free(serial);
        self.unmap(freed);
    }

    /// The heap's own pages come back where an object of the program's own memory was.
    pub(crate) fn unmap(&self, freed: Option<Placed>) {
        if let Some(placed) = freed.filter(|placed| placed.registered)
            && let Err(error) = self.shared.platform.unmap(placed.serial)
        {
            // What comes to lie there would be in the program's memory.
            self.fatal(error);
        }
    }
}

fn registered(turn: &Turn) -> Option<(&AllocRequest, u64)> {
    match &turn.call {
        Call::Register(request, backed_end, _) => Some((request, *backed_end)),
        _ => None,
    }
}

impl AllocRequest {
    /// Bytes in whole pages, unless they are more than 64 bits can count.
    pub(crate) fn bytes_of(&self, page: u64) -> Option<u64> {
        self.len.checked_mul(self.size)?.max(1).checked_next_multiple_of(page)
    }

    pub(crate) fn too_large(&self) -> HeapError {
        HeapError::TooLarge {
            len: self.len,
            size: self.size,
        }
    }
}
