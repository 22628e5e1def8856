//! PEs that only network adapters reach: what can go wrong in their set-up, and how busy adapters are.

/// The network path of a World can't be made.
///
/// ```no_run
/// use shmem_host::{Error, NetworkError, World};
///
/// // SHMEM_PATH=ibgda SHMEM_HCA=emulated
/// match World::from_env() {
///     Err(Error::Network(NetworkError::HostMemory { bytes, .. })) => println!("no {bytes} bytes of pinned memory"),
///     other => drop(other?),
/// }
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// Emulated adapters are a thread of one process.
    #[error(
        "emulated adapters (SHMEM_HCA=emulated) serve the PEs of one process, and this World has {processes}: start one process \
         with SHMEM_NPES PEs, or use real adapters"
    )]
    Processes {
        /// Processes of the World.
        processes: u32,
    },
    /// The system refused pinned host memory.
    #[error(
        "no pinned host memory for {what} of {times} PEs, {bytes} bytes each ({cause}): ask for smaller heaps (SHMEM_HEAP), or raise \
         the limit on locked memory (ulimit -l)"
    )]
    HostMemory {
        /// What for.
        what: &'static str,
        /// Bytes of each.
        bytes: u64,
        /// How many.
        times: u32,
        /// The refusal.
        cause: String,
    },
    /// Host memory has another address for the device.
    #[error(
        "pinned host memory at {host:#x} is at {device:#x} for the device: emulated adapters need a system where both are the same \
         (unified addressing)"
    )]
    Address {
        /// For the host.
        host: u64,
        /// For the device.
        device: u64,
    },
    /// Adapters or queues can't be set up.
    #[error("PE {pe}: the network adapter can't be set up: {cause}")]
    Setup {
        /// Whose.
        pe: u32,
        /// What is wrong, and what to do.
        cause: String,
    },
    /// The thread that is the adapters has ended.
    #[error("the thread of the emulated adapters ended: {cause}")]
    Ended {
        /// Why.
        cause: String,
    },
}

/// What emulated adapters have done so far, for all PEs of the World.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NetworkCounters {
    /// Work queue entries that were taken from queues.
    pub entries: u64,
    /// Doorbells that were seen; one may be for many entries.
    pub doorbells: u64,
}
