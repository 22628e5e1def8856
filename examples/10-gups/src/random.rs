//! Random numbers, alike on GPUs and on the CPU.

/// Mixes a number so that every bit of the result depends on every bit of it; no two numbers give the same.
#[inline(always)]
pub fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The i-th of a sequence (Weyl's, mixed).
#[inline(always)]
pub fn random(i: u64) -> u64 {
    mix(i.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Where a random number belongs: a PE of n, by its upper half, and one of `len` words there, a power of two, by its lower bits.
#[inline(always)]
pub fn place(r: u64, n: u32, len: u64) -> (u32, u64) {
    ((((r >> 32) * u64::from(n)) >> 32) as u32, r & (len - 1))
}
