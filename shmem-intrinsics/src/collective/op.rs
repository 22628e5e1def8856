//! What reductions do with two elements.
//!
//! | operation | types | result |
//! |---|---|---|
//! | [`Sum`], [`Prod`] | all | integers wrap; halves are added up in f32 and rounded once, at the end |
//! | [`Min`], [`Max`] | all | -0 is below +0; a NaN only where all are |
//! | [`And`], [`Or`], [`Xor`] | integers | bits |

use crate::{Pod, arch, bf16, f16};
use core::marker::PhantomData;

/// An operation on elements of T, as a value: `all.reduce(Block, team, Sum, dst, src)`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not reduce elements of `{T}`",
    note = "Sum, Prod, Min and Max take i8 to i64, u8 to u64, f16, bf16, f32, f64; And, Or and Xor the integers"
)]
pub trait ReduceOp<T: Pod>: Copy {
    /// Eight bytes of elements as they are added up.
    #[doc(hidden)]
    type Wide: Copy;
    #[doc(hidden)]
    fn __widen(word: u64) -> Self::Wide;
    #[doc(hidden)]
    fn __combine(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    #[doc(hidden)]
    fn __narrow(wide: Self::Wide) -> u64;
}

macro_rules! operations { ($($(#[doc = $doc:literal])* $name:ident;)*) => { $(
    $(#[doc = $doc])*
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct $name;
)* } }
operations! {
    /// The sum. OpenSHMEM `shmem_sum_reduce`, NVSHMEM `nvshmem_TYPE_sum_reduce`.
    Sum;
    /// The product. OpenSHMEM `shmem_prod_reduce`.
    Prod;
    /// The smallest. OpenSHMEM `shmem_min_reduce`.
    Min;
    /// The largest. OpenSHMEM `shmem_max_reduce`.
    Max;
    /// Bitwise and. OpenSHMEM `shmem_and_reduce`.
    And;
    /// Bitwise or. OpenSHMEM `shmem_or_reduce`.
    Or;
    /// Bitwise exclusive or. OpenSHMEM `shmem_xor_reduce`.
    Xor;
}

/// An element as a part of a word.
trait Lane: Copy {
    fn of(word: u64) -> Self;
    fn bits(self) -> u64;
}

macro_rules! lanes { ($($t:ident $word:ident $unsigned:ident;)*) => { $(
    impl Lane for $t {
        #[inline(always)]
        fn of(word: u64) -> Self { lanes!(@of $t $unsigned word) }
        #[inline(always)]
        fn bits(self) -> u64 { lanes!(@bits $t $unsigned self) }
    }
)* };
    (@of f32 $u:ident $w:ident) => { f32::from_bits($w as u32) };
    (@of f64 $u:ident $w:ident) => { f64::from_bits($w) };
    (@of $t:ident $u:ident $w:ident) => { $w as $t };
    (@bits f32 $u:ident $v:ident) => { u64::from($v.to_bits()) };
    (@bits f64 $u:ident $v:ident) => { $v.to_bits() };
    (@bits $t:ident $u:ident $v:ident) => { $v as $u as u64 };
}
lanes! {
    i8 u64 u8; u8 u64 u8; i16 u64 u16; u16 u64 u16; i32 u64 u32; u32 u64 u32; i64 u64 u64; u64 u64 u64;
    f32 u64 u32; f64 u64 u64;
}

#[inline(always)]
fn by_lanes<T: Lane>(a: u64, b: u64, f: impl Fn(T, T) -> T) -> u64 {
    let (mut word, mut shift) = (0, 0);
    while shift < 64 {
        word |= f(T::of(a >> shift), T::of(b >> shift)).bits() << shift;
        shift += 8 * size_of::<T>();
    }
    word
}

/// | `Op: types => |a, b| value` | for words that are added up as they are |
macro_rules! by_words { ($($op:ident: $($t:ident)* => |$a:ident, $b:ident| $value:expr;)*) => { $($(
    impl ReduceOp<$t> for $op {
        type Wide = u64;
        #[inline(always)]
        fn __widen(word: u64) -> u64 { word }
        #[inline(always)]
        fn __combine(a: u64, b: u64) -> u64 {
            by_lanes::<$t>(a, b, |$a, $b| $value)
        }
        #[inline(always)]
        fn __narrow(word: u64) -> u64 { word }
    }
)*)* } }
by_words! {
    Sum: i32 i64 u32 u64 => |a, b| a.wrapping_add(b);
    Sum: f32 f64 => |a, b| a + b;
    Prod: i8 i16 i32 i64 u8 u16 u32 u64 => |a, b| a.wrapping_mul(b);
    Prod: f32 f64 => |a, b| a * b;
    Min: i32 i64 u32 u64 => |a, b| Ord::min(a, b);
    Min: f32 => |a, b| arch::min_f32(a, b);
    Min: f64 => |a, b| arch::min_f64(a, b);
    Max: i32 i64 u32 u64 => |a, b| Ord::max(a, b);
    Max: f32 => |a, b| arch::max_f32(a, b);
    Max: f64 => |a, b| arch::max_f64(a, b);
}

/// The highest bit of each element of 1 or 2 bytes.
const fn highest(bytes: usize) -> u64 {
    if bytes == 1 {
        0x8080_8080_8080_8080
    } else {
        0x8000_8000_8000_8000
    }
}

/// Sums of narrow elements, all at once: without their highest bits no carry leaves an element, and those are added by themselves.
#[inline(always)]
fn narrow_sum(a: u64, b: u64, highest: u64) -> u64 {
    ((a & !highest) + (b & !highest)) ^ ((a ^ b) & highest)
}

/// The larger of narrow unsigned elements, or the smaller, all at once.
#[inline(always)]
fn narrow_extreme(a: u64, b: u64, bytes: usize, larger: bool) -> u64 {
    let highest = highest(bytes);
    // With the highest bit set before no borrow leaves an element, and the bit that stays tells which is larger in the others.
    let others = (a | highest) - (b & !highest);
    let a_is = ((a & !b) | (!(a ^ b) & others)) & highest;
    // All bits of an element where its highest is set.
    let a_is = (a_is << 1).wrapping_sub(a_is >> (8 * bytes - 1));
    let (x, y) = if larger { (a, b) } else { (b, a) };
    (x & a_is) | (y & !a_is)
}

macro_rules! narrow { ($($t:ident $flipped:expr;)*) => { $(
    narrow!(@ $t Sum |a, b| narrow_sum(a, b, highest(size_of::<$t>())));
    narrow!(@ $t Min |a, b| narrow_extreme(a ^ $flipped, b ^ $flipped, size_of::<$t>(), false) ^ $flipped);
    narrow!(@ $t Max |a, b| narrow_extreme(a ^ $flipped, b ^ $flipped, size_of::<$t>(), true) ^ $flipped);
)* };
    (@ $t:ident $op:ident |$a:ident, $b:ident| $value:expr) => {
    impl ReduceOp<$t> for $op {
        type Wide = u64;
        #[inline(always)]
        fn __widen(word: u64) -> u64 { word }
        #[inline(always)]
        fn __combine($a: u64, $b: u64) -> u64 { $value }
        #[inline(always)]
        fn __narrow(word: u64) -> u64 { word }
    }
} }
// A signed element is compared as an unsigned one whose highest bit is turned over.
narrow! { u8 0; u16 0; i8 highest(1); i16 highest(2); }

/// The same for all elements.
macro_rules! by_bits { ($($op:ident $operator:tt;)*) => { $( by_bits!(@ $op $operator i8 i16 i32 i64 u8 u16 u32 u64); )* };
    (@ $op:ident $operator:tt $($t:ident)*) => { $(
    impl ReduceOp<$t> for $op {
        type Wide = u64;
        #[inline(always)]
        fn __widen(word: u64) -> u64 { word }
        #[inline(always)]
        fn __combine(a: u64, b: u64) -> u64 { a $operator b }
        #[inline(always)]
        fn __narrow(word: u64) -> u64 { word }
    }
)* } }
by_bits! { And &; Or |; Xor ^; }

/// Halves, as four f32.
macro_rules! by_floats { ($($t:ident $unpack:ident $pack:ident: { $($op:ident |$a:ident, $b:ident| $value:expr;)* })*) => { $($(
    impl ReduceOp<$t> for $op {
        type Wide = [f32; 4];
        #[inline(always)]
        fn __widen(word: u64) -> [f32; 4] {
            let ([a, b], [c, d]) = (arch::$unpack(word as u32), arch::$unpack((word >> 32) as u32));
            [a, b, c, d]
        }
        #[inline(always)]
        fn __combine(x: [f32; 4], y: [f32; 4]) -> [f32; 4] {
            let f = |$a: f32, $b: f32| $value;
            [f(x[0], y[0]), f(x[1], y[1]), f(x[2], y[2]), f(x[3], y[3])]
        }
        #[inline(always)]
        fn __narrow([a, b, c, d]: [f32; 4]) -> u64 {
            u64::from(arch::$pack([a, b])) | u64::from(arch::$pack([c, d])) << 32
        }
    }
)*)* } }
by_floats! {
    f16 unpack_f16 pack_f16: {
        Sum |a, b| a + b;
        Prod |a, b| a * b;
        Min |a, b| arch::min_f32(a, b);
        Max |a, b| arch::max_f32(a, b);
    }
    bf16 unpack_bf16 pack_bf16: {
        Sum |a, b| a + b;
        Prod |a, b| a * b;
        Min |a, b| arch::min_f32(a, b);
        Max |a, b| arch::max_f32(a, b);
    }
}

/// How a pass combines: by an operation that is known when it is compiled, or by one that a launch names.
pub(super) trait Combine: Copy {
    /// Eight bytes of elements as they are added up.
    type Wide: Copy;
    fn widen(word: u64) -> Self::Wide;
    /// Each of the first with one of the others. A named operation is looked at once, outside of the loop.
    fn combine<const N: usize>(self, sums: &mut [Self::Wide; N], others: &[Self::Wide; N]);
    fn narrow(wide: Self::Wide) -> u64;
}

/// `O` on elements of `T`.
pub(super) struct Fixed<T, O>(pub(super) PhantomData<(T, O)>);

impl<T, O> Clone for Fixed<T, O> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, O> Copy for Fixed<T, O> {}

impl<T: Pod, O: ReduceOp<T>> Combine for Fixed<T, O> {
    type Wide = O::Wide;
    #[inline(always)]
    fn widen(word: u64) -> O::Wide {
        O::__widen(word)
    }
    #[inline(always)]
    fn combine<const N: usize>(self, sums: &mut [O::Wide; N], others: &[O::Wide; N]) {
        all::<T, O, N>(sums, others);
    }
    #[inline(always)]
    fn narrow(wide: O::Wide) -> u64 {
        O::__narrow(wide)
    }
}

/// Spelt out: a loop over much is not unrolled, and an array that is indexed at run time lies in local memory.
#[inline(always)]
fn all<T: Pod, O: ReduceOp<T>, const N: usize>(sums: &mut [O::Wide; N], others: &[O::Wide; N]) {
    const { assert!(N <= 8, "as many as are spelt out") };
    macro_rules! each { ($($i:literal)*) => { $(
        if $i < N {
            sums[$i] = O::__combine(sums[$i], others[$i]);
        }
    )* } }
    each!(0 1 2 3 4 5 6 7);
}

/// The name of an operation, for kernels that are told by their launch. Elements of a signed type go by the unsigned one, which
/// differs in `Min` and `Max` alone.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpName {
    /// [`Sum`]
    Sum,
    /// [`Prod`]
    Prod,
    /// [`Min`]
    Min,
    /// [`Max`]
    Max,
    /// [`Min`] of signed integers.
    MinSigned,
    /// [`Max`] of signed integers.
    MaxSigned,
    /// [`And`]
    And,
    /// [`Or`]
    Or,
    /// [`Xor`]
    Xor,
}

impl OpName {
    /// For reports.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Sum => "Sum",
            Self::Prod => "Prod",
            Self::Min | Self::MinSigned => "Min",
            Self::Max | Self::MaxSigned => "Max",
            Self::And => "And",
            Self::Or => "Or",
            Self::Xor => "Xor",
        }
    }
}

/// An element whose operation is named: u8 to u64, f16, bf16, f32, f64.
pub trait Named: Pod {
    #[doc(hidden)]
    type Wide: Copy;
    #[doc(hidden)]
    fn __widen(word: u64) -> Self::Wide;
    #[doc(hidden)]
    fn __combine<const N: usize>(op: OpName, sums: &mut [Self::Wide; N], others: &[Self::Wide; N]);
    #[doc(hidden)]
    fn __narrow(wide: Self::Wide) -> u64;
}

macro_rules! named { ($($t:ident: $($($name:ident)|+ => $op:ident $instance:ident)*;)*) => { $(
    impl Named for $t {
        type Wide = <Sum as ReduceOp<$t>>::Wide;
        #[inline(always)]
        fn __widen(word: u64) -> Self::Wide { <Sum as ReduceOp<$t>>::__widen(word) }
        #[inline(always)]
        fn __combine<const N: usize>(op: OpName, sums: &mut [Self::Wide; N], others: &[Self::Wide; N]) {
            match op {
                $($(OpName::$name)|+ => all::<$instance, $op, N>(sums, others),)*
            }
        }
        #[inline(always)]
        fn __narrow(wide: Self::Wide) -> u64 { <Sum as ReduceOp<$t>>::__narrow(wide) }
    }
)* } }
macro_rules! named_integers { ($($t:ident $signed:ident;)*) => { named! { $(
    $t: Sum => Sum $t Prod => Prod $t Min => Min $t Max => Max $t MinSigned => Min $signed MaxSigned => Max $signed
        And => And $t Or => Or $t Xor => Xor $t;
)* } } }
named_integers! { u8 i8; u16 i16; u32 i32; u64 i64; }
/// The host names no other operations of floats.
macro_rules! named_floats { ($($t:ident)*) => { named! { $(
    $t: Sum => Sum $t Prod => Prod $t Min => Min $t Max | MinSigned | MaxSigned | And | Or | Xor => Max $t;
)* } } }
named_floats! { f16 bf16 f32 f64 }

/// A named operation on elements of `T`.
pub(super) struct ByName<T> {
    pub(super) op: OpName,
    pub(super) element: PhantomData<T>,
}

impl<T> Clone for ByName<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for ByName<T> {}

impl<T: Named> Combine for ByName<T> {
    type Wide = T::Wide;
    #[inline(always)]
    fn widen(word: u64) -> T::Wide {
        T::__widen(word)
    }
    #[inline(always)]
    fn combine<const N: usize>(self, sums: &mut [T::Wide; N], others: &[T::Wide; N]) {
        T::__combine(self.op, sums, others);
    }
    #[inline(always)]
    fn narrow(wide: T::Wide) -> u64 {
        T::__narrow(wide)
    }
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::*;

    /// Against one element after the other.
    fn check<T: Lane + Pod, O: ReduceOp<T, Wide = u64>>(f: impl Fn(T, T) -> T) {
        let edges = [
            0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x0100, 0x8080, 0x7f80, 0xff00,
        ];
        let mut words: Vec<u64> = edges
            .iter()
            .flat_map(|&x| [x, x << 16, x << 48 | x, x * 0x1_0001_0001_0001])
            .collect();
        let mut x = 88_172_645_463_325_252u64;
        words.extend((0..100).map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x
        }));
        for &a in &words {
            for &b in &words {
                assert_eq!(O::__combine(a, b), by_lanes::<T>(a, b, &f), "{a:#x} {b:#x}");
            }
        }
    }

    #[test]
    fn narrow_elements_come_out_as_one_by_one() {
        macro_rules! types { ($($t:ident)*) => { $(
            check::<$t, Sum>(|a, b| a.wrapping_add(b));
            check::<$t, Min>(|a, b| a.min(b));
            check::<$t, Max>(|a, b| a.max(b));
        )* } }
        types!(i8 u8 i16 u16);
    }
}
