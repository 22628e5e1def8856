//! What has been made and not destroyed.

use crate::{INVALID_VALUE, OUT_OF_MEMORY};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;

/// The address of a module's constants, where there is no memory.
pub(crate) const CONSTANTS: usize = 64;

pub(crate) struct Objects {
    counts: BTreeMap<&'static str, i64>,
    allocations: BTreeMap<u64, Layout>,
    next: usize,
}

impl Objects {
    pub(crate) const fn new() -> Self {
        Self {
            counts: BTreeMap::new(),
            allocations: BTreeMap::new(),
            next: 16,
        }
    }

    pub(crate) fn count(&mut self, name: &'static str, by: i64) {
        *self.counts.entry(name).or_default() += by;
    }

    /// A new object's handle.
    pub(crate) fn make(&mut self, name: &'static str) -> usize {
        self.count(name, 1);
        self.next += 1;
        self.next
    }

    pub(crate) fn allocate(&mut self, name: &'static str, size: usize) -> Result<u64, u32> {
        let layout = Layout::from_size_align(size.max(1), 4096).map_err(|_| OUT_OF_MEMORY)?;
        // SAFETY: the layout has bytes.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            return Err(OUT_OF_MEMORY);
        }
        self.count(name, 1);
        self.allocations.insert(start as u64, layout);
        Ok(start as u64)
    }

    pub(crate) fn deallocate(&mut self, name: &'static str, address: u64) -> Result<(), u32> {
        let layout = self.allocations.remove(&address).ok_or(INVALID_VALUE)?;
        // SAFETY: `allocate` made it with this layout.
        unsafe { dealloc(address as *mut u8, layout) };
        self.count(name, -1);
        Ok(())
    }

    /// What is not gone, or gone more often than it was made.
    pub(crate) fn left(&self) -> impl Iterator<Item = (&'static str, i64)> {
        self.counts
            .iter()
            .map(|(name, count)| (*name, *count))
            .filter(|(_, count)| *count != 0)
    }
}
