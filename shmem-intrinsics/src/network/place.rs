//! Where memory of a symmetric heap lies for adapters. Entries name it by its offset in the heap; its key depends on the
//! granule.

use super::queue::constant;
use crate::arch::{self, Space, Strength};
use crate::fault::{FaultKind, check};
use crate::state::NetworkState;
use core::mem::offset_of;
use shmem_mlx5::{Length, Local, LocalKey, Remote, RemoteKey};

/// The key at `offset` of PE `pe`'s heap, and how many bytes from there on have it.
#[inline(always)]
#[track_caller]
pub(super) fn key(pe: u32, offset: u64) -> (u32, u64) {
    let network = arch::network();
    let log2: u32 = constant!(network, NetworkState.granule_log2);
    let (keys, granules): (u64, u64) = (
        constant!(network, NetworkState.keys),
        constant!(network, NetworkState.granules),
    );
    let granule = offset >> log2;
    check(granule < granules, FaultKind::Range, offset, granules << log2);
    // SAFETY: inside the table.
    let key = unsafe {
        arch::load(
            keys + 4 * (u64::from(pe) * granules + granule),
            Space::Global,
            Strength::Relaxed,
        )
    };
    (key, ((granule + 1) << log2) - offset)
}

/// Where an object at `offset` of PE `pe`'s heap lies. It is in one granule: both set-ups make a heap one.
#[inline(always)]
#[track_caller]
pub(super) fn remote(pe: u32, offset: u64) -> Remote {
    Remote {
        address: offset,
        key: RemoteKey(key(pe, offset).0),
    }
}

/// Both ends of what one entry moves, and its bytes: as much of `bytes` as has one key at either end.
#[inline(always)]
#[track_caller]
pub(super) fn piece(pe: u32, there: u64, here: u64, bytes: u64) -> (Remote, Local, Length) {
    let (remote, there_left) = key(pe, there);
    let (local, here_left) = key(arch::my_pe(), here);
    let bytes = bytes.min(there_left).min(here_left).min(Length::MAX.into());
    let remote = Remote {
        address: there,
        key: RemoteKey(remote),
    };
    let local = Local {
        address: here,
        key: LocalKey(local),
    };
    (remote, local, Length::new(bytes as u32).unwrap_or(Length::MIN))
}
