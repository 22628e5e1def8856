//! Memory keys: what an adapter may do with which memory.

use crate::memory::Place;

/// What a key allows besides local reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "the bits of a key")]
pub struct Access {
    /// Data of reads and atomics may be put here.
    pub local_write: bool,
    /// Others may read.
    pub remote_read: bool,
    /// Others may write.
    pub remote_write: bool,
    /// Others may do atomics.
    pub remote_atomic: bool,
    /// Writes may pass each other on the way to memory.
    pub relaxed_ordering: bool,
}

impl Access {
    /// Everything, with writes in order.
    pub const ALL: Self = Self {
        local_write: true,
        remote_read: true,
        remote_write: true,
        remote_atomic: true,
        relaxed_ordering: false,
    };

    /// Everything, with writes in any order.
    pub const RELAXED: Self = Self {
        relaxed_ordering: true,
        ..Self::ALL
    };
}

/// What somebody wants to do with memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Want {
    /// This adapter reads.
    LocalRead,
    /// This adapter writes.
    LocalWrite,
    /// Another one reads.
    RemoteRead,
    /// Another one writes.
    RemoteWrite,
    /// Another one does an atomic.
    RemoteAtomic,
}

/// A key that does not allow what is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeyFault {
    /// No such key.
    #[error("{key:#x} is no key of that adapter")]
    Unknown {
        /// In the entry.
        key: u32,
    },
    /// It belongs to another protection domain.
    #[error("{key:#x} belongs to protection domain {seen}, the queue pair to {expected}")]
    Domain {
        /// In the entry.
        key: u32,
        /// The key's.
        seen: u32,
        /// The queue pair's.
        expected: u32,
    },
    /// It covers other memory.
    #[error("{key:#x} covers {bytes:#x} bytes at {start:#x}, not {wanted:#x} at {address:#x}")]
    Bounds {
        /// In the entry.
        key: u32,
        /// Where the key's memory starts.
        start: u64,
        /// How much it is.
        bytes: u64,
        /// In the entry.
        address: u64,
        /// In the entry.
        wanted: u64,
    },
    /// It does not allow such an access.
    #[error("{key:#x} does not allow {want:?}")]
    Access {
        /// In the entry.
        key: u32,
        /// What was wanted.
        want: Want,
    },
}

/// What a key stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) domain: u32,
    pub(crate) access: Access,
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) memory: Place,
}

impl Key {
    /// Where `bytes` at `address` are, if the key allows it.
    pub(crate) fn check(&self, key: u32, domain: u32, address: u64, bytes: u64, want: Want) -> Result<Place, KeyFault> {
        if self.domain != domain {
            return Err(KeyFault::Domain {
                key,
                seen: self.domain,
                expected: domain,
            });
        }
        let inside = address
            .checked_sub(self.start)
            .filter(|offset| offset.checked_add(bytes).is_some_and(|end| end <= self.bytes));
        let Some(offset) = inside else {
            return Err(KeyFault::Bounds {
                key,
                start: self.start,
                bytes: self.bytes,
                address,
                wanted: bytes,
            });
        };
        let allowed = match want {
            Want::LocalRead => true,
            Want::LocalWrite => self.access.local_write,
            Want::RemoteRead => self.access.remote_read,
            Want::RemoteWrite => self.access.remote_write,
            Want::RemoteAtomic => self.access.remote_atomic,
        };
        if !allowed {
            return Err(KeyFault::Access { key, want });
        }
        Ok(self.memory.after(offset))
    }
}
