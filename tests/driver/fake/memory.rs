//! The virtual memory calls: reserved addresses are inaccessible pages, physical memory is a file.

use crate::{INVALID_VALUE, OUT_OF_MEMORY, number};
use rustix::fs::{MemfdFlags, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mmap_anonymous, mprotect, munmap};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd};
use std::ptr;

/// Bytes of a device.
pub(crate) fn of_device() -> u64 {
    number("FAKE_CUDA_MEMORY").unwrap_or(1 << 30)
}

/// The first words of a CUmemAllocationProp: kind, handle types, kind of location, device.
pub(crate) type Prop = [u32; 4];

struct Physical {
    file: OwnedFd,
    /// Bytes that count against the device's.
    counted: u64,
    prop: Prop,
}

impl Physical {
    fn another(&self) -> Result<Self, u32> {
        let file = self.file.try_clone().map_err(|_| OUT_OF_MEMORY)?;
        Ok(Self {
            file,
            counted: 0,
            prop: self.prop,
        })
    }
}

pub(crate) struct Memory {
    reserved: BTreeMap<u64, usize>,
    handles: BTreeMap<u64, Physical>,
    /// Size, and the handle's memory.
    mapped: BTreeMap<u64, (usize, Physical)>,
    used: u64,
    next: u64,
}

impl Memory {
    pub(crate) const fn new() -> Self {
        Self {
            reserved: BTreeMap::new(),
            handles: BTreeMap::new(),
            mapped: BTreeMap::new(),
            used: 0,
            next: 1,
        }
    }

    /// Of all devices together.
    pub(crate) fn left(&self) -> u64 {
        of_device().saturating_sub(self.used)
    }

    pub(crate) fn reserve(&mut self, size: usize) -> Result<u64, u32> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: new pages at an address that the system chooses.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), size, ProtFlags::empty(), flags) };
        let start = start.map_err(|_| OUT_OF_MEMORY)? as u64;
        self.reserved.insert(start, size);
        Ok(start)
    }

    /// Nothing may be mapped there any more.
    pub(crate) fn unreserve(&mut self, address: u64, size: usize) -> Result<(), u32> {
        if self.reserved.remove(&address) != Some(size)
            || self.mapped.range(address..address + size as u64).next().is_some()
        {
            return Err(INVALID_VALUE);
        }
        // SAFETY: what `reserve` has mapped.
        unsafe { munmap(address as *mut _, size) }.map_err(|_| INVALID_VALUE)
    }

    pub(crate) fn create(&mut self, size: usize, prop: Prop) -> Result<u64, u32> {
        let counted = size as u64;
        if counted > self.left() {
            return Err(OUT_OF_MEMORY);
        }
        let file = memfd_create("fake device memory", MemfdFlags::CLOEXEC).map_err(|_| OUT_OF_MEMORY)?;
        ftruncate(&file, counted).map_err(|_| OUT_OF_MEMORY)?;
        self.used += counted;
        Ok(self.keep(Physical { file, counted, prop }))
    }

    fn keep(&mut self, memory: Physical) -> u64 {
        self.next += 1;
        self.handles.insert(self.next, memory);
        self.next
    }

    fn of(&self, handle: u64) -> Result<&Physical, u32> {
        self.handles.get(&handle).ok_or(INVALID_VALUE)
    }

    pub(crate) fn prop(&self, handle: u64) -> Result<Prop, u32> {
        Ok(self.of(handle)?.prop)
    }

    pub(crate) fn release(&mut self, handle: u64) -> Result<(), u32> {
        self.used -= self.handles.remove(&handle).ok_or(INVALID_VALUE)?.counted;
        Ok(())
    }

    pub(crate) fn export(&mut self, handle: u64) -> Result<c_int, u32> {
        Ok(self.of(handle)?.another()?.file.into_raw_fd())
    }

    pub(crate) fn import(&mut self, file: c_int) -> Result<u64, u32> {
        // SAFETY: the caller's, open during the call.
        let file = unsafe { BorrowedFd::borrow_raw(file) };
        let file = file.try_clone_to_owned().map_err(|_| INVALID_VALUE)?;
        let (counted, prop) = (0, [1; 4]);
        Ok(self.keep(Physical { file, counted, prop }))
    }

    /// One more handle of what is mapped at the address.
    pub(crate) fn retain(&mut self, address: u64) -> Result<u64, u32> {
        let start = self.range(address)?.0;
        let memory = self.mapped[&start].1.another()?;
        Ok(self.keep(memory))
    }

    /// Start and size of the mapping that the address is in.
    pub(crate) fn range(&self, address: u64) -> Result<(u64, usize), u32> {
        let (start, (size, _)) = self.mapped.range(..=address).next_back().ok_or(INVALID_VALUE)?;
        let inside = address < start + *size as u64;
        inside.then_some((*start, *size)).ok_or(INVALID_VALUE)
    }

    pub(crate) fn map(&mut self, address: u64, size: usize, handle: u64) -> Result<(), u32> {
        let memory = self.of(handle)?.another()?;
        let (start, length) = self.reserved.range(..=address).next_back().ok_or(INVALID_VALUE)?;
        let end = address + size as u64;
        let fits = fstat(&memory.file).is_ok_and(|file| file.st_size >= size as i64);
        let taken = self.mapped.range(..end).next_back();
        if end > start + *length as u64
            || !fits
            || taken.is_some_and(|(other, (size, _))| other + *size as u64 > address)
        {
            return Err(INVALID_VALUE);
        }
        let (none, flags) = (ProtFlags::empty(), MapFlags::SHARED | MapFlags::FIXED);
        // SAFETY: the range is reserved, and nothing is mapped there.
        unsafe { mmap(address as *mut _, size, none, flags, &memory.file, 0) }.map_err(|_| OUT_OF_MEMORY)?;
        self.mapped.insert(address, (size, memory));
        Ok(())
    }

    pub(crate) fn open(&mut self, address: u64, size: usize) -> Result<(), u32> {
        if self.mapped.get(&address).is_none_or(|(mapped, _)| *mapped != size) {
            return Err(INVALID_VALUE);
        }
        // SAFETY: mapped as a whole.
        unsafe { mprotect(address as *mut _, size, MprotectFlags::READ | MprotectFlags::WRITE) }
            .map_err(|_| INVALID_VALUE)
    }

    pub(crate) fn unmap(&mut self, address: u64, size: usize) -> Result<(), u32> {
        if self.mapped.remove(&address).is_none_or(|(mapped, _)| mapped != size) {
            return Err(INVALID_VALUE);
        }
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: the range stays reserved, without memory.
        unsafe { mmap_anonymous(address as *mut _, size, ProtFlags::empty(), flags) }.map_err(|_| INVALID_VALUE)?;
        Ok(())
    }
}
