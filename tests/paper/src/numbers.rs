//! Input for the tests.

/// A number from -1 to 1 that looks random and depends on every argument. It has eight bits, so that sums of a few such
/// numbers are exact in f32.
pub fn small(seed: u32, pe: u32, i: usize) -> f32 {
    let mut x = u64::from(seed) << 40 ^ u64::from(pe) << 32 ^ i as u64;
    x = (x ^ (x >> 30))
        .wrapping_add(0x9e37_79b9_7f4a_7c15)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x >> 40) % 257) as f32 / 128.0 - 1.0
}
