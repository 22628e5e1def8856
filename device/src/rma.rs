//! put and get on a stream.
//!
//! One kernel for each width in which elements are kept whole, whatever their type: the host casts.
use shmem::prelude::*;

/// Threads of a block.
pub const BLOCK: u32 = 256;

/// This block's part of `len` elements of `size` bytes: all parts but the last are whole lines of 16 bytes.
#[inline(always)]
fn part(len: u64, size: u64) -> core::ops::Range<u64> {
    let each = len.div_ceil(u64::from(thread::grid_size())).next_multiple_of(16 / size);
    let begin = len.min(each * u64::from(Block.id()));
    begin..len.min(begin + each)
}

/// `src` of this PE's heap to `dst` at PE `to`.
#[kernel(block = 256, for<u8>, for<u32>, for<u64>)]
pub fn put<T: Pod>(dst: SymSlice<T>, src: SymSlice<T>, to: u32) {
    let part = part(src.len(), size_of::<T>() as u64);
    shmem::put(Block, dst.slice(part.clone()), src.slice(part), to);
}

/// `src` of this PE's own memory to `dst` at PE `to`.
#[kernel(block = 256, for<u8>, for<u32>, for<u64>)]
pub fn put_local<T: Pod>(dst: SymSlice<T>, src: Global<T>, to: u32) {
    let part = part(src.len(), size_of::<T>() as u64);
    shmem::put(Block, dst.slice(part.clone()), src.slice(part), to);
}

/// `src` at PE `from` to `dst` of this PE's heap.
#[kernel(block = 256, for<u8>, for<u32>, for<u64>)]
pub fn get<T: Pod>(dst: SymSlice<T>, src: SymSlice<T>, from: u32) {
    let part = part(src.len(), size_of::<T>() as u64);
    shmem::get(Block, dst.slice(part.clone()), src.slice(part), from);
}

/// `src` at PE `from` to `dst` of this PE's own memory.
#[kernel(block = 256, for<u8>, for<u32>, for<u64>)]
pub fn get_local<T: Pod>(dst: Global<T>, src: SymSlice<T>, from: u32) {
    let part = part(src.len(), size_of::<T>() as u64);
    shmem::get(Block, dst.slice(part.clone()), src.slice(part), from);
}
