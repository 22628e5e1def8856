//! The wall between the API and what runs it. Both sides have the same functions:
//!
//! | functions | `ptx` | `hosted` |
//! |---|---|---|
//! | `thread_idx block_idx block_dim grid_dim lane_id` | special registers | the current lane |
//! | `my_pe n_pes heap_base time..` | constant memory | the lane's DeviceState |
//! | `sync_block sync_warp shuffle_* ballot vote_*` | convergent LLVM intrinsics | `Machine::sync`, `exchange` |
//! | `load store` | `asm!`, one instruction by size, space and strength | `Machine::load`, `store` |
//! | `store_remote load_remote put put_signal signal` | stores and loads over NVLink (`ptx/nvlink.rs`) | `Machine::p`, `g`, `put`, `signal` |
//! | `fence quiet flush` | fences and tile syncs | `Machine::fence`, .. |
//! | `put_computed put_computed_signal` | stores of computed elements | a stage, then `Machine::put` |
//! | `load_hint store_hint` | `.L1::` priorities | plain accesses |
//! | `copy_async commit_async wait_async` | `cp.async` | `Machine::copy_async`, .. |
//! | `redux_* match_* shuffle_up shuffle_down` | convergent LLVM intrinsics | `Machine::exchange` |
//! | `sqrt_f32 .. fast_* pack_* unpack_*` | one instruction each | the host's |
//! | `spin` | bounded loop on the abort word and the clock | `Machine::pause` |
//! | `fault` | record, abort words, exit | `Machine::fault` |
//! | `scratch dynamic_shared` | addresses in shared memory | `Machine::shared` |

#[cfg(not(target_arch = "nvptx64"))]
mod hosted;
#[cfg(target_arch = "nvptx64")]
mod ptx;

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) use hosted::*;
#[cfg(target_arch = "nvptx64")]
pub(crate) use ptx::*;

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
    #[cfg_attr(not(target_arch = "nvptx64"), expect(dead_code, reason = "the host copies by bytes"))]
    pub(crate) align: u32,
}

/// Passes a value through `f` in pieces of 32 bits, as warp exchanges move them.
#[inline(always)]
pub(crate) fn by_words<T: Pod>(value: T, mut f: impl FnMut(u32) -> u32) -> T {
    const {
        assert!(
            matches!(size_of::<T>(), 1 | 2 | 4 | 8 | 16),
            "an exchanged value has 1, 2, 4, 8 or 16 bytes"
        )
    };
    let mut words = [0u32; 4];
    // SAFETY: T is plain bits and no longer than the array.
    unsafe { (&raw mut words).cast::<T>().write_unaligned(value) };
    let n = size_of::<T>().div_ceil(4);
    let mut i = 0;
    while i < n {
        words[i] = f(words[i]);
        i += 1;
    }
    // SAFETY: T is plain bits: any value of the words is a T.
    unsafe { (&raw const words).cast::<T>().read_unaligned() }
}
