//! How the processes of one job find each other, agree, and learn that one of them failed. Linux; knows nothing of GPUs.
//!
//! | file | what it holds |
//! |---|---|
//! | `settings`, `pmix`, `interfaces` | [`Settings`]: who this process is, from torchrun's, our own, or PMIx's variables |
//! | `bootstrap`, `call` | [`Bootstrap`]: join, barrier, allgather, broadcast, letters, failures, finish |
//! | `root` | rank 0's server thread |
//! | `handshake`, `proof`, `secret`, `random` | who may join: [`Secret`] |
//! | `message`, `socket` | what goes over which connection: [`RootAddress`] |
//! | `node` | which processes are on one node |
//! | `error` | [`BootstrapError`], [`PeerFailure`], [`Refusal`] |
//! | `bin/shmem-run` | the launcher; it gives rank 0 its listening socket, and a pipe to say who failed first |
//!
//! # What to know
//! - **One connection per process**, to a thread in rank 0's process. It is for set-up and news: kilobytes, not data.
//! - **Failures.** A process that dies, or calls [`Bootstrap::fail`], is known to all others within a second, whatever they do: blocked
//!   calls return [`BootstrapError::PeerFailed`], [`Bootstrap::failure`] says it without blocking, [`Bootstrap::on_failure`] calls you.
//!   A process that is stopped but not dead is found by the time limits of calls. A machine that vanishes is noticed after 11 s.
//! - **Who may join.** Both sides prove that they have the job secret, each over the other's fresh random number. Strangers are
//!   dropped and logged (`tracing`), cost no thread, and can't fill memory: before the proof no message is longer than 1 KiB and no
//!   handshake longer than 5 s. What follows the proof is neither encrypted nor signed: who can change packets on the way is inside.
//!
//! ```no_run
//! use shmem_bootstrap::{Bootstrap, Settings};
//! use std::time::Duration;
//!
//! let limit = Duration::from_secs(30);
//! if let Some(settings) = Settings::from_env()? {
//!     let job = Bootstrap::join(&settings)?;
//!     println!("{} of {}, {} of {} on this node", job.rank(), job.size(), job.local_rank(), job.local_size());
//!     let everyones = job.allgather(b"an address", limit)?;
//!     assert_eq!(everyones.len(), job.size() as usize);
//!     job.finish(limit)?;
//! }
//! # Ok::<(), shmem_bootstrap::BootstrapError>(())
//! ```

mod bootstrap;
mod call;
mod error;
mod handshake;
mod interfaces;
mod message;
mod node;
mod pmix;
mod proof;
mod random;
mod root;
mod secret;
mod settings;
mod socket;

pub use bootstrap::Bootstrap;
pub use call::Call;
pub use error::{BootstrapError, PeerFailure, Refusal};
pub use secret::Secret;
pub use settings::{Settings, Source};
pub use socket::RootAddress;

/// For `fuzz/`: not part of the API.
#[doc(hidden)]
pub mod fuzzing {
    /// Feeds bytes to the decoder of messages, in pieces of `step`; panics if it does anything but accept or refuse them.
    pub fn decode(bytes: &[u8], step: usize) {
        crate::message::decode_anything(bytes, 1 << 16, step);
    }
}
