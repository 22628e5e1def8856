//! What PEs tell each other while they wait: how far each has come, and whether its device holds it up. In memory that the
//! processes of a machine share. What those of other machines have come to is written there when they answer for it.

use crate::layout::Layout;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// One PE's, on a cache line of its own.
#[derive(Default)]
#[repr(C, align(64))]
struct Slot {
    /// Rounds that it has come to.
    came: AtomicU64,
    held_up: AtomicU32,
}

pub(crate) struct Board(Memory);

enum Memory {
    Own(Box<[Slot]>),
    Shared { slots: *const Slot, count: usize },
}

// SAFETY: slots are atomics.
unsafe impl Send for Board {}
// SAFETY: as above.
unsafe impl Sync for Board {}

impl Board {
    /// For PEs of one process.
    pub(crate) fn own(layout: &Layout) -> Self {
        Self(Memory::Own((0..layout.pes()).map(|_| Slot::default()).collect()))
    }

    /// Memory for a board that processes share.
    pub(crate) fn file(layout: &Layout) -> io::Result<OwnedFd> {
        let file = memfd_create("shmem board", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, (layout.pes() as usize * size_of::<Slot>()) as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(file)
    }

    /// The board in a file that [`file`](Self::file) has made.
    pub(crate) fn shared(layout: &Layout, file: impl AsFd) -> io::Result<Self> {
        let count = layout.pes() as usize;
        let bytes = count * size_of::<Slot>();
        if u64::try_from(fstat(&file)?.st_size).is_ok_and(|there| there < bytes as u64) {
            return Err(io::Error::other("the board has another size"));
        }
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: new pages at an address that the system chooses, as many as the file has.
        let start = unsafe { mmap(ptr::null_mut(), bytes, prot, MapFlags::SHARED, file, 0) }?;
        let slots = start.cast_const().cast();
        Ok(Self(Memory::Shared { slots, count }))
    }

    fn slot(&self, pe: u32) -> &Slot {
        let slots = match &self.0 {
            Memory::Own(slots) => slots,
            // SAFETY: mapped and zero at first, which is a slot; page-aligned; unmapped when the board goes. Others change
            // it only by atomics; what a process without manners writes there is a wrong number.
            Memory::Shared { slots, count } => unsafe { std::slice::from_raw_parts(*slots, *count) },
        };
        &slots[pe as usize]
    }

    /// The PE has come to so many rounds.
    pub(crate) fn come(&self, pe: u32, rounds: u64) {
        self.slot(pe).came.store(rounds, Ordering::Release);
    }

    pub(crate) fn came(&self, pe: u32) -> u64 {
        self.slot(pe).came.load(Ordering::Acquire)
    }

    /// The PE waits for its device, or no longer.
    pub(crate) fn hold_up(&self, pe: u32, held_up: bool) {
        self.slot(pe).held_up.store(held_up.into(), Ordering::Relaxed);
    }

    pub(crate) fn is_held_up(&self, pe: u32) -> bool {
        self.slot(pe).held_up.load(Ordering::Relaxed) != 0
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        if let Memory::Shared { slots, count } = self.0 {
            // SAFETY: what `shared` has mapped. An error would mean that it is not: there is nothing left to do.
            let _ = unsafe { munmap(slots.cast_mut().cast(), count * size_of::<Slot>()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_process_writes_the_other_reads() {
        let layout = Layout::new(0, [1, 1]);
        let file = Board::file(&layout).unwrap();
        let (a, b) = (
            Board::shared(&layout, &file).unwrap(),
            Board::shared(&layout, &file).unwrap(),
        );
        a.come(1, 7);
        a.hold_up(0, true);
        assert_eq!((b.came(0), b.came(1)), (0, 7));
        assert!(b.is_held_up(0) && !b.is_held_up(1));
        assert!(Board::shared(&Layout::new(0, [1, 2]), &file).is_err());
    }
}
