//! Places, lengths and numbers in entries.

/// A key that an adapter made for memory of its own host or GPU, for its own entries (`lkey`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(transparent)]
pub struct LocalKey(pub u32);

/// A key that another adapter made, for entries that go there (`rkey`). An adapter's local and remote key for one memory
/// are the same number; which one an entry takes is not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(transparent)]
pub struct RemoteKey(pub u32);

/// Memory of this adapter's host or GPU, under a local key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Local {
    /// Address as the key was made for.
    pub address: u64,
    /// Key that allows this adapter to use it.
    pub key: LocalKey,
}

/// Memory of the target, under a key that the target made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    /// Address as the target's key was made for.
    pub address: u64,
    /// The target's key.
    pub key: RemoteKey,
}

/// Number of a queue pair: 24 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Default)]
pub struct QueuePair(u32);

impl QueuePair {
    /// None above 24 bits.
    #[inline(always)]
    pub const fn new(number: u32) -> Option<Self> {
        if number < 1 << 24 { Some(Self(number)) } else { None }
    }

    /// The number.
    #[inline(always)]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// Bytes that a data pointer covers: 1 to [`Length::MAX`]. Zero is no length: the adapter takes it for 2^31 bytes. An
/// entry without data has no data pointer ([`entry::write_nothing`](crate::entry::write_nothing)).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Length(u32);

impl Length {
    /// What one message of a reliable queue pair carries.
    pub const MAX: u32 = 1 << 30;
    /// One byte.
    pub const MIN: Self = Self(1);

    /// None for 0 bytes, and for more than [`Length::MAX`].
    ///
    /// ```
    /// use shmem_mlx5::Length;
    /// assert_eq!(Length::new(8).unwrap().get(), 8);
    /// assert_eq!(Length::new(0), None);
    /// assert_eq!(Length::new(Length::MAX + 1), None);
    /// ```
    #[inline(always)]
    pub const fn new(bytes: u32) -> Option<Self> {
        if bytes != 0 && bytes <= Self::MAX {
            Some(Self(bytes))
        } else {
            None
        }
    }

    /// Bytes.
    #[inline(always)]
    pub const fn get(self) -> u32 {
        self.0
    }
}
