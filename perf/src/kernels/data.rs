//! What the benchmarks move, and whether it has arrived. The same on the host and on the device.

use super::in_grid;
use shmem::prelude::*;
use shmem::scope::Gpu;

/// What an element of a result follows from.
pub mod rule {
    /// PE `from`'s elements, `len` of them again and again.
    pub const COPY: u32 = 0;
    /// `len` elements of each PE, of those that it has for this one.
    pub const ALLTOALL: u32 = 1;
    /// `len` elements of each PE.
    pub const FCOLLECT: u32 = 2;
    /// Everyone's, combined by `op`; those from `first` on.
    pub const REDUCE: u32 = 3;
}

/// How elements are combined.
pub mod op {
    /// sum
    pub const SUM: u32 = 0;
    /// product
    pub const PROD: u32 = 1;
    /// the smallest
    pub const MIN: u32 = 2;
    /// the largest
    pub const MAX: u32 = 3;
    /// bits of all
    pub const AND: u32 = 4;
    /// bits of any
    pub const OR: u32 = 5;
    /// bits of an odd number
    pub const XOR: u32 = 6;
}

/// Element `i` of what PE `pe` moves. Never 0, which is the poison.
#[inline(always)]
pub fn moved(pe: u32, i: u64) -> u32 {
    (i as u32)
        .wrapping_add(pe.wrapping_mul(77_777))
        .wrapping_mul(0x9e37_79b9)
        | 1
}

/// Element `i` of what PE `pe` reduces: 1, 2 or 4. Sums and products of 63 PEs are exact in every type.
#[inline(always)]
pub fn reduced(pe: u32, i: u64) -> u32 {
    1 << ((moved(pe, i) >> 8) % 3)
}

/// A type of elements that the benchmarks move or reduce.
pub trait Number: KernelArg + Pod + PartialEq {
    /// The number. Exact below 256, and for u32 always.
    fn of(x: u32) -> Self;
}

macro_rules! numbers { ($($t:ty: |$x:ident| $value:expr;)*) => { $(
    impl Number for $t {
        #[inline(always)]
        fn of($x: u32) -> Self {
            $value
        }
    }
)* } }
numbers! {
    u32: |x| x;
    i32: |x| x as i32;
    i64: |x| i64::from(x);
    f32: |x| x as f32;
    f64: |x| f64::from(x);
    f16: |x| f16::from_f32(x as f32);
    bf16: |x| bf16::from_f32(x as f32);
}

/// Fills `x` with what PE `pe` moves, `len` elements again and again, or with what it reduces, where `len` is 0.
#[kernel(for<u32>, for<i32>, for<i64>, for<f32>, for<f64>, for<f16>, for<bf16>)]
pub fn fill<T: Number>(x: SymSlice<T>, pe: u32, len: u64) {
    let (mut i, threads) = in_grid();
    while i < x.len() {
        let value = if len == 0 { reduced(pe, i) } else { moved(pe, i % len) };
        x.store(i, T::of(value));
        i += threads;
    }
}

/// What a result must be.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelArg)]
pub struct Expect {
    /// One of [`rule`].
    pub rule: u32,
    /// One of [`op`].
    pub op: u32,
    /// The PE whose elements they are.
    pub from: u32,
    /// The PE that has the result, and how many PEs there are.
    pub me: u32,
    /// How many PEs.
    pub n: u32,
    /// Elements of one part.
    pub len: u64,
    /// The first element of a part of a reduction.
    pub first: u64,
}

impl Expect {
    /// Element `i`.
    #[inline(always)]
    pub fn element(&self, i: u64) -> u32 {
        let (part, at) = ((i / self.len) as u32, i % self.len);
        match self.rule {
            rule::COPY => moved(self.from, at),
            rule::ALLTOALL => moved(part, u64::from(self.me) * self.len + at),
            rule::FCOLLECT => moved(part, at),
            _ => {
                let mut all = reduced(0, self.first + i);
                for pe in 1..self.n {
                    let x = reduced(pe, self.first + i);
                    all = match self.op {
                        op::SUM => all.wrapping_add(x),
                        op::PROD => all.wrapping_mul(x),
                        op::MIN => all.min(x),
                        op::MAX => all.max(x),
                        op::AND => all & x,
                        op::OR => all | x,
                        _ => all ^ x,
                    };
                }
                all
            }
        }
    }
}

/// Adds to `wrong` the number of elements of `x` that are not as expected.
#[kernel(for<u32>, for<i32>, for<i64>, for<f32>, for<f64>, for<f16>, for<bf16>)]
pub fn check<T: Number>(x: SymSlice<T>, expect: Expect, wrong: Global<u32>) {
    let mut count = 0;
    let (mut i, threads) = in_grid();
    while i < x.len() {
        count += u32::from(x.load(i) != T::of(expect.element(i)));
        i += threads;
    }
    if count > 0 {
        wrong.word::<Gpu>(0).add(count);
    }
}
