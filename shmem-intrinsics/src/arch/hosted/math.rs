//! Float functions of the host.

macro_rules! from_std { ($($name:ident = $t:ident::$function:ident($($x:ident),*);)*) => { $(
    pub(crate) fn $name($($x: $t),*) -> $t { $t::$function($($x),*) }
)* } }
from_std! {
    sqrt_f32 = f32::sqrt(x); sqrt_f64 = f64::sqrt(x);
    floor_f32 = f32::floor(x); floor_f64 = f64::floor(x);
    ceil_f32 = f32::ceil(x); ceil_f64 = f64::ceil(x);
    trunc_f32 = f32::trunc(x); trunc_f64 = f64::trunc(x);
    round_f32 = f32::round_ties_even(x); round_f64 = f64::round_ties_even(x);
    fma_f32 = f32::mul_add(x, y, z); fma_f64 = f64::mul_add(x, y, z);
    fast_recip = f32::recip(x);
    fast_sqrt = f32::sqrt(x);
    fast_exp2 = f32::exp2(x); fast_exp = f32::exp(x);
    fast_log2 = f32::log2(x); fast_ln = f32::ln(x);
    fast_sin = f32::sin(x); fast_cos = f32::cos(x); fast_tanh = f32::tanh(x);
}

pub(crate) fn fast_rsqrt(x: f32) -> f32 {
    1.0 / x.sqrt()
}

/// For the tests of what is software on a GPU.
#[cfg(test)]
pub(crate) fn exp2_f32(x: f32) -> f32 {
    x.exp2()
}
