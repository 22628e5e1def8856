//! `kernel<<<grid, block>>>(arguments)`.

/// Launches a kernel on every PE together, all its blocks resident at once: `kernel<<<grid, block>>>(arguments)`, or
/// `kernel<<<grid, block, shared_bytes, stream>>>(arguments)`.
///
/// An expression of type `Result<(), Error>`; it returns once the launch is enqueued on the stream (the PE's default stream
/// where none is named). Every PE launches the same kernel with the same shape. Grid and block are a `u32`, a tuple of two
/// or three, or a `Dim3`. An argument is what the kernel's parameter says, or a host object that has one: `&buffer`.
///
/// NVSHMEM `nvshmemx_collective_launch`; CUDA `cuLaunchCooperativeKernel`.
///
/// # Errors
/// [`LaunchError`](crate::LaunchError), with the values, before anything is enqueued;
/// [`ImageError`](crate::ImageError) where the kernel can't be loaded.
///
/// ```
/// use shmem::prelude::*;
/// use shmem_host::{Backend, World, collective_launch};
///
/// #[kernel]
/// pub fn simple_shift(dst: SymSlice<i32>) {
///     let me = shmem::my_pe();
///     let peer = (me + 1) % shmem::n_pes();
///     shmem::p(dst.at(0), me as i32, peer);
/// }
///
/// World::builder().pes(4).backend(Backend::Sim).build()?.run(|pe| {
///     let dst = pe.alloc::<i32>(1)?;
///     collective_launch!(pe, simple_shift<<<1, 1>>>(&dst))?;
///     pe.stream().barrier_all()?;
///     assert_eq!(dst.read(0)?, (pe.id() as i32 + 3) % 4);
///     Ok::<(), shmem_host::Error>(())
/// })?;
/// # Ok::<(), shmem_host::Error>(())
/// ```
#[macro_export]
macro_rules! collective_launch {
    ($pe:expr, $($rest:tt)+) => { $crate::__launch!(@kernel ($pe) (collective) [] $($rest)+) };
    ($($other:tt)*) => {
        ::core::compile_error!("expected `collective_launch!(pe, kernel<<<grid, block>>>(arguments))`")
    };
}

/// Launches a kernel on this PE alone: `kernel<<<grid, block>>>(arguments)`, or
/// `kernel<<<grid, block, shared_bytes, stream>>>(arguments)`.
///
/// As [`collective_launch!`](crate::collective_launch), but blocks need not be resident at once: the grid may be larger than
/// the device, and blocks that wait for one another may hang. A collective kernel is refused.
///
/// ```
/// use shmem::prelude::*;
/// use shmem_host::{Backend, World, launch};
///
/// #[kernel]
/// pub fn scale(x: Global<f32>, by: f32) {
///     let i = thread::index();
///     x.store(i, x.load(i) * by);
/// }
///
/// World::builder().pes(1).backend(Backend::Sim).build()?.run(|pe| {
///     let x = pe.buffer::<f32>(64)?;
///     x.write(&[1.5; 64])?;
///     let side = pe.new_stream()?;
///     launch!(pe, scale<<<1, (8, 8), 0, &side>>>(&x, 2.0))?;
///     side.synchronize()?;
///     assert_eq!(x.to_vec()?, [3.0; 64]);
///     Ok::<(), shmem_host::Error>(())
/// })?;
/// # Ok::<(), shmem_host::Error>(())
/// ```
#[macro_export]
macro_rules! launch {
    ($pe:expr, $($rest:tt)+) => { $crate::__launch!(@kernel ($pe) (plain) [] $($rest)+) };
    ($($other:tt)*) => { ::core::compile_error!("expected `launch!(pe, kernel<<<grid, block>>>(arguments))`") };
}

/// Takes a launch apart, token by token: `<<<` arrives as `<<` `<`, and `>>>` as `>>` `>`.
#[doc(hidden)]
#[macro_export]
macro_rules! __launch {
    // The kernel's path, up to `<<<`.
    (@kernel $pe:tt $mode:tt [$($kernel:tt)+] << < $($rest:tt)*) => {
        $crate::__launch!(@config $pe $mode ($($kernel)+) [] $($rest)*)
    };
    (@kernel $pe:tt $mode:tt [$($kernel:tt)*] $next:tt $($rest:tt)*) => {
        $crate::__launch!(@kernel $pe $mode [$($kernel)* $next] $($rest)*)
    };
    (@kernel $pe:tt $mode:tt [$($kernel:tt)*]) => {
        ::core::compile_error!("expected `kernel<<<grid, block>>>(arguments)`: there is no `<<<`")
    };
    // The configuration, up to `>>>(..)`.
    (@config $pe:tt $mode:tt $kernel:tt [$($config:tt)*] >> > ($($argument:tt)*) $(,)?) => {
        $crate::__launch!(@take $pe $mode $kernel ($($config)*) ($($argument)*))
    };
    (@config $pe:tt $mode:tt $kernel:tt [$($config:tt)*] >> > $($rest:tt)*) => {
        ::core::compile_error!("expected `(arguments)` after `>>>`, and nothing behind them")
    };
    (@config $pe:tt $mode:tt $kernel:tt [$($config:tt)*] $next:tt $($rest:tt)*) => {
        $crate::__launch!(@config $pe $mode $kernel [$($config)* $next] $($rest)*)
    };
    (@config $pe:tt $mode:tt $kernel:tt [$($config:tt)*]) => {
        ::core::compile_error!("expected `kernel<<<grid, block>>>(arguments)`: there is no `>>>(..)`")
    };
    // Its two to four parts.
    (@take $pe:tt $mode:tt $kernel:tt ($grid:expr, $block:expr $(,)?) $arguments:tt) => {
        $crate::__launch!(@emit $pe $mode $kernel ($grid, $block) () $arguments)
    };
    (@take $pe:tt $mode:tt $kernel:tt ($grid:expr, $block:expr, $shared:expr $(,)?) $arguments:tt) => {
        $crate::__launch!(@emit $pe $mode $kernel ($grid, $block) (.shared_bytes($shared)) $arguments)
    };
    (@take $pe:tt $mode:tt $kernel:tt ($grid:expr, $block:expr, $shared:expr, $stream:expr $(,)?) $arguments:tt) => {
        $crate::__launch!(@emit $pe $mode $kernel ($grid, $block) (.shared_bytes($shared).stream($stream)) $arguments)
    };
    (@take $pe:tt $mode:tt $kernel:tt ($($config:tt)*) $arguments:tt) => {
        ::core::compile_error!(concat!(
            "a launch takes 2 to 4 parts, `<<<grid, block, shared_bytes, stream>>>`; found `<<<",
            stringify!($($config)*),
            ">>>`"
        ))
    };
    (@emit ($pe:expr) (plain) ($($kernel:tt)+) ($grid:expr, $block:expr) ($($more:tt)*) ($($argument:tt)*)) => {
        $pe.launch($crate::LaunchConfig::new($grid, $block) $($more)*, $($kernel)+($($argument)*))
    };
    (@emit ($pe:expr) (collective) ($($kernel:tt)+) ($grid:expr, $block:expr) ($($more:tt)*) ($($argument:tt)*)) => {
        $pe.launch($crate::LaunchConfig::new($grid, $block).collective() $($more)*, $($kernel)+($($argument)*))
    };
}
