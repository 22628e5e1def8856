//! Which threads may call.

use std::fmt;

/// How many host threads may make calls of one PE, and how: OpenSHMEM 1.5's thread levels, NVSHMEM's `NVSHMEM_THREAD_*`.
/// What there is: [`thread_level`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ThreadLevel {
    /// The process has one thread. `SHMEM_THREAD_SINGLE`.
    Single,
    /// The process has several, and one of them makes all calls of a PE. `SHMEM_THREAD_FUNNELED`.
    Funneled,
    /// Any of them does, one at a time. `SHMEM_THREAD_SERIALIZED`.
    Serialized,
    /// All of them may at once. `SHMEM_THREAD_MULTIPLE`.
    Multiple,
}

impl fmt::Display for ThreadLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Single => "single",
            Self::Funneled => "funneled",
            Self::Serialized => "serialized",
            Self::Multiple => "multiple",
        })
    }
}

/// The level that every World has: [`ThreadLevel::Funneled`] for each PE. A PE's calls come from the thread on which
/// [`World::run`](crate::World::run) runs its closure. PEs of one process have a thread each, and call at the same time; a
/// World may be made and run on any thread.
///
/// It is a matter of types, and nothing that goes wrong at run time: [`Pe`](crate::Pe), buffers, streams and teams are
/// neither `Send` nor `Sync`, so that a program that hands one to another thread does not compile. A thread that wants to call
/// sends the PE's thread a message.
///
/// OpenSHMEM 1.5 `shmem_query_thread`, NVSHMEM `nvshmem_query_thread`.
///
/// ```
/// use shmem_host::{ThreadLevel, thread_level};
///
/// assert_eq!(thread_level(), ThreadLevel::Funneled);
/// assert!(thread_level() < ThreadLevel::Serialized);
/// ```
///
/// ```compile_fail,E0277
/// use shmem_host::{Error, World};
///
/// World::from_env()?.run(|pe| {
///     std::thread::scope(|scope| {
///         scope.spawn(|| pe.barrier_all()); // `Pe` can't be shared between threads
///     });
///     Ok::<(), Error>(())
/// })?;
/// # Ok::<(), Error>(())
/// ```
pub fn thread_level() -> ThreadLevel {
    ThreadLevel::Funneled
}
