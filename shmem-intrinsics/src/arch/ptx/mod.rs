//! On the GPU.
//!
//! | file | what it holds |
//! |---|---|
//! | `registers` | special registers, constant memory |
//! | `converge` | barriers, shuffles, votes: LLVM intrinsics, never `asm!` |
//! | `memory` | loads and stores by size, space and strength |
//! | `atomic` | read-modify-writes by order and scope |
//! | `nvlink` | put, put_signal, signal, fence, quiet, waits: the load/store path |
//! | `packet` | packets |
//! | `opaque` | arithmetic that the optimiser leaves alone |
//! | `pick` | where a fair look begins |
//! | `copy` | the copy engine of put |
//! | `meet` | barriers made of words: of a grid, of some warps |
//! | `fault` | what a thread does last |
//! | `async_copy` | `cp.async` |
//! | `bulk` | `cp.async.bulk` |
//! | `cluster` | thread-block clusters |
//! | `mbarrier` | `mbarrier` |
//! | `computed` | put of computed elements |
//! | `hint` | accesses with a cache hint |
//! | `programmatic` | programmatic dependent launch |
//! | `print` | `vprintf` |
//! | `timeline` | records of calls, where the build asks for them |
//! | `reduce` | matches and reductions of lanes |
//! | `matrix` | `mma`, `ldmatrix` |
//! | `warpgroup` | `wgmma` |
//! | `math vector fp8 time` | float functions, halves, numbers of 8 bits, clocks |

/// `span!(tile, Put, pe, bytes)`: a record of the rest of the block, in builds that have records. The first is a tile, or
/// `Thread` where one thread makes the call.
macro_rules! span {
    ($tile:expr, $kind:ident $(, $peer:expr, $bytes:expr)?) => {
        #[cfg(shmem_timeline)]
        let _span = {
            #[allow(unused)]
            let (mut peer, mut bytes) = (crate::timeline::NO_PEER, 0u64);
            $((peer, bytes) = ($peer, $bytes);)?
            $crate::arch::timeline::begin_tile($tile, $crate::timeline::Kind::$kind, peer, bytes)
        };
    };
}

mod async_copy;
pub(crate) mod atomic;
mod bulk;
mod cluster;
mod computed;
mod converge;
mod copy;
mod fault;
mod fp8;
mod hint;
mod math;
mod matrix;
mod mbarrier;
mod meet;
mod memory;
mod nvlink;
mod opaque;
mod packet;
mod pick;
mod print;
mod programmatic;
mod reduce;
mod registers;
mod time;
#[cfg(shmem_timeline)]
pub(crate) mod timeline;
mod vector;
mod warpgroup;

pub(crate) use async_copy::*;
pub(crate) use bulk::*;
pub(crate) use cluster::*;
pub(crate) use computed::*;
pub(crate) use converge::*;
pub(crate) use fault::fault;
pub(crate) use fp8::*;
pub(crate) use hint::*;
pub(crate) use math::*;
pub(crate) use matrix::*;
pub(crate) use mbarrier::*;
pub(crate) use meet::*;
pub(crate) use memory::{load, store};
pub(crate) use nvlink::*;
pub(crate) use opaque::*;
pub(crate) use packet::*;
pub(crate) use pick::pick;
pub(crate) use print::print;
pub(crate) use programmatic::follow;
pub(crate) use reduce::*;
pub(crate) use registers::*;
pub(crate) use time::*;
pub(crate) use vector::*;
pub(crate) use warpgroup::*;

/// Slices of Pod types compare through this; core leaves it to the target's C library, which a GPU has not.
///
/// # Safety
/// Both pointers are readable for `n` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    let mut i = 0;
    while i < n {
        // SAFETY: the caller's promise.
        let (x, y) = unsafe { (*a.add(i), *b.add(i)) };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
        i += 1;
    }
    0
}
