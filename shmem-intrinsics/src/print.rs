//! `gpu_println!`: text from inside a kernel.
//!
//! On a GPU it is CUDA's `vprintf`: the text goes to a buffer of the device (1 MiB unless the host sets another limit), and
//! to the process's standard output when the host next waits for the device; what overflows is lost. One call is one line
//! that others don't break up. The format is translated when the kernel is compiled, which adds some 1 KB of PTX; `println!`
//! and `core::fmt` would add 50 and more.
//!
//! | Rust | C | prints |
//! |---|---|---|
//! | `{}` of i8 .. i64, u8 .. u64, isize, usize | `%lld`, `%llu` | the number |
//! | `{}` of f32, f64 | `%g` | six significant digits (the simulator: as many as it takes) |
//! | `{}` of bool | `%s` | `true`, `false` |
//! | `{:.3}` of f32, f64 | `%.3f` | three decimals |
//! | `{:8}`, `{:<8}`, `{:>8}`, `{:08}`, `{:8.3}` | `%8..`, `%-8..`, `%08..` | at least eight characters |
//! | `{:x}`, `{:#x}`, `{:X}`, `{:08x}` of integers | `%llx`, `0x%llx` | hexadecimal |
//! | `{0}`, `{name}` | | an argument by place, a variable by name |
//!
//! Everything else (`{:?}`, `{:e}`, `^`, a width that is an argument) is refused by the compiler.

/// Prints a line. For debugging, by few threads. The formats are [`print`](mod@crate::print)'s.
///
/// CUDA `printf`; NVSHMEM's examples print with it too.
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 1, || {
///     let (me, half) = (shmem::my_pe(), 0.5f32);
///     shmem::gpu_println!("PE {me} of {}: {half:.2}, {:#x}", shmem::n_pes(), 255);
/// }).unwrap();
/// ```
pub use shmem_macros::gpu_println;

/// What `gpu_println!` can print.
#[diagnostic::on_unimplemented(
    message = "gpu_println! can't print `{Self}`",
    note = "it prints integers, f32, f64 and bool: a GPU has no core::fmt to speak of"
)]
pub trait Print: Copy {
    /// How C reads it.
    #[doc(hidden)]
    const __KIND: Kind;
    /// As the 8 bytes that C reads.
    #[doc(hidden)]
    fn __word(self) -> u64;
    /// The same for a hexadecimal format: no wider than the type.
    #[doc(hidden)]
    fn __hex(self) -> u64 {
        self.__word()
    }
}

/// Kinds of C's arguments.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `%lld`
    Signed,
    /// `%llu`
    Unsigned,
    /// `%g`, `%f`
    Float,
    /// `%s`
    Bool,
}

macro_rules! prints { ($($t:ty, $kind:ident, $x:ident => $word:expr $(, $hex:expr)?;)*) => { $(
    impl Print for $t {
        const __KIND: Kind = Kind::$kind;
        #[inline(always)]
        fn __word(self) -> u64 {
            let $x = self;
            $word
        }
        $(
            #[inline(always)]
            fn __hex(self) -> u64 {
                let $x = self;
                $hex
            }
        )?
    }
)* } }
prints! {
    i8, Signed, x => x as u64, u64::from(x as u8);
    i16, Signed, x => x as u64, u64::from(x as u16);
    i32, Signed, x => x as u64, u64::from(x as u32);
    i64, Signed, x => x as u64;
    isize, Signed, x => x as u64;
    u8, Unsigned, x => x.into();
    u16, Unsigned, x => x.into();
    u32, Unsigned, x => x.into();
    u64, Unsigned, x => x;
    usize, Unsigned, x => x as u64;
    f32, Float, x => f64::from(x).to_bits();
    f64, Float, x => x.to_bits();
    bool, Bool, x => if x { c"true" } else { c"false" }.as_ptr() as u64;
}

/// A `{}` of a format.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Spec {
    /// Which argument.
    pub argument: usize,
    /// `<` or `>`, or 0.
    pub align: u8,
    /// Filled up with zeros.
    pub zero: bool,
    /// `#`
    pub alternate: bool,
    /// At least so many characters; 0 for any.
    pub width: u32,
    /// Decimals.
    pub precision: Option<u32>,
    /// `x`, `X`, or 0.
    pub radix: u8,
}

/// A format, as `gpu_println!` has read it.
#[doc(hidden)]
pub trait Format {
    /// Text between the `{}`: one more than those.
    const TEXT: &'static [&'static str];
    /// The `{}`.
    const SPECS: &'static [Spec];
}

/// Refuses what can't be printed, where it is written.
#[doc(hidden)]
#[inline(always)]
pub fn __printable<T: Print>(x: &T) -> &T {
    x
}

#[cfg(any(target_arch = "nvptx64", test))]
mod translate;
#[cfg(target_arch = "nvptx64")]
pub use translate::__print;
#[cfg(any(target_arch = "nvptx64", test))]
pub use translate::Arguments;
