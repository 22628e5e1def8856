//! Memory of this process that others write at the same time: host memory that a GPU has mapped.

use crate::memory::{Memory, Place, Space, Unmapped};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

/// Regions of this process's memory, read and written by atomics. They lie apart.
#[derive(Debug, Default)]
pub struct Pinned {
    /// By their places.
    regions: Vec<Region>,
}

#[derive(Debug)]
struct Region {
    place: Place,
    start: *mut u8,
    bytes: usize,
}

impl Region {
    fn order(&self) -> (Space, u64) {
        (self.place.space, self.place.address)
    }
}

// SAFETY: the memory behind the pointers is accessed by atomics only, and `add` demands that it stays.
unsafe impl Send for Pinned {}
// SAFETY: as above.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `bytes` at `start`, known as addresses of `space`. A place's address is the pointer's.
    ///
    /// # Safety
    /// The memory stays valid for reads and writes as long as this value is used, and nothing else accesses it but by
    /// atomics, by volatile accesses, or from a device.
    pub unsafe fn add(&mut self, space: Space, start: *mut u8, bytes: usize) -> Place {
        let place = Place {
            space,
            address: start.expose_provenance() as u64,
        };
        let order = (space, place.address);
        let i = self.regions.partition_point(|region| region.order() < order);
        self.regions.insert(i, Region { place, start, bytes });
        place
    }

    fn find(&self, at: Place, bytes: usize) -> Result<*mut u8, Unmapped> {
        // The last one that begins there or before.
        let next = self
            .regions
            .partition_point(|region| region.order() <= (at.space, at.address));
        let found = || {
            let region = &self.regions[next.checked_sub(1)?];
            let offset = at.address.checked_sub(region.place.address)? as usize;
            let inside = region.place.space == at.space && offset.checked_add(bytes)? <= region.bytes;
            // SAFETY: inside the region.
            inside.then(|| unsafe { region.start.add(offset) })
        };
        found().ok_or(Unmapped(at))
    }
}

/// Calls `word` for aligned words of 8 and 4 bytes and `byte` for the rest, with their offsets.
fn split(start: *mut u8, bytes: usize, mut each: impl FnMut(usize, usize)) {
    let mut i = 0;
    while i < bytes {
        let at = start.addr() + i;
        let size = [8, 4]
            .into_iter()
            .find(|&size| at.is_multiple_of(size) && bytes - i >= size);
        let size = size.unwrap_or(1);
        each(i, size);
        i += size;
    }
}

impl Memory for Pinned {
    fn read(&self, at: Place, into: &mut [u8]) -> Result<(), Unmapped> {
        let start = self.find(at, into.len())?;
        split(start, into.len(), |i, size| {
            // SAFETY: inside the region, aligned to its size, and accessed by atomics only.
            let word = unsafe {
                let from = start.add(i);
                match size {
                    8 => AtomicU64::from_ptr(from.cast()).load(Ordering::Relaxed),
                    4 => u64::from(AtomicU32::from_ptr(from.cast()).load(Ordering::Relaxed)),
                    _ => u64::from(AtomicU8::from_ptr(from).load(Ordering::Relaxed)),
                }
            };
            match size {
                8 => into[i..i + 8].copy_from_slice(&word.to_ne_bytes()),
                4 => into[i..i + 4].copy_from_slice(&(word as u32).to_ne_bytes()),
                _ => into[i] = word as u8,
            }
        });
        Ok(())
    }

    fn write(&mut self, at: Place, bytes: &[u8]) -> Result<(), Unmapped> {
        let start = self.find(at, bytes.len())?;
        split(start, bytes.len(), |i, size| {
            // SAFETY: inside the region, aligned to its size, and accessed by atomics only.
            unsafe {
                let to = start.add(i);
                match <[u8; 8]>::try_from(&bytes[i..i + size]) {
                    Ok(word) => AtomicU64::from_ptr(to.cast()).store(u64::from_ne_bytes(word), Ordering::Relaxed),
                    Err(_) => match <[u8; 4]>::try_from(&bytes[i..i + size]) {
                        Ok(word) => AtomicU32::from_ptr(to.cast()).store(u32::from_ne_bytes(word), Ordering::Relaxed),
                        Err(_) => AtomicU8::from_ptr(to).store(bytes[i], Ordering::Relaxed),
                    },
                }
            }
        });
        Ok(())
    }

    fn change(&mut self, at: Place, bytes: usize, change: &dyn Fn(u64) -> u64) -> Result<u64, Unmapped> {
        if !at.address.is_multiple_of(bytes as u64) {
            return Err(Unmapped(at));
        }
        let word = self.find(at, bytes)?;
        let all = Ordering::SeqCst;
        // SAFETY: inside the region, aligned, and accessed by atomics only.
        unsafe {
            Ok(if bytes == 4 {
                let update = |old: u32| change(old.into()) as u32;
                AtomicU32::from_ptr(word.cast()).update(all, all, update).into()
            } else {
                AtomicU64::from_ptr(word.cast()).update(all, all, change)
            })
        }
    }

    fn acquire(&self) {
        fence(Ordering::SeqCst);
    }

    fn release(&self) {
        fence(Ordering::SeqCst);
    }
}
