//! Big-endian numbers. All that an adapter reads or writes is big-endian; these types hold it so, and have no arithmetic,
//! no order and no `From` that would let one pass for a native number.
//!
//! ```compile_fail
//! // A native number is not a big-endian one.
//! let x: shmem_mlx5::Be32 = 5;
//! ```

macro_rules! big_endian { ($($name:ident, $native:ident, $bytes:literal;)*) => { $(
    #[doc = concat!("A `", stringify!($native), "` in big-endian byte order.")]
    ///
    /// ```
    #[doc = concat!("use shmem_mlx5::", stringify!($name), ";")]
    #[doc = concat!("let x = ", stringify!($name), "::new(0x12);")]
    #[doc = concat!("assert_eq!(x.to_bytes()[", stringify!($bytes), " - 1], 0x12);")]
    /// assert_eq!(x.get(), 0x12);
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
    #[repr(transparent)]
    pub struct $name($native);

    impl $name {
        /// From a native number.
        #[inline(always)]
        pub const fn new(native: $native) -> Self {
            Self(native.to_be())
        }

        /// As a native number.
        #[inline(always)]
        pub const fn get(self) -> $native {
            $native::from_be(self.0)
        }

        /// From what a native load of its memory gives.
        #[inline(always)]
        pub const fn from_raw(raw: $native) -> Self {
            Self(raw)
        }

        /// What a native store must write, so that memory holds it.
        #[inline(always)]
        pub const fn raw(self) -> $native {
            self.0
        }

        /// From its bytes in memory.
        #[inline(always)]
        pub const fn from_bytes(bytes: [u8; $bytes]) -> Self {
            Self($native::from_ne_bytes(bytes))
        }

        /// Its bytes in memory.
        #[inline(always)]
        pub const fn to_bytes(self) -> [u8; $bytes] {
            self.0.to_ne_bytes()
        }
    }

    impl core::fmt::Debug for $name {
        fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            write!(f, concat!("be:{:#0", stringify!($bytes), "x}"), self.get())
        }
    }

    const _: () = assert!(size_of::<$name>() == $bytes);
)* } }
big_endian! {
    Be16, u16, 2;
    Be32, u32, 4;
    Be64, u64, 8;
}
