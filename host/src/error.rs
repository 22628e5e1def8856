//! What can go wrong, by subsystem. Messages read like advice: what happened, on which PE, with which values, what to do.

use crate::backend::cuda::CudaError;
use crate::buffer::RangeError;
use crate::collective::CollectiveError;
use crate::config::ConfigError;
use crate::fault::DeviceFault;
use crate::graph::GraphError;
use crate::heap::HeapError;
use crate::images::ImageError;
use crate::launch::LaunchError;
use crate::network::NetworkError;
use crate::on_stream::StreamError;
use crate::processes::ProcessError;
use crate::register::RegisterError;
use crate::site::Site;
use crate::team::TeamError;
use shmem_bootstrap::BootstrapError;
use std::time::Duration;

/// Any error of this crate.
///
/// After [`Device`](Self::Device), [`PeerFailed`](Self::PeerFailed), [`TimeLimit`](Self::TimeLimit),
/// [`Deadlock`](Self::Deadlock), [`Bug`](Self::Bug), [`Adapter`](Self::Adapter) and [`Cuda`](Self::Cuda) from a wait, the World has failed: every later call returns the
/// error at once. Drop it and make a new one. The other errors leave it usable.
///
/// ```
/// use shmem_host::{Backend, ConfigError, Error, World};
///
/// let none = World::builder().pes(0).backend(Backend::Sim).build();
/// assert!(matches!(none, Err(Error::Config(ConfigError::NoPes))));
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting is missing, malformed or out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The CUDA driver is missing or refused a call.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// A kernel's PTX is missing or does not fit the device.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// An allocation was refused.
    #[error(transparent)]
    Heap(#[from] HeapError),
    /// Memory of the program's own was refused as a symmetric object.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The way to PEs that only network adapters reach can't be made.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// A launch was refused; nothing was enqueued.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A team was refused.
    #[error(transparent)]
    Team(#[from] TeamError),
    /// The other processes of the job could not be reached.
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
    /// The processes don't fit together, or lost each other.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The PEs disagree about a call that all of them make.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
    /// A host read or write outside a buffer.
    #[error(transparent)]
    Range(#[from] RangeError),
    /// An operation on a stream was refused; nothing was enqueued.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// A capture or a graph was refused.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// A kernel of this PE met an error.
    #[error(transparent)]
    Device(Box<DeviceFault>),
    /// Another PE failed, so this one can't go on.
    #[error("PE {pe} failed: {cause}")]
    PeerFailed {
        /// The PE that failed first.
        pe: u32,
        /// Its error.
        cause: String,
    },
    /// The closure given to `World::run` panicked.
    #[error("the closure of PE {pe} panicked: {message}")]
    PePanicked {
        /// Whose closure.
        pe: u32,
        /// The panic's text.
        message: String,
    },
    /// A stream did not drain in time.
    #[error(
        "PE {pe}: {what} did not finish within {limit:?}{}: look for a wait that nobody answers, or set SHMEM_TIMEOUT \
         (seconds, 0 for none)",
        if report.is_empty() { String::new() } else { format!("\n{report}\n") }
    )]
    TimeLimit {
        /// Who waited.
        pe: u32,
        /// For what.
        what: String,
        /// How long.
        limit: Duration,
        /// Who waits where, from the simulator; empty on GPUs.
        report: String,
    },
    /// No lane of any PE can go on. Only the simulator can tell.
    #[error("{report}")]
    Deadlock {
        /// Who waits on what, and where.
        report: String,
    },
    /// Kernels communicate in a way that may go wrong: a fence, wait or sync is missing. Only the simulator can tell.
    #[error("{0}")]
    Bug(Box<shmem_sim::Bug>),
    /// A network adapter was given a work queue entry or a doorbell that it can't take. Only emulated adapters tell.
    #[error("{report}")]
    Adapter {
        /// Whose adapter, which queue pair and entry, and what is wrong with it.
        report: String,
    },
    /// Symmetric buffers were not dropped when the closure returned: forgotten, or kept in a cycle or a static. Only the
    /// simulator tells.
    #[error("PE {pe} has not dropped its symmetric buffers when it ended: {}", left_text(left))]
    Leaked {
        /// Whose buffers.
        pe: u32,
        /// Where they were asked for, and their bytes.
        left: Vec<(Site, u64)>,
    },
    /// The operating system refused a thread for a PE.
    #[error("can't start a thread for PE {pe}: {cause}")]
    Thread {
        /// Whose thread.
        pe: u32,
        /// The system's words.
        cause: String,
    },
}

impl Error {
    /// Whether the World has failed with it.
    pub(crate) fn is_fatal(&self) -> bool {
        matches!(
            self,
            Self::Cuda(_)
                | Self::Device(_)
                | Self::PeerFailed { .. }
                | Self::TimeLimit { .. }
                | Self::Deadlock { .. }
                | Self::Bug(_)
                | Self::Adapter { .. }
                | Self::Network(_)
                | Self::Process(_)
                | Self::Collective(
                    CollectiveError::PeerEnded { .. }
                        | CollectiveError::TimeLimit { .. }
                        | CollectiveError::Launch { .. }
                )
        )
    }
}

fn left_text(left: &[(Site, u64)]) -> String {
    let one = |(site, bytes): &(Site, u64)| format!("{bytes} bytes from {site}");
    left.iter().map(one).collect::<Vec<_>>().join(", ")
}
