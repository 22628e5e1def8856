//! Calls to PEs that load and store does not reach: a kernel writes work queue entries of a network adapter itself (IBGDA).
//!
//! One source for GPUs and for the simulator, where emulated adapters read what it wrote. [`carries`] says whether a call
//! goes this way; the lowerings in `arch` ask before they load or store. Which entries a call becomes is in docs/src/ibgda.md.
//!
//! | file | what it holds |
//! |---|---|
//! | `queue` | one send queue: slots, entries, doorbell, completions |
//! | `place` | keys of memory, pieces of transfers that have one key |
//! | `rma` | put, get, p, g, signals |
//! | `together` | p of lanes that come to it at the same time |
//! | `atomic` | atomics |
//! | `order` | quiet |
//!
//! All of it is out of line where it can be: kernels that only load and store pay a test of the peer's base.

mod atomic;
mod order;
mod place;
mod queue;
mod rma;
mod together;

pub(crate) use atomic::{Op, access};
#[cfg(target_arch = "nvptx64")]
pub(crate) use order::look_for_errors;
pub(crate) use order::{quiet, quiet_all};
pub(crate) use rma::{get, load, put, put_signal, signal, store};

use crate::arch;

/// Whether the network carries calls to this PE, which exists.
#[inline(always)]
#[track_caller]
pub(crate) fn carries(pe: u32) -> bool {
    present() && arch::peer_base(pe) == 0
}

/// Whether there are PEs that only the network reaches.
#[inline(always)]
#[track_caller]
pub(crate) fn present() -> bool {
    arch::HAS_NETWORK && arch::network() != 0
}
