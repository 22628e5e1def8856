//! What `#[kernel]` makes of a function: its arguments, its images, its entry.

/// A value that may be passed to a kernel: a scalar, a handle, an array of those, or a struct with `#[derive(KernelArg)]`.
///
/// # Safety
/// Plain bits with the same layout on the host and on the device, and nothing in it that safe code would follow as a pointer.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a kernel's argument",
    note = "arguments are scalars, handles (SymSlice, Sym, Global), arrays of them, and structs with #[derive(KernelArg)]"
)]
pub unsafe trait KernelArg: Copy + 'static {
    /// Tells the launch which memory the value names, so that a stale or foreign handle is refused before the kernel starts.
    #[cfg(not(target_arch = "nvptx64"))]
    fn regions(&self, visit: &mut dyn FnMut(Region)) {
        let _ = visit;
    }
}

macro_rules! scalars { ($($t:ty)*) => { $(
    // SAFETY: a number is plain bits, laid out alike on both sides.
    unsafe impl KernelArg for $t {}
)* } }
scalars!(u8 i8 u16 i16 u32 i32 u64 i64 usize isize f32 f64 half::bf16 half::f16);

// SAFETY: following one needs `unsafe` in the kernel.
unsafe impl<T: 'static> KernelArg for *const T {}
// SAFETY: as above.
unsafe impl<T: 'static> KernelArg for *mut T {}
// SAFETY: an array is its elements, one after the other.
unsafe impl<T: KernelArg, const N: usize> KernelArg for [T; N] {
    #[cfg(not(target_arch = "nvptx64"))]
    fn regions(&self, visit: &mut dyn FnMut(Region)) {
        for x in self {
            x.regions(visit);
        }
    }
}

#[doc(hidden)]
pub const fn __assert_arg<T: KernelArg>() {}

/// What an entry holds while its kernel runs: nothing, in builds without records.
#[cfg(target_arch = "nvptx64")]
#[doc(hidden)]
pub struct __Running(
    #[cfg(shmem_timeline)]
    #[expect(dead_code, reason = "dropped")]
    crate::arch::timeline::Span,
);

/// A thread of a kernel begins.
#[cfg(target_arch = "nvptx64")]
#[doc(hidden)]
#[inline(always)]
pub fn __kernel_begins(_name: &'static str) -> __Running {
    __Running(
        #[cfg(shmem_timeline)]
        crate::arch::timeline::begin_kernel(_name),
    )
}

/// What a thread of a programmatic kernel does first.
#[cfg(target_arch = "nvptx64")]
#[doc(hidden)]
#[inline(always)]
pub fn __follow() {
    crate::arch::follow();
}

#[cfg(not(target_arch = "nvptx64"))]
pub use host::*;

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::KernelArg;
    use crate::Serial;

    /// Memory that an argument names.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Region {
        /// Part of the symmetric heap: byte offset and length in bytes.
        Symmetric {
            /// Offset from the heap's base.
            offset: u64,
            /// Length.
            bytes: u64,
            /// The allocation that it was made for.
            serial: Serial,
        },
        /// Ordinary memory of one PE's device: address and length in bytes.
        Global {
            /// Device address.
            address: u64,
            /// Length.
            bytes: u64,
            /// The allocation that it was made for.
            serial: Serial,
        },
        /// A team's words, as one of its members has them.
        Team {
            /// The team, on that member.
            serial: Serial,
        },
    }

    /// One PTX text.
    #[derive(Clone, Copy, Debug)]
    pub struct Image {
        /// 90 for `sm_90`.
        pub arch: u32,
        /// Runs on this architecture only (`sm_90a`); otherwise on it and all later ones.
        pub exact: bool,
        /// Has code for PEs that only a network adapter reaches, beside loads and stores.
        pub network: bool,
        /// The text.
        pub ptx: &'static str,
        /// What CUDA's assembler made of it for this architecture; empty where the build did not ask. Saves the driver the
        /// work when a program starts.
        pub cubin: &'static [u8],
    }

    /// What the build script made of a package's kernels.
    #[derive(Clone, Copy, Debug)]
    pub struct Images {
        /// A hash of all texts: equal images are loaded once.
        pub id: u64,
        /// One per architecture, ascending; then those for Worlds with network peers, if they were asked for.
        pub list: &'static [Image],
        /// Why there are none; empty where there are some. Such a program runs on the simulator.
        pub absent: &'static str,
        /// Why the program can't be built; empty where it can.
        pub broken: &'static str,
    }

    /// Block sizes a kernel accepts.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum BlockBounds {
        /// Any that the device takes.
        Any,
        /// At most this many threads (`max_block = N`, PTX `.maxntid`).
        AtMost(u32),
        /// Just this shape (`block = N` or `block = (x, y, z)`, PTX `.reqntid`).
        Exactly([u32; 3]),
    }

    /// A function marked `#[kernel]`, or one instance of a generic one. Implemented by the macro.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a kernel, or not an instance that its kernel lists",
        note = "a generic kernel is compiled for the arguments in #[kernel(for<..>)] only: add this one there"
    )]
    pub trait Kernel: 'static {
        /// Its parameters in order, as a tuple; a collective kernel's token is not among them.
        type Args: 'static;
        /// The function's name.
        const NAME: &'static str;
        /// Its entry in the PTX.
        const SYMBOL: &'static str;
        /// Needs every PE to launch it together, with a grid that is resident at once.
        const COLLECTIVE: bool;
        /// Begins with a wait for the kernel ahead of it, so that its blocks may be placed before that has ended.
        const PROGRAMMATIC: bool;
        /// Block sizes it accepts.
        const BOUNDS: BlockBounds;
        /// Where it was written.
        const PLACE: (&'static str, u32);
        /// The PTX of its package.
        fn images() -> &'static Images;
        /// The arguments again: each of them is Copy.
        fn copied(args: &Self::Args) -> Self::Args;
        /// Runs one lane, on the simulator. `slot`: as [`addresses`](Self::addresses) says.
        fn run(args: Self::Args, slot: u32);
        /// Calls `f` with the address of each argument, in order. A collective kernel's entry has one more, behind them: a
        /// u32 below [`GRID_SLOTS`](crate::state::GRID_SLOTS), which no other kernel in flight on the PE has.
        fn addresses(args: &Self::Args, f: &mut dyn FnMut(*const ()));
        /// Tells which memory the arguments name.
        fn regions(args: &Self::Args, visit: &mut dyn FnMut(Region));
    }

    /// A kernel with its arguments, not yet launched. What calling a kernel by its name on the host returns.
    #[must_use = "a kernel does not run when it is called: launch it with collective_launch! or launch!"]
    #[derive(Debug)]
    pub struct Call<K: Kernel> {
        args: K::Args,
    }

    impl<K: Kernel> Call<K> {
        #[doc(hidden)]
        pub fn __new(args: K::Args) -> Self {
            Self { args }
        }

        /// The arguments.
        pub fn args(&self) -> &K::Args {
            &self.args
        }
    }

    /// What may be given for a kernel's parameter of type `A`: an `A`, or a host object that has one (`&SymBuf<T>` for a `SymSlice<T>`).
    #[diagnostic::on_unimplemented(
        message = "this kernel's parameter is `{A}`: `{Self}` cannot be passed for it",
        label = "expected `{A}`"
    )]
    pub trait IntoArg<A> {
        /// The device's form of it.
        fn into_arg(self) -> A;
    }

    impl<A: KernelArg> IntoArg<A> for A {
        fn into_arg(self) -> A {
            self
        }
    }

    #[doc(hidden)]
    pub const fn __check_images(images: &Images) {
        assert!(images.broken.is_empty(), "{}", images.broken);
    }
}
