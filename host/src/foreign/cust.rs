//! cust 0.3's contexts, streams and buffers. cust links libcuda, so a program with it starts on machines with a driver only.

use crate::backend::cuda::CudaError;
use crate::{Buf, Error, Pe, Stream};
use cust::context::Context;
use cust::device::Device;
use cust::memory::{DeviceBuffer, DeviceCopy};
use cust::{CudaFlags, error::CudaError as Cust};
use shmem::Pod;

impl Pe {
    /// cust's context of this PE's device, current on this thread: the same primary context that this library uses. Streams
    /// and buffers that are made now go with this PE.
    ///
    /// # Errors
    /// [`StreamError::NotOnThisBackend`](crate::StreamError::NotOnThisBackend) on the simulator; cust's error, as
    /// [`CudaError::Call`].
    pub fn cust_context(&self) -> Result<Context, Error> {
        let session = self.stream().session();
        let Some(index) = session.device.index() else {
            let (pe, backend) = (self.id(), session.shared.platform.name());
            return Err(crate::StreamError::NotOnThisBackend { pe, backend }.into());
        };
        cust::init(CudaFlags::empty()).map_err(refused("cust::init"))?;
        let device = Device::get_device(index).map_err(refused("cust::Device::get_device"))?;
        Context::new(device).map_err(refused("cust::Context::new"))
    }

    /// Runs `work` with a cust stream as one of ours: launches and operations on it come in order with what the program
    /// enqueues there itself.
    ///
    /// # Errors
    /// Those of [`stream_from_raw`](Self::stream_from_raw) and of `work`.
    ///
    /// ```ignore
    /// let stream = cust::stream::Stream::new(cust::stream::StreamFlags::NON_BLOCKING, None)?;
    /// pe.with_cust_stream(&stream, |stream| stream.put(&inbox, &outbox, right))?;
    /// ```
    pub fn with_cust_stream<T, E: From<Error>>(
        &self,
        stream: &cust::stream::Stream,
        work: impl FnOnce(&Stream) -> Result<T, E>,
    ) -> Result<T, E> {
        // SAFETY: borrowed for as long as the Stream lives.
        let stream = unsafe { self.stream_from_raw(stream.as_inner().cast()) }?;
        work(&stream)
    }

    /// A cust buffer as an argument for kernels, and as the local side of puts and gets.
    ///
    /// # Safety
    /// As [`buffer_from_raw`](Self::buffer_from_raw): the buffer lives until this has been dropped and what uses it has run.
    ///
    /// # Errors
    /// The World has failed.
    pub unsafe fn buffer_from_cust<T: Pod + DeviceCopy>(&self, buffer: &DeviceBuffer<T>) -> Result<Buf<T>, Error> {
        // SAFETY: a device buffer is so many elements, aligned; the rest is the caller's.
        unsafe { self.buffer_from_raw(buffer.as_device_ptr().as_raw(), buffer.len()) }
    }
}

/// cust's refusal of a call.
fn refused(call: &'static str) -> impl FnOnce(Cust) -> Error {
    move |error| {
        CudaError::Call {
            call: call.to_owned(),
            result: error.to_string(),
            code: error as u32,
        }
        .into()
    }
}
