//! What other libraries have made, in the place of our own: streams and device memory.
//!
//! | from | stream | memory |
//! |---|---|---|
//! | cudarc | `stream.cu_stream()` | `slice.device_ptr(..)` |
//! | cust 0.3 | `stream.as_inner()` | `buffer.as_device_ptr().as_raw()` |
//! | CUDA, any binding | `CUstream` | `CUdeviceptr` |

#[cfg(feature = "cust")]
mod cust;

use crate::{Buf, Error, Pe, Stream};
use shmem::Pod;
use std::ffi::c_void;

impl Pe {
    /// Which GPU this PE is on, as the CUDA driver counts them in this process; None on the simulator. For contexts of other
    /// libraries.
    ///
    /// ```
    /// # use shmem_host::{Backend, World};
    /// World::builder().pes(1).backend(Backend::Sim).build()?.run(|pe| {
    ///     assert_eq!(pe.device_index(), None);
    ///     Ok::<(), shmem_host::Error>(())
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    pub fn device_index(&self) -> Option<u32> {
        self.session().device.index()
    }

    /// A stream that the program has from elsewhere: launches and operations on it come in order with what the program
    /// enqueues there itself. Dropping it leaves the stream as it is.
    ///
    /// `raw` is a `CUstream`, of the primary context of this PE's device; null is the device's legacy default stream.
    /// Memory that is dropped is freed once our own work on the stream has ended: what the program itself enqueues on its
    /// stream does not keep it.
    ///
    /// # Safety
    /// `raw` is a live stream, and stays so until the `Stream` and graphs that were captured on it have been dropped.
    ///
    /// # Errors
    /// [`StreamError::OtherContext`](crate::StreamError::OtherContext), and
    /// [`StreamError::NotOnThisBackend`](crate::StreamError::NotOnThisBackend) on the simulator, which has no such streams.
    ///
    /// ```no_run
    /// # use shmem_host::{Error, World};
    /// # fn cu_stream() -> *mut std::ffi::c_void { std::ptr::null_mut() }
    /// World::from_env()?.run(|pe| {
    ///     let inbox = pe.alloc::<u32>(32)?;
    ///     // SAFETY: the stream lives as long as the program.
    ///     let stream = unsafe { pe.stream_from_raw(cu_stream()) }?;
    ///     stream.put(inbox.part(..16)?, inbox.part(16..)?, (pe.id() + 1) % pe.n())?;
    ///     stream.barrier_all()
    /// })?;
    /// # Ok::<(), Error>(())
    /// ```
    pub unsafe fn stream_from_raw(&self, raw: *mut c_void) -> Result<Stream, Error> {
        let session = self.stream().session();
        // SAFETY: the caller's.
        let id = unsafe { session.adopt_stream(raw) }?;
        Ok(Stream::new(session.clone(), id))
    }

    /// Device memory that the program has from elsewhere, as an argument for kernels and as the local side of puts and gets.
    /// Dropping it frees nothing.
    ///
    /// # Safety
    /// `address` is that of `len` elements on this PE's device, aligned for `T`; they live until this has been dropped and
    /// what uses them has run; and no one else writes them meanwhile, unless in stream order.
    ///
    /// # Errors
    /// The World has failed.
    ///
    /// ```
    /// use shmem_host::{Backend, Error, World};
    ///
    /// World::builder().pes(1).backend(Backend::Sim).build()?.run(|pe| {
    ///     let theirs = pe.buffer::<u32>(8)?; // a cust or cudarc buffer, in a program that has one
    ///     let dst = pe.alloc::<u32>(8)?;
    ///     // SAFETY: `theirs` outlives it, and nothing else is running.
    ///     let ours = unsafe { pe.buffer_from_raw::<u32>(theirs.address(), 8) }?;
    ///     ours.write(&[5; 8])?;
    ///     pe.stream().put(&dst, &ours, 0)?;
    ///     assert_eq!(dst.to_vec()?, [5; 8]);
    ///     Ok::<(), Error>(())
    /// })?;
    /// # Ok::<(), Error>(())
    /// ```
    pub unsafe fn buffer_from_raw<T: Pod>(&self, address: u64, len: usize) -> Result<Buf<T>, Error> {
        self.session().check()?;
        Ok(Buf::foreign(self.stream().session(), address, len))
    }
}
