//! Host memory that streams copy from and to, and the copies.
//!
//! A copy takes the memory for as long as it is under way, so that nobody reads or writes it meanwhile.

use crate::backend::{Marker, StreamId};
use crate::on_stream::{Here, StreamError};
use crate::session::{Memory, Session};
use crate::{Error, Pe, Stream};
use shmem::{Pod, Region, bytemuck};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// Page-locked host memory, from [`Pe::pinned`]: a slice that streams copy at full speed, beside everything else.
///
/// CUDA `cuMemHostAlloc`.
///
/// ```
/// use shmem_host::{Backend, World};
///
/// World::builder().pes(2).backend(Backend::Sim).build()?.run(|pe| {
///     let data = pe.alloc::<f32>(100)?;
///     let mut host = pe.pinned::<f32>(100)?;
///     host.fill(1.5);
///     let copying = pe.stream().copy_from_host(&data, host)?;
///     // Anything else meanwhile.
///     let host = copying.wait()?;
///     let host = pe.stream().copy_to_host(host, &data)?.wait()?;
///     assert_eq!(*host, [1.5; 100]);
///     Ok::<(), shmem_host::Error>(())
/// })?;
/// # Ok::<(), shmem_host::Error>(())
/// ```
pub struct Pinned<T: Pod> {
    session: Rc<Session>,
    address: u64,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Pod> Pinned<T> {
    fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// The memory, for somebody else to free.
    fn give_away(mut self) -> u64 {
        std::mem::take(&mut self.address)
    }
}

impl<T: Pod> Deref for Pinned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: allocated with as many bytes, aligned to a page, zero or written at first; no copy is under way, which would
        // have taken it.
        let bytes = unsafe { std::slice::from_raw_parts(self.address as *const u8, self.bytes()) };
        bytemuck::cast_slice(bytes)
    }
}

impl<T: Pod> DerefMut for Pinned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and borrowed for itself.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.address as *mut u8, self.bytes()) };
        bytemuck::cast_slice_mut(bytes)
    }
}

impl<T: Pod> Drop for Pinned<T> {
    fn drop(&mut self) {
        // 0 where it was given away.
        if self.address != 0 {
            self.session.device.free_host(self.address);
        }
    }
}

impl<T: Pod> fmt::Debug for Pinned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} elements of pinned memory", self.len)
    }
}

/// A copy between host and device that a stream has been given. It holds the host's memory: [`wait`](Self::wait) gives it
/// back. Dropped, the copy goes on, and the memory is freed behind it. Example at [`Pinned`].
#[must_use = "`wait` gives the memory back"]
pub struct Copying<T: Pod> {
    /// None once it was given back.
    pinned: Option<Pinned<T>>,
    session: Rc<Session>,
    stream: StreamId,
    end: Box<dyn Marker>,
}

impl<T: Pod> Copying<T> {
    /// Whether the copy has been made.
    ///
    /// ```
    /// # use shmem_host::{Backend, World};
    /// # World::builder().pes(1).backend(Backend::Sim).build()?.run(|pe| {
    /// let data = pe.buffer::<u8>(3)?;
    /// let copying = pe.stream().copy_to_host(pe.pinned(3)?, &data)?;
    /// pe.stream().synchronize()?;
    /// assert!(copying.is_done());
    /// # Ok::<(), shmem_host::Error>(())
    /// # })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    pub fn is_done(&self) -> bool {
        self.end.reached()
    }

    /// Waits until the copy has been made, or the whole stream has drained, and gives the memory back.
    ///
    /// # Errors
    /// As [`Stream::synchronize`]; the memory is then gone.
    pub fn wait(mut self) -> Result<Pinned<T>, Error> {
        if !self.is_done() {
            self.session.wait(self.stream)?;
        }
        Ok(self.pinned.take().expect("only `wait` takes it, once"))
    }
}

impl<T: Pod> Drop for Copying<T> {
    fn drop(&mut self) {
        if let Some(pinned) = self.pinned.take() {
            self.session.drop_memory(Memory::Host(pinned.give_away()));
        }
    }
}

impl<T: Pod> fmt::Debug for Copying<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a copy on stream {}", self.stream.0)
    }
}

impl Pe {
    /// `len` elements of page-locked host memory, zero. Example at [`Pinned`].
    ///
    /// # Errors
    /// [`HeapError::OutOfMemory`](crate::HeapError::OutOfMemory), [`CudaError`](crate::CudaError).
    pub fn pinned<T: Pod>(&self, len: usize) -> Result<Pinned<T>, Error> {
        const {
            assert!(
                size_of::<T>() > 0 && align_of::<T>() <= 256,
                "elements with bytes, of an alignment that pages have"
            )
        };
        let session = self.session_rc().clone();
        session.check()?;
        let (size, count) = (size_of::<T>() as u64, len as u64);
        let bytes = count
            .checked_mul(size)
            .ok_or(crate::HeapError::TooLarge { len: count, size })?;
        let address = session.device.alloc_host(bytes)?;
        Ok(Pinned {
            session,
            address,
            len,
            element: PhantomData,
        })
    }
}

impl Stream {
    /// Copies from the host's memory to this PE's `dst`, in stream order. Example at [`Pinned`].
    ///
    /// CUDA `cuMemcpyHtoDAsync`.
    ///
    /// # Errors
    /// [`StreamError::Length`] where the lengths differ, [`LaunchError::StaleHandle`](crate::LaunchError::StaleHandle); the
    /// memory is then freed.
    pub fn copy_from_host<T: Pod>(&self, dst: impl Into<Here<T>>, src: Pinned<T>) -> Result<Copying<T>, Error> {
        self.copy_with_host("copy_from_host", dst.into(), src, false)
    }

    /// Copies this PE's `src` to the host's memory, in stream order. Example at [`Pinned`].
    ///
    /// CUDA `cuMemcpyDtoHAsync`.
    ///
    /// # Errors
    /// As [`copy_from_host`](Self::copy_from_host).
    pub fn copy_to_host<T: Pod>(&self, dst: Pinned<T>, src: impl Into<Here<T>>) -> Result<Copying<T>, Error> {
        self.copy_with_host("copy_to_host", src.into(), dst, true)
    }

    fn copy_with_host<T: Pod>(
        &self,
        call: &'static str,
        here: Here<T>,
        pinned: Pinned<T>,
        to_host: bool,
    ) -> Result<Copying<T>, Error> {
        let (session, stream) = (self.session(), self.id());
        session.check()?;
        session.refuse_in_capture(call)?;
        let (device, host) = (here.len(), pinned.len as u64);
        if device != host {
            let (dst, src) = if to_host { (host, device) } else { (device, host) };
            let pe = session.pe;
            return Err(StreamError::Length { pe, call, dst, src }.into());
        }
        let mut address = None;
        session.check_handles(call, |visit| {
            here.regions(&mut |region| {
                visit(region);
                address = match region {
                    Region::Symmetric { offset, .. } => Some(session.device.heap_base() + offset),
                    Region::Global { address, .. } => Some(address),
                    Region::Team { .. } => None,
                }
            });
        })?;
        let (host, bytes) = (pinned.address, pinned.bytes() as u64);
        if let Some(address) = address.filter(|_| bytes > 0) {
            let copied = session.device.copy(stream, address, host, bytes, to_host);
            copied.map_err(|e| if e.is_fatal() { session.fatal(e) } else { e })?;
        }
        session.launched(stream, call.into());
        let end = session.device.mark(stream)?;
        Ok(Copying {
            pinned: Some(pinned),
            session: session.clone(),
            stream,
            end,
        })
    }
}
