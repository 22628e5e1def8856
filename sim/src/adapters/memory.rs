//! Memory as the emulated adapters see it: the heaps, and what a world keeps for its queues.

use crate::memory::{Heaps, Mapping};
use shmem_hca::{Memory, Place, Space, Unmapped};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// The only space: addresses of this process.
const HERE: Space = Space(0);

/// The heaps and the queues. Every access is checked against them and is made of atomics, as hosts look on.
pub(super) struct AdapterMemory {
    heaps: Arc<Heaps>,
    queues: Arc<Mapping>,
    /// Something was written since this was last asked.
    changed: AtomicBool,
}

impl AdapterMemory {
    pub(super) fn new(heaps: &Arc<Heaps>, queues: &Arc<Mapping>) -> Self {
        Self {
            heaps: Arc::clone(heaps),
            queues: Arc::clone(queues),
            changed: AtomicBool::new(false),
        }
    }

    /// Whether something was written since the last time.
    pub(super) fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::Relaxed)
    }

    /// The memory of `bytes` bytes at a place.
    fn find(&self, at: Place, bytes: usize) -> Result<*mut u8, Unmapped> {
        let inside = |start: *mut u8, length: u64| {
            let offset = at.address.checked_sub(start as u64)?;
            (offset.checked_add(bytes as u64)? <= length).then(|| start.wrapping_add(offset as usize))
        };
        let found = inside(self.queues.start(), self.queues.bytes() as u64)
            .or_else(|| (0..self.heaps.pes()).find_map(|pe| inside(self.heaps.base(pe), self.heaps.bytes())));
        found.filter(|_| at.space == HERE).ok_or(Unmapped(at))
    }
}

/// The words of 8, 4 and 1 bytes that a range is made of: offset and size of each.
fn words(start: usize, bytes: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut next = 0;
    std::iter::from_fn(move || {
        let offset = next;
        let fits = |size: usize| (start + offset).is_multiple_of(size) && bytes - offset >= size;
        let size = if offset >= bytes {
            return None;
        } else if fits(8) {
            8
        } else if fits(4) {
            4
        } else {
            1
        };
        next += size;
        Some((offset, size))
    })
}

impl Memory for AdapterMemory {
    fn read(&self, at: Place, into: &mut [u8]) -> Result<(), Unmapped> {
        let start = self.find(at, into.len())?;
        for (offset, size) in words(start.addr(), into.len()) {
            let (from, part) = (start.wrapping_add(offset), &mut into[offset..offset + size]);
            // SAFETY: inside a mapping that `self` keeps, aligned to its size; every access to shared memory is atomic.
            unsafe {
                match size {
                    8 => part.copy_from_slice(&AtomicU64::from_ptr(from.cast()).load(Ordering::Acquire).to_ne_bytes()),
                    4 => part.copy_from_slice(&AtomicU32::from_ptr(from.cast()).load(Ordering::Acquire).to_ne_bytes()),
                    _ => part[0] = AtomicU8::from_ptr(from).load(Ordering::Acquire),
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, at: Place, bytes: &[u8]) -> Result<(), Unmapped> {
        let start = self.find(at, bytes.len())?;
        for (offset, size) in words(start.addr(), bytes.len()) {
            let (to, part) = (start.wrapping_add(offset), &bytes[offset..offset + size]);
            // SAFETY: as in `read`.
            unsafe {
                if let Ok(word) = <[u8; 8]>::try_from(part) {
                    AtomicU64::from_ptr(to.cast()).store(u64::from_ne_bytes(word), Ordering::Release);
                } else if let Ok(word) = <[u8; 4]>::try_from(part) {
                    AtomicU32::from_ptr(to.cast()).store(u32::from_ne_bytes(word), Ordering::Release);
                } else {
                    AtomicU8::from_ptr(to).store(part[0], Ordering::Release);
                }
            }
        }
        self.changed.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn change(&mut self, at: Place, bytes: usize, change: &dyn Fn(u64) -> u64) -> Result<u64, Unmapped> {
        let start = self.find(at, bytes)?;
        if !start.addr().is_multiple_of(bytes) {
            return Err(Unmapped(at));
        }
        self.changed.store(true, Ordering::Relaxed);
        // SAFETY: as in `read`; a host's atomics on the same word are not lost.
        unsafe {
            if bytes == 4 {
                let word = AtomicU32::from_ptr(start.cast());
                let changed = |old: u32| Some(change(old.into()) as u32);
                let (Ok(old) | Err(old)) = word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, changed);
                Ok(old.into())
            } else {
                let word = AtomicU64::from_ptr(start.cast());
                let changed = |old| Some(change(old));
                let (Ok(old) | Err(old)) = word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, changed);
                Ok(old)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(address: u64) -> Place {
        Place { space: HERE, address }
    }

    fn memory() -> (AdapterMemory, Arc<Heaps>) {
        let heaps = Arc::new(Heaps::new(2, 1 << 20).unwrap());
        let queues = Arc::new(Mapping::new(1 << 16, "test").unwrap());
        (AdapterMemory::new(&heaps, &queues), heaps)
    }

    #[test]
    fn bytes_of_any_place_come_back() {
        let (mut memory, heaps) = memory();
        assert!(!memory.take_changed());
        for (start, length) in [(0, 64), (1, 31), (3, 5), (4, 4), (6, 13)] {
            let at = place(heaps.base(1) as u64 + start);
            let bytes: Vec<u8> = (1..=length).collect();
            memory.write(at, &bytes).unwrap();
            let mut back = vec![0; bytes.len()];
            memory.read(at, &mut back).unwrap();
            assert_eq!(back, bytes);
        }
        assert!(memory.take_changed() && !memory.take_changed());
    }

    #[test]
    fn what_lies_outside_is_no_memory() {
        let (mut memory, heaps) = memory();
        let end = heaps.base(0) as u64 + (1 << 20);
        let elsewhere = Place {
            space: Space(1),
            address: heaps.base(0) as u64,
        };
        for at in [place(end - 7), place(8), place(u64::MAX - 3), elsewhere] {
            assert_eq!(memory.read(at, &mut [0; 8]), Err(Unmapped(at)));
            assert_eq!(memory.write(at, &[0; 8]), Err(Unmapped(at)));
            assert_eq!(memory.change(at, 8, &|x| x), Err(Unmapped(at)));
        }
        assert_eq!(memory.read(place(end - 8), &mut [0; 8]), Ok(()));
        let odd = place(heaps.base(0) as u64 + 4);
        assert_eq!(memory.change(odd, 8, &|x| x), Err(Unmapped(odd)));
    }

    #[test]
    fn atomics_return_what_was_there() {
        let (mut memory, heaps) = memory();
        let at = place(heaps.base(0) as u64 + 16);
        assert_eq!(memory.change(at, 8, &|x| x + 5), Ok(0));
        assert_eq!(memory.change(at, 4, &|x| x * 3), Ok(5));
        assert_eq!(memory.change(at, 8, &|x| x), Ok(15));
    }
}
