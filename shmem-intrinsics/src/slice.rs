//! What SymSlice, Global and Shared have in common: a checked run of elements in memory that Rust holds no reference to.

/// An index or a length in elements: u32, usize, u64, i32. A negative one is out of range.
pub trait Index: Copy {
    /// As u64; a negative number becomes a huge one, which no object holds.
    fn index(self) -> u64;
}

macro_rules! unsigned { ($($t:ty)*) => { $(impl Index for $t { #[inline(always)] fn index(self) -> u64 { self as u64 } })* } }
unsigned!(u32 usize u64);
impl Index for i32 {
    #[inline(always)]
    fn index(self) -> u64 {
        i64::from(self) as u64
    }
}

/// Sizes that one access moves at once. Anything else doesn't compile.
pub(crate) const fn assert_element<T>() {
    assert!(
        matches!(size_of::<T>(), 1 | 2 | 4 | 8 | 16) && align_of::<T>() == size_of::<T>(),
        "an element that is accessed as a whole has 1, 2, 4, 8 or 16 bytes and the alignment of its size: \
         reach the fields of a larger one with field!, or add #[repr(align(..))]"
    );
}

/// Writes the methods that differ only in the type's name, in what its position is, and in the serial of a handle that
/// none was given for.
///
/// | method | checks | on failure |
/// |---|---|---|
/// | `len`, `is_empty` | | |
/// | `slice(a..b)` | a <= b <= len | `FaultKind::Range` |
/// | `chunk(i, n)` | (i + 1) * n <= len | `FaultKind::Chunk` |
/// | `cast::<U>()` | alignment and size of U fit | `FaultKind::Cast` |
/// | `load(i)`, `store(i, v)` | i < len | `FaultKind::Index` |
macro_rules! slice_methods {
    ($name:ident, $start:ident, $space:expr, $serial:expr) => {
        impl<T> Clone for $name<T> {
            #[inline(always)]
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<T> Copy for $name<T> {}
        impl<T> core::fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(
                    f,
                    concat!(stringify!($name), "({:#x}, {} elements)"),
                    self.$start, self.len
                )
            }
        }

        impl<T> $name<T> {
            #[doc(hidden)]
            #[inline(always)]
            pub const fn __new($start: u64, len: u64) -> Self {
                Self {
                    $start,
                    len,
                    serial: $serial,
                    element: core::marker::PhantomData,
                }
            }

            /// Elements.
            #[inline(always)]
            pub fn len(self) -> u64 {
                self.len
            }

            /// Whether it has no elements.
            #[inline(always)]
            pub fn is_empty(self) -> bool {
                self.len == 0
            }

            /// Elements `range.start..range.end`.
            ///
            /// ```
            /// use shmem::prelude::*;
            /// shmem_sim::run(1, 1, 1, || {
            ///     let x = shmem_sim::symmetric::<u32>(12);
            ///     assert_eq!(x.slice(3..7).len(), 4);
            /// }).unwrap();
            /// ```
            ///
            /// Faults with `FaultKind::Range` where they are not all inside.
            #[inline(always)]
            #[track_caller]
            #[must_use]
            pub fn slice<I: crate::Index>(self, range: core::ops::Range<I>) -> Self {
                let (a, b) = (range.start.index(), range.end.index());
                crate::fault::check(a <= b && b <= self.len, crate::fault::FaultKind::Range, a, b);
                Self {
                    $start: self.$start + a * size_of::<T>() as u64,
                    len: b - a,
                    ..self
                }
            }

            /// The i-th run of n elements. Nests, so that a matrix needs no flat indices: `rows.chunk(y, nx).load(x)`.
            ///
            /// ```
            /// use shmem::prelude::*;
            /// shmem_sim::run(1, 1, 1, || {
            ///     let x = shmem_sim::global::<u32>(12);
            ///     x.chunk(2, 4).store(1, 7);
            ///     assert_eq!(x.load(9), 7);
            /// }).unwrap();
            /// ```
            ///
            /// Faults with `FaultKind::Chunk` where it is not inside.
            #[inline(always)]
            #[track_caller]
            #[must_use]
            pub fn chunk(self, i: impl crate::Index, n: impl crate::Index) -> Self {
                let (i, n) = (i.index(), n.index());
                // Lengths are below 2^48, so that this can't wrap once both factors are.
                let inside = i <= self.len && n <= self.len && {
                    let end = (u128::from(i) + 1) * u128::from(n);
                    end <= u128::from(self.len)
                };
                crate::fault::check(inside, crate::fault::FaultKind::Chunk, i, n);
                Self {
                    $start: self.$start + i * n * size_of::<T>() as u64,
                    len: n,
                    ..self
                }
            }

            /// The same bytes as elements of another type.
            ///
            /// ```
            /// use shmem::prelude::*;
            /// shmem_sim::run(1, 1, 1, || {
            ///     let x = shmem_sim::symmetric::<u64>(3);
            ///     assert_eq!(x.cast::<u32>().len(), 6);
            /// }).unwrap();
            /// ```
            ///
            /// Faults with `FaultKind::Cast` where they don't fit.
            #[inline(always)]
            #[track_caller]
            #[must_use]
            pub fn cast<U: crate::Pod>(self) -> $name<U>
            where
                T: crate::Pod,
            {
                const { assert!(size_of::<U>() != 0, "elements have bytes") };
                let bytes = self.len * size_of::<T>() as u64;
                let fits = self.$start % align_of::<U>() as u64 == 0 && bytes % size_of::<U>() as u64 == 0;
                crate::fault::check(fits, crate::fault::FaultKind::Cast, self.$start, bytes);
                $name {
                    $start: self.$start,
                    len: bytes / size_of::<U>() as u64,
                    serial: self.serial,
                    element: core::marker::PhantomData,
                }
            }

            /// Byte position of element i, checked.
            #[inline(always)]
            #[track_caller]
            pub(crate) fn position(self, i: impl crate::Index) -> u64 {
                let i = i.index();
                crate::fault::check(i < self.len, crate::fault::FaultKind::Index, i, self.len);
                self.$start + i * size_of::<T>() as u64
            }
        }

        impl<T: crate::Pod> $name<T> {
            /// Loads element i of this PE's own copy. Faults with `FaultKind::Index` where i is outside.
            #[inline(always)]
            #[track_caller]
            pub fn load(self, i: impl crate::Index) -> T {
                let at = Self::address(self.position(i));
                // SAFETY: inside the object, which the launch checked to be live; T is 1 to 16 bytes and aligned.
                unsafe { crate::arch::load(at, $space, crate::arch::Strength::Weak) }
            }

            /// Stores to element i of this PE's own copy. Faults with `FaultKind::Index` where i is outside.
            #[inline(always)]
            #[track_caller]
            pub fn store(self, i: impl crate::Index, value: T) {
                let at = Self::address(self.position(i));
                // SAFETY: as in `load`.
                unsafe { crate::arch::store(at, value, $space, crate::arch::Strength::Weak) }
            }
        }
    };
}
pub(crate) use slice_methods;
