//! Sets up mlx5 adapters for kernels that drive them: everything before the first work queue entry.
//!
//! An [`Endpoint`] is one PE's opened adapter. It chooses the adapter and port, registers the chunks of the symmetric
//! heap, makes queue pairs whose queues lie where kernels write them, tells peers of them ([`Endpoint::blob`]), and
//! connects them. What it asks of the machine are [`Calls`], of which there are two kinds: [`verbs`], rdma-core's
//! libraries, loaded at run time; and [`emulated`], the adapters of [`shmem_hca`], firmware commands included. The
//! set-up is the same code for both.
//!
//! | file | what it holds |
//! |---|---|
//! | [`endpoint`] | [`Endpoint`], [`QueueParts`]: the set-up itself |
//! | [`settings`] | [`Settings`]: `SHMEM_HCA`, `SHMEM_GID_INDEX` and further variables |
//! | [`choice`] | which adapter and port: active, allowed, nearest to the GPU |
//! | [`memory`] | [`Memory`], [`QueueMemory`]: what the caller hands in |
//! | [`blob`] | [`Blob`]: what peers tell each other |
//! | [`calls`] | [`Calls`], [`Device`]: what the set-up asks of the machine |
//! | [`emulated`] | [`Emulated`]: adapters that are not there |
//! | [`verbs`] | [`Verbs`]: libibverbs and libmlx5 |
//! | [`error`] | [`IbgdaError`] |

pub mod blob;
pub mod calls;
pub mod choice;
pub mod emulated;
pub mod endpoint;
pub mod error;
pub mod memory;
pub mod settings;
pub mod verbs;

pub use blob::Blob;
pub use calls::{Adapter, Calls, Device, Gid, GidKind, Link, Port};
pub use emulated::Emulated;
pub use endpoint::{Endpoint, QueueParts};
pub use error::IbgdaError;
pub use memory::{DmaBuf, Memory, Part, QueueMemory, Region, Request};
pub use settings::{Pages, Settings};
pub use verbs::Verbs;
