//! Which allocation a handle is of, so that a launch tells a live buffer from an older one at the same place.

/// The number of an allocation, carried by the handles of its elements. Only the host looks at it, when it launches:
/// kernels pass it on and compute nothing with it, so that it takes no register there.
///
/// 24 bits are the World's number and 40 the allocation's in it, and both only grow: a handle would be taken for another's
/// after 2^40 allocations of one World, or 2^24 Worlds of one process.
///
/// ```
/// use shmem::Serial;
/// let serial = Serial::new(3, 7);
/// assert_eq!((serial.world(), serial.number()), (3, 7));
/// assert_ne!(serial, Serial::NONE);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Serial(u64);

impl Serial {
    /// Of no allocation: what a handle that no host made has.
    pub const NONE: Self = Self(0);
    const NUMBER: u32 = 40;

    /// Allocation `number` of a World; Worlds count from 1.
    #[must_use]
    pub const fn new(world: u32, number: u64) -> Self {
        Self((world as u64) << Self::NUMBER | number & ((1 << Self::NUMBER) - 1))
    }

    /// The World, as the process numbers them.
    #[must_use]
    pub const fn world(self) -> u32 {
        (self.0 >> Self::NUMBER) as u32
    }

    /// The allocation, as the World numbers them.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0 & ((1 << Self::NUMBER) - 1)
    }
}
