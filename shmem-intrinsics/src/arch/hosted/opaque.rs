//! Plain arithmetic.

pub(crate) fn next(k: u32) -> u32 {
    k + 1
}

pub(crate) fn forward(address: u64, bytes: u64) -> u64 {
    address + bytes
}
