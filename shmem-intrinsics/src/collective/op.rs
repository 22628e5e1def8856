//! What reductions do with two elements.
//!
//! | operation | types | result |
//! |---|---|---|
//! | [`Sum`], [`Prod`] | all | integers wrap; halves are added up in f32 and rounded once, at the end |
//! | [`Min`], [`Max`] | all | -0 is below +0; a NaN only where all are |
//! | [`And`], [`Or`], [`Xor`] | integers | bits |

use crate::{Pod, arch, bf16, f16};

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
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    Sum: i8 i16 i32 i64 u8 u16 u32 u64 => |a, b| a.wrapping_add(b);
    Sum: f32 f64 => |a, b| a + b;
    Prod: i8 i16 i32 i64 u8 u16 u32 u64 => |a, b| a.wrapping_mul(b);
    Prod: f32 f64 => |a, b| a * b;
    Min: i8 i16 i32 i64 u8 u16 u32 u64 => |a, b| Ord::min(a, b);
    Min: f32 => |a, b| arch::min_f32(a, b);
    Min: f64 => |a, b| arch::min_f64(a, b);
    Max: i8 i16 i32 i64 u8 u16 u32 u64 => |a, b| Ord::max(a, b);
    Max: f32 => |a, b| arch::max_f32(a, b);
    Max: f64 => |a, b| arch::max_f64(a, b);
}

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
