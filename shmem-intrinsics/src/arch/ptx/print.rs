//! CUDA's `vprintf`, which the driver links to every module that calls it.

unsafe extern "C" {
    /// A format ended by 0, and its arguments, 8 bytes each. Both generic addresses.
    fn vprintf(format: *const u8, arguments: *const u64) -> i32;
}

#[inline(always)]
pub(crate) fn print(format: *const u8, words: *const [u64; 16]) {
    // SAFETY: the translation ends with 0 and asks for no more than the words, each of 8 bytes.
    unsafe { vprintf(format, words.cast()) };
}
