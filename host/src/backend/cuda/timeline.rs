//! Timelines of kernels that record their calls: rings in device memory, read when the World ends.
//!
//! Times are those of `%clock64`, laid over `%globaltimer`, whose steps are coarse; clocks of several devices are compared
//! through the host.

use super::driver::{Address, out};
use super::error::CudaError;
use super::gpu::Gpu;
use super::poll::settle;
use clocks::{Offset, compare};
use shmem::bytemuck;
use shmem::timeline::{RECORDS_AT, Record, Ring};
use shmem_sim::Trace;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use tracks::{Pe, Times, add};

mod clocks;
mod tracks;

/// Records of a PE: 72 MB.
const CAPACITY: u64 = 1 << 20;
/// Longest name that is read.
const LONGEST: u32 = 4096;

pub(super) struct Timeline {
    file: PathBuf,
    /// Of PEs of this process, from `first` on.
    first: u32,
    rings: Vec<Address>,
    /// By device.
    clocks: Vec<Offset>,
    /// Whether a module with records has been loaded, and one without.
    recorded: AtomicBool,
    unrecorded: AtomicBool,
}

impl Timeline {
    /// None where `SHMEM_TIMELINE` is not set.
    pub(super) fn start(gpus: &[Gpu], owners: &[usize], first: u32) -> Result<Option<Self>, CudaError> {
        let Some(file) = std::env::var_os("SHMEM_TIMELINE").filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        let ring = |owner: &usize| {
            let gpu = &gpus[*owner];
            let (_current, mut address) = (gpu.enter()?, Address(0));
            let bytes = RECORDS_AT as usize + CAPACITY as usize * size_of::<Record>();
            // SAFETY: a context is current; the memory stays until `finish`.
            unsafe { gpu.driver.cuMemAlloc_v2(out(&mut address), bytes) }?;
            // SAFETY: fresh memory, larger than that.
            unsafe { gpu.driver.cuMemsetD8Async(address, 0, RECORDS_AT as usize, gpu.control) }?;
            // SAFETY: the stream is live, and its context current.
            settle(|| unsafe { gpu.driver.stream_is_idle(gpu.control) })?;
            Ok(address)
        };
        Ok(Some(Self {
            file: file.into(),
            first,
            rings: owners.iter().map(ring).collect::<Result<_, CudaError>>()?,
            clocks: compare(gpus)?,
            recorded: AtomicBool::new(false),
            unrecorded: AtomicBool::new(false),
        }))
    }

    /// What a PE's modules are told.
    pub(super) fn ring(&self, pe: u32) -> Ring {
        Ring {
            address: self.rings[(pe - self.first) as usize].0,
            capacity: CAPACITY,
        }
    }

    /// Whether a module that was loaded has records.
    pub(super) fn loaded(&self, records: bool) {
        let which = if records { &self.recorded } else { &self.unrecorded };
        which.store(true, Ordering::Relaxed);
    }

    /// Writes the file, and frees the rings. No kernel runs, and modules are still loaded.
    pub(super) fn finish(&self, gpus: &[Gpu], owners: &[usize]) {
        self.write(gpus, owners);
        for (ring, &owner) in self.rings.iter().zip(owners) {
            if let Ok(_current) = gpus[owner].enter() {
                // SAFETY: allocated in `start`, and nothing uses it any more. A refusal means that the context is lost.
                let _ = unsafe { gpus[owner].driver.cuMemFree_v2(*ring) };
            }
        }
    }

    fn write(&self, gpus: &[Gpu], owners: &[usize]) {
        if self.unrecorded.load(Ordering::Relaxed) {
            eprintln!(
                "shmem: SHMEM_TIMELINE is set, but {} kernels were built without records: set SHMEM_TIMELINE_EVENTS=1 for \
                 `cargo build`",
                if self.recorded.load(Ordering::Relaxed) {
                    "some"
                } else {
                    "the"
                }
            );
        }
        if !self.recorded.load(Ordering::Relaxed) {
            return;
        }
        let file = Trace::file(&self.file);
        let written = self
            .trace(gpus, owners)
            .map_err(|error| error.to_string())
            .and_then(|trace| trace.write(&file).map_err(|error| error.to_string()));
        if let Err(error) = written {
            eprintln!(
                "shmem: the timeline could not be written to {}: {error}",
                file.display()
            );
        }
    }

    fn trace(&self, gpus: &[Gpu], owners: &[usize]) -> Result<Trace, CudaError> {
        let mut pes = Vec::new();
        for (ring, &owner) in self.rings.iter().zip(owners) {
            let (gpu, clock) = (&gpus[owner], self.clocks[owner]);
            let _current = gpu.enter()?;
            let mut count = 0u64;
            read(gpu, *ring, bytemuck::bytes_of_mut(&mut count))?;
            let mut records = vec![bytemuck::Zeroable::zeroed(); count.min(CAPACITY) as usize];
            let first = Address(ring.0 + RECORDS_AT);
            read(gpu, first, bytemuck::cast_slice_mut::<Record, u8>(&mut records))?;
            let times = Times::new(&records, gpu.clock_per_ns, clock.ns);
            pes.push(Pe {
                names: names(gpu, &records),
                lost: count.saturating_sub(CAPACITY),
                device: format!(
                    "{}; its clock is compared to within {} ns",
                    gpu.describe(),
                    clock.uncertain_ns
                ),
                records,
                times,
            });
        }
        let start = pes.iter().filter_map(Pe::first_ns).min().unwrap_or(0);
        let mut trace = Trace::default();
        for (pe, of) in (self.first..).zip(&pes) {
            add(&mut trace, pe, of, start);
        }
        Ok(trace)
    }
}

/// Copies from the device. Its context is current.
fn read(gpu: &Gpu, from: Address, into: &mut [u8]) -> Result<(), CudaError> {
    if into.is_empty() {
        return Ok(());
    }
    let to = into.as_mut_ptr().cast();
    // SAFETY: the caller's device memory has that many bytes; `into` is borrowed until the copy has ended, below.
    unsafe { gpu.driver.cuMemcpyDtoHAsync_v2(to, from, into.len(), gpu.control) }?;
    // SAFETY: the stream is live, and its context current.
    settle(|| unsafe { gpu.driver.stream_is_idle(gpu.control) })
}

/// Files and kernels by the address of their name. What can't be read is left out.
fn names(gpu: &Gpu, records: &[Record]) -> HashMap<u64, String> {
    let mut names = HashMap::new();
    for record in records {
        names.entry(record.file).or_insert_with(|| {
            let mut bytes = vec![0; record.file_len.min(LONGEST) as usize];
            match read(gpu, Address(record.file), &mut bytes) {
                Ok(()) => String::from_utf8_lossy(&bytes).into_owned(),
                Err(_) => "?".to_owned(),
            }
        });
    }
    names
}
