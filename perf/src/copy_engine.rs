//! copy_engine: the device's own engine between two GPUs, as a ceiling, and put on a stream beside it.

use crate::bench::{Bench, Sweep};
use crate::on_stream;
use anyhow::ensure;
use cudarc::driver::{result, sys};

pub(crate) const SIZES: Sweep = Sweep {
    begin: 256 << 20,
    end: 256 << 20,
    factor: 2,
    simulated: 512,
};

pub(crate) fn copies(b: &Bench) -> anyhow::Result<()> {
    for bytes in b.sizes(SIZES, 4)? {
        // The simulator has no such engine.
        if !b.simulated {
            let engine = if b.pe.id() == 0 {
                Some(Engine::new(bytes)?)
            } else {
                None
            };
            let stream: sys::CUstream = b.pe.stream().as_raw().cast();
            let seconds = b.seconds(2..=1000, |n| -> anyhow::Result<()> {
                for _ in 0..n {
                    if let Some(engine) = &engine {
                        engine.copy(stream)?;
                    }
                }
                Ok(())
            })?;
            b.judge(engine.map_or(Ok(0), |engine| engine.wrong())?)?;
            b.row(
                "copy_engine",
                "cudaMemcpyPeerAsync",
                bytes,
                bytes as f64 / seconds * 1e-9,
                "GB/s",
            );
        }
        on_stream::moves(b, "copy_engine", "nvshmemx_putmem_on_stream", bytes, true)?;
    }
    Ok(())
}

/// A buffer on this PE's device and one on the next.
struct Engine {
    bytes: usize,
    here: Place,
    there: Place,
}

/// Memory in a device's primary context.
struct Place {
    device: sys::CUdevice,
    context: sys::CUcontext,
    address: sys::CUdeviceptr,
}

/// What every byte of the source is.
const BYTE: u8 = 0x5a;

impl Engine {
    fn new(bytes: usize) -> anyhow::Result<Self> {
        let count = result::device::get_count()?;
        ensure!(
            count > 1,
            "copy_engine copies between two devices: this process sees {count}"
        );
        let mut device = 0;
        // SAFETY: `device` is written to; the PE's thread has its device's context.
        unsafe { sys::cuCtxGetDevice(&raw mut device) }.result()?;
        let here = Place::new(device, bytes, BYTE)?;
        let there = Place::new((device + 1) % count, bytes, 0)?;
        // SAFETY: this PE's context is current, the other one is retained.
        match unsafe { sys::cuCtxEnablePeerAccess(there.context, 0) } {
            // By the library, for its heaps.
            sys::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => {}
            // Without, the copy would go through the host.
            enabled => enabled.result()?,
        }
        Ok(Self { bytes, here, there })
    }

    fn copy(&self, stream: sys::CUstream) -> anyhow::Result<()> {
        let (to, from) = (&self.there, &self.here);
        // SAFETY: both hold so many bytes, and live until the stream has been waited for: `seconds` does.
        unsafe { result::memcpy_peer_async(to.context, to.address, from.context, from.address, self.bytes, stream) }?;
        Ok(())
    }

    /// How many bytes did not arrive.
    fn wrong(&self) -> anyhow::Result<u64> {
        let mut bytes = vec![0u8; self.bytes];
        // SAFETY: the source holds as many bytes.
        unsafe { result::memcpy_dtoh_sync(&mut bytes, self.there.address) }?;
        Ok(bytes.into_iter().filter(|byte| *byte != BYTE).count() as u64)
    }
}

impl Place {
    fn new(device: sys::CUdevice, bytes: usize, byte: u8) -> anyhow::Result<Self> {
        // SAFETY: the device exists; `drop` releases the context.
        let context = unsafe { result::primary_ctx::retain(device) }?;
        let mut place = Self {
            device,
            context,
            address: 0,
        };
        place.within(|place| {
            // SAFETY: `drop` frees it.
            place.address = unsafe { result::malloc_sync(bytes) }?;
            // SAFETY: it has so many bytes.
            unsafe { result::memset_d8_sync(place.address, byte, bytes) }?;
            result::ctx::synchronize()
        })?;
        Ok(place)
    }

    /// Runs `f` in the place's context.
    fn within<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T, result::DriverError>) -> anyhow::Result<T> {
        let before = result::ctx::get_current()?;
        // SAFETY: the context is retained.
        unsafe { result::ctx::set_current(self.context) }?;
        let done = f(self);
        if let Some(before) = before {
            // SAFETY: it was current.
            unsafe { result::ctx::set_current(before) }?;
        }
        Ok(done?)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let device = self.device;
        // What the driver refuses here, the end of the process frees.
        let _ = self.within(|place| {
            if place.address != 0 {
                // SAFETY: made by `new`, and no copy is under way.
                unsafe { result::free_sync(place.address) }?;
            }
            Ok(())
        });
        // SAFETY: retained by `new`.
        let _ = unsafe { result::primary_ctx::release(device) };
    }
}
