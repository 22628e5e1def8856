//! The wall between the API and what runs it. Both sides have the same functions:
//!
//! | functions | `ptx` | `hosted` |
//! |---|---|---|
//! | `thread_idx block_idx block_dim grid_dim lane_id` | special registers | the current lane |
//! | `my_pe n_pes heap_base time..` | constant memory | the lane's DeviceState |
//! | `sync_block sync_warp shuffle_* ballot vote_*` | convergent LLVM intrinsics | `Machine::sync`, `exchange` |
//! | `sync_grid sync_warps` | words in memory (`ptx/meet.rs`) | `Machine::sync` |
//! | `cluster_.. sync_cluster` | registers and barrier of sm_90; a block before (`ptx/cluster.rs`) | the current lane, `Machine::sync` |
//! | `mbarrier_..` | `mbarrier` | words, by compare-and-swap |
//! | `load store` | `asm!`, one instruction by size, space and strength | `Machine::load`, `store` |
//! | `store_remote load_remote put put_signal signal` | stores and loads over NVLink (`ptx/nvlink.rs`) | `Machine::p`, `g`, `put`, `signal` |
//! | `store_packet.. load_packet..` | one store or load that the flag is a part of (`ptx/packet.rs`) | `Machine::packet`, `load` |
//! | `next forward` | sums that the optimiser does not see through | sums |
//! | `fence quiet flush` | fences and tile syncs | `Machine::fence`, .. |
//! | `atomic::..` | `ld st atom red` with order and scope | `Machine::atomic`, `atomic_at`, `fence_memory` |
//! | `put_computed put_computed_signal` | stores of computed elements | a stage, then `Machine::put` |
//! | `load_hint store_hint` | `.L1::` priorities | plain accesses |
//! | `copy_async commit_async wait_async` | `cp.async` | `Machine::copy_async`, .. |
//! | `bulk_..` | `cp.async.bulk`; the plain engine before sm_90 (`ptx/bulk.rs`) | `Machine::put`, `get`, .. |
//! | `mma_.. ldmatrix..` | tensor cores, in one piece behind `activemask` | `Machine::exchange` |
//! | `.._products` | `wgmma`; nothing but on sm_90a (`ptx/warpgroup.rs`) | loads, and the host's arithmetic |
//! | `redux_* match_* shuffle_up shuffle_down` | convergent LLVM intrinsics | `Machine::exchange` |
//! | `sqrt_f32 .. fast_* pack_* unpack_*` | one instruction each | the host's |
//! | `pack_e4m3` | one instruction for two, from sm_90 on (`ptx/fp8.rs`) | the same in software |
//! | `spin` | bounded loop on the abort word and the clock | `Machine::pause` |
//! | `pick` | a number from the clock | a count |
//! | `fault` | record, abort words, exit | `Machine::fault` |
//! | `scratch dynamic_shared` | addresses in shared memory | `Machine::shared` |

#[cfg(not(target_arch = "nvptx64"))]
mod hosted;
#[cfg(target_arch = "nvptx64")]
mod ptx;
mod scope;

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) use hosted::*;
#[cfg(target_arch = "nvptx64")]
pub(crate) use ptx::*;
pub(crate) use scope::{Order, Place, Target};

use crate::Pod;

/// What kind of memory an address lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Symmetric,
    Global,
    Shared,
    Local,
}

/// How an access orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strength {
    /// Not meant to race.
    Weak,
    Relaxed,
    Acquire,
}

/// Memory that a transfer reads.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub(crate) address: u64,
    pub(crate) space: Space,
}

/// How much a transfer moves.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub(crate) bytes: u64,
    /// Bytes of one element: each is written by one access of that size, up to 8.
    pub(crate) element: u32,
    /// Both sides are aligned to this.
    pub(crate) align: u32,
}

impl Extent {
    #[inline(always)]
    pub(crate) fn of<T: Pod>(len: u64) -> Self {
        const {
            assert!(
                matches!(size_of::<T>(), 1 | 2 | 4 | 8 | 16),
                "an element has 1, 2, 4, 8 or 16 bytes: cast() slices of others to words, as in put(Block, dst.cast::<u32>(), src.cast(), pe)"
            )
        };
        Self {
            bytes: len * size_of::<T>() as u64,
            element: size_of::<T>() as u32,
            align: align_of::<T>() as u32,
        }
    }
}

/// A value in pieces of 32 bits, as warp exchanges move them, and how many there are.
#[inline(always)]
pub(crate) fn to_words<T: Pod>(value: T) -> ([u32; 4], usize) {
    const {
        assert!(
            matches!(size_of::<T>(), 1 | 2 | 4 | 8 | 16),
            "an exchanged value has 1, 2, 4, 8 or 16 bytes"
        )
    };
    let mut words = [0u32; 4];
    // SAFETY: T is plain bits and no longer than the array.
    unsafe { (&raw mut words).cast::<T>().write_unaligned(value) };
    (words, size_of::<T>().div_ceil(4))
}

/// The value of these pieces.
#[inline(always)]
pub(crate) fn from_words<T: Pod>(words: [u32; 4]) -> T {
    // SAFETY: T is plain bits: any value of the words is a T.
    unsafe { (&raw const words).cast::<T>().read_unaligned() }
}
