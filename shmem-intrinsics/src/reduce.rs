//! Sums and extremes over the members of a tile.
//!
//! | tile | how | shared memory |
//! |---|---|---|
//! | [`Thread`] | the value itself | |
//! | [`SubWarp<N>`](SubWarp) | log2 N `shfl.sync.bfly`; `redux.sync` for a warp's u32 and i32 | |
//! | [`Block`] | its warps by `shfl.sync.down`, the warps' results by the first warp; two syncs of the block | 264 bytes, for all types together |
//!
//! The order is fixed by the block's size alone, so that the same values give the same bits in every member, in every run,
//! on GPUs and on the simulator.

use crate::shared::Shared;
use crate::tile::{Block, InBlock, SubWarp, Thread, Tile};
use crate::{Pod, arch};

/// One word of 8 bytes for each warp of a block, and one for the result.
pub(crate) const SCRATCH_BYTES: usize = 33 * 8;

/// Numbers that tiles reduce: f32, f64, u32, i32, u64, i64.
#[diagnostic::on_unimplemented(
    message = "tiles can't reduce `{Self}`",
    note = "they reduce f32, f64, u32, i32, u64, i64: halves are converted to f32 first"
)]
pub trait Number: Pod {
    /// The sum; integers wrap.
    #[doc(hidden)]
    #[must_use]
    fn __add(self, other: Self) -> Self;
    /// The larger one: +0 above -0, a NaN only of two NaNs (`max.f32`).
    #[doc(hidden)]
    #[must_use]
    fn __max(self, other: Self) -> Self;
    /// The smaller one.
    #[doc(hidden)]
    #[must_use]
    fn __min(self, other: Self) -> Self;
    /// All of the warp at once, where there is an instruction.
    #[doc(hidden)]
    #[inline(always)]
    fn __redux(self, _: Op) -> Option<Self> {
        None
    }
}

/// What a reduction does with two values.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Sum.
    Add,
    /// Larger.
    Max,
    /// Smaller.
    Min,
}

macro_rules! integers { ($($t:ident $(, $add:ident $max:ident $min:ident $bits:ident)?;)*) => { $(
    impl Number for $t {
        #[inline(always)]
        fn __add(self, other: Self) -> Self {
            self.wrapping_add(other)
        }
        #[inline(always)]
        fn __max(self, other: Self) -> Self {
            Ord::max(self, other)
        }
        #[inline(always)]
        fn __min(self, other: Self) -> Self {
            Ord::min(self, other)
        }
        $(
            #[inline(always)]
            #[track_caller]
            fn __redux(self, op: Op) -> Option<Self> {
                Some(match op {
                    Op::Add => arch::$add(self as u32, !0) as $bits,
                    Op::Max => arch::$max(self, !0),
                    Op::Min => arch::$min(self, !0),
                })
            }
        )?
    }
)* } }
integers! {
    u32, redux_add redux_umax redux_umin u32;
    i32, redux_add redux_max redux_min i32;
    u64;
    i64;
}

macro_rules! floats { ($($t:ident $max:ident $min:ident;)*) => { $(
    impl Number for $t {
        #[inline(always)]
        fn __add(self, other: Self) -> Self {
            self + other
        }
        #[inline(always)]
        fn __max(self, other: Self) -> Self {
            arch::$max(self, other)
        }
        #[inline(always)]
        fn __min(self, other: Self) -> Self {
            arch::$min(self, other)
        }
    }
)* } }
floats! { f32 max_f32 min_f32; f64 max_f64 min_f64; }

#[inline(always)]
fn apply<T: Number>(op: Op, a: T, b: T) -> T {
    match op {
        Op::Add => a.__add(b),
        Op::Max => a.__max(b),
        Op::Min => a.__min(b),
    }
}

/// Tiles that can reduce: [`Thread`], [`SubWarp`] and so [`Warp`](type@crate::Warp), [`Block`].
///
/// ```
/// use shmem::prelude::*;
/// shmem_sim::run(1, 1, 96, || {
///     let t = thread::index();
///     assert_eq!(Block.sum(t), 95 * 96 / 2);
///     assert_eq!(Warp.max(t as f32), (t / 32 * 32 + 31) as f32);
///     assert_eq!(SubWarp::<4>.min(i64::from(t)), i64::from(t / 4 * 4));
/// }).unwrap();
/// ```
pub trait Reduce: InBlock {
    #[doc(hidden)]
    fn __reduce<T: Number>(self, value: T, op: Op) -> T;

    /// The sum of all members' values, the same bits in every member. All call it. Integers wrap; see the module for the
    /// order of floats.
    ///
    /// CUDA `cooperative_groups::reduce`, CUB `BlockReduce`; PTX `redux.sync.add`, `shfl.sync`.
    #[inline(always)]
    #[track_caller]
    fn sum<T: Number>(self, value: T) -> T {
        self.__reduce(value, Op::Add)
    }

    /// The largest of all members' values, in every member. All call it. +0 counts as larger than -0; a NaN is returned
    /// only where all are.
    #[inline(always)]
    #[track_caller]
    fn max<T: Number>(self, value: T) -> T {
        self.__reduce(value, Op::Max)
    }

    /// The smallest of all members' values, in every member. All call it. -0 counts as smaller than +0; a NaN is returned
    /// only where all are.
    #[inline(always)]
    #[track_caller]
    fn min<T: Number>(self, value: T) -> T {
        self.__reduce(value, Op::Min)
    }
}

impl Reduce for Thread {
    #[inline(always)]
    fn __reduce<T: Number>(self, value: T, _: Op) -> T {
        value
    }
}

impl<const N: u32> Reduce for SubWarp<N> {
    #[inline(always)]
    #[track_caller]
    fn __reduce<T: Number>(self, value: T, op: Op) -> T {
        if N == 32
            && let Some(result) = value.__redux(op)
        {
            return result;
        }
        let (mut value, mut distance) = (value, N / 2);
        while distance > 0 {
            // Both partners compute the same sum: addition of two numbers commutes, to the bit.
            value = apply(op, value, self.shuffle_xor(value, distance));
            distance /= 2;
        }
        value
    }
}

impl Reduce for Block {
    #[inline(always)]
    #[track_caller]
    fn __reduce<T: Number>(self, value: T, op: Op) -> T {
        let (rank, size) = (self.rank(), self.size());
        let (warp, warps) = (rank / 32, size.div_ceil(32));
        let scratch = Shared::<T>::__new(arch::reduce_scratch(), (SCRATCH_BYTES / size_of::<T>()) as u64);
        // The result lies at one place for all types, behind every warp's: a member may read it while another is in its
        // next reduction already.
        let result = scratch.slice(SCRATCH_BYTES / size_of::<T>() - 1..SCRATCH_BYTES / size_of::<T>());
        let sum = of_first(value, (size - warp * 32).min(32), op);
        if rank % 32 == 0 {
            scratch.store(warp, sum);
        }
        self.sync();
        if warp == 0 {
            let mine = if rank < warps { scratch.load(rank) } else { value };
            let sum = of_first(mine, warps, op);
            if rank == 0 {
                result.store(0, sum);
            }
        }
        self.sync();
        result.load(0)
    }
}

/// What the first `n` lanes of the warp give, in lane 0. All lanes that the block has call it.
#[inline(always)]
#[track_caller]
fn of_first<T: Number>(value: T, n: u32, op: Op) -> T {
    let lane = arch::lane_id();
    let (mut value, mut distance) = (value, 16);
    while distance > 0 {
        let other = crate::warp::shuffle_down(value, distance);
        // Lanes that don't exist, or don't count, leave no value.
        if lane + distance < n {
            value = apply(op, value, other);
        }
        distance /= 2;
    }
    value
}
