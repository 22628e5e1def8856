//! Files of the program's own in the place of heap pages.

use super::{PAGE, Sim};
use crate::Error;
use crate::backend::Platform;
use crate::heap::Placed;
use crate::processes::Group;
use crate::register::{RegisterError, UserMemory};
use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{MutexGuard, PoisonError};

/// What PEs of this process have registered.
#[derive(Default)]
pub(super) struct UserFiles {
    /// By PE, not mapped yet.
    pub(super) held: HashMap<u32, OwnedFd>,
    /// By the object's serial: offset and bytes in every heap.
    mapped: HashMap<u64, (u64, u64)>,
}

impl Sim {
    pub(super) fn user(&self) -> MutexGuard<'_, UserFiles> {
        // No code runs under the lock that could leave it half changed.
        self.user.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn hold_file(&self, pe: u32, memory: UserMemory<'_>, bytes: u64) -> Result<(), RegisterError> {
        let UserMemory::File(file) = memory else {
            return Err(RegisterError::OtherKind {
                pe,
                given: "device memory",
                backend: self.name(),
                takes: "files: UserMemory::File, a memfd",
            });
        };
        let no_handle = |cause: io::Error| RegisterError::NoHandle {
            pe,
            cause: cause.to_string(),
        };
        // Other files can't be sealed.
        if !fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
            return Err(RegisterError::MayShrink { pe });
        }
        let there = fstat(file).map_err(|errno| no_handle(errno.into()))?.st_size as u64;
        if there < bytes {
            return Err(RegisterError::TooShort {
                pe,
                asked: bytes,
                there,
                page: PAGE,
            });
        }
        let file = file.try_clone_to_owned().map_err(no_handle)?;
        self.user().held.insert(pe, file);
        Ok(())
    }

    pub(super) fn map_files(&self, group: &Group, pe: u32, at: &Placed) -> Result<(), Error> {
        let local = group.layout.local();
        if pe != local.start {
            return Ok(());
        }
        let mine = {
            let held = &mut self.user().held;
            local.filter_map(|pe| held.remove(&pe)).collect()
        };
        let files = group.share_memory(mine)?;
        self.user().mapped.insert(at.serial, (at.offset, at.bytes));
        for (owner, file) in (0..).zip(files) {
            // SAFETY: the file is sealed against shrinking, and has as many bytes; the range is in no object yet.
            let mapped = unsafe { self.engine.replace_heap(owner, at.offset, at.bytes, file.as_fd()) };
            mapped.map_err(|cause| refused(owner, &cause))?;
        }
        Ok(())
    }

    pub(super) fn restore(&self, serial: u64) -> Result<(), Error> {
        // Those that come late wait until it is done.
        let user = &mut *self.user();
        let Some((offset, bytes)) = user.mapped.remove(&serial) else {
            return Ok(());
        };
        for owner in 0..self.pes {
            // SAFETY: the range is in no object any more.
            let restored = unsafe { self.engine.restore_heap(owner, offset, bytes) };
            restored.map_err(|cause| refused(owner, &cause))?;
        }
        Ok(())
    }
}

fn refused(owner: u32, cause: &io::Error) -> RegisterError {
    let cause = cause.to_string();
    RegisterError::Map { owner, cause }
}
