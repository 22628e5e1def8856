//! Reductions and matches of lanes, from what all of them give.

use super::{exchange, lane_id, shared};
use crate::hook::current;
use core::panic::Location;

/// Lanes below `by` keep their own value.
#[track_caller]
pub(crate) fn shuffle_up(mask: u32, value: u32, by: u32) -> u32 {
    let all = exchange(mask, value);
    lane_id()
        .checked_sub(by)
        .map_or(value, |from| all[from as usize] as u32)
}

/// The last `by` lanes keep their own value.
#[track_caller]
pub(crate) fn shuffle_down(mask: u32, value: u32, by: u32) -> u32 {
    let all = exchange(mask, value);
    all.get((lane_id() + by) as usize).map_or(value, |&other| other as u32)
}

/// The values of the lanes in the mask, in their order; lanes that the block lacks are left out.
#[track_caller]
fn values(mask: u32, value: u64) -> impl Iterator<Item = (u32, u64)> {
    let all = current().machine.exchange(mask, value, Location::caller());
    let first = crate::thread::index() / 32 * 32;
    let exist = crate::thread::block_size() - first;
    (0..exist.min(32))
        .filter(move |lane| mask & 1 << lane != 0)
        .map(move |lane| (lane, all[lane as usize]))
}

#[track_caller]
pub(crate) fn match_any_32(mask: u32, value: u32) -> u32 {
    match_any_64(mask, value.into())
}

#[track_caller]
pub(crate) fn match_any_64(mask: u32, value: u64) -> u32 {
    values(mask, value)
        .filter(|&(_, other)| other == value)
        .fold(0, |bits, (lane, _)| bits | 1 << lane)
}

macro_rules! redux { ($($name:ident: $t:ty = $fold:expr;)*) => { $(
    #[track_caller]
    pub(crate) fn $name(value: $t, mask: u32) -> $t {
        values(mask, value as u64).map(|(_, v)| v as $t).reduce($fold).unwrap_or(value)
    }
)* } }
redux! {
    redux_add: u32 = u32::wrapping_add;
    redux_umin: u32 = u32::min;
    redux_umax: u32 = u32::max;
    redux_min: i32 = i32::min;
    redux_max: i32 = i32::max;
    redux_and: u32 = |a, b| a & b;
    redux_or: u32 = |a, b| a | b;
    redux_xor: u32 = |a, b| a ^ b;
}

// As PTX orders floats: -0 before +0; a NaN, and then the GPU's own, only of two NaNs.
macro_rules! extremes { ($($t:ident: $min:ident $max:ident $nan:literal;)*) => { $(
    #[expect(clippy::float_cmp, reason = "equal numbers are the same bits, or two zeros")]
    pub(crate) fn $min(a: $t, b: $t) -> $t {
        match a.min(b) {
            _ if a == b => $t::from_bits(a.to_bits() | b.to_bits()),
            x if x.is_nan() => $t::from_bits($nan),
            x => x,
        }
    }
    #[expect(clippy::float_cmp, reason = "as above")]
    pub(crate) fn $max(a: $t, b: $t) -> $t {
        match a.max(b) {
            _ if a == b => $t::from_bits(a.to_bits() & b.to_bits()),
            x if x.is_nan() => $t::from_bits($nan),
            x => x,
        }
    }
)* } }
extremes! { f32: min_f32 max_f32 0x7fff_ffff; f64: min_f64 max_f64 0x7fff_ffff_ffff_ffff; }

/// An identity that `shared!` gives none.
const REDUCE: u64 = 1;

#[track_caller]
pub(crate) fn reduce_scratch() -> u64 {
    shared(REDUCE, crate::reduce::SCRATCH_BYTES)
}
