//! put and get on a stream.
//!
//! They load with every World, so there is one of each, for elements of any type: the host says in bytes what can go by whole
//! lines of 16, and how wide the elements of the rest are.
use shmem::prelude::*;
use shmem::vector::F32x4;

/// Threads of a block.
pub const BLOCK: u32 = 256;
/// Bytes of a line.
pub const LINE: u64 = 16;

/// How a transfer is cut.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelArg)]
pub struct Cut {
    /// Bytes before the first line.
    pub head: u64,
    /// Bytes of lines, where both sides are aligned to them.
    pub body: u64,
    /// Bytes of an element of the rest: 1, 4 or 8.
    pub width: u64,
}

/// This block's part of the lines.
#[inline(always)]
fn lines(cut: Cut) -> core::ops::Range<u64> {
    let count = cut.body / LINE;
    let each = count.div_ceil(u64::from(thread::grid_size()));
    let begin = count.min(each * u64::from(Block.id()));
    begin..count.min(begin + each)
}

/// Calls `one` with this thread's elements of `len` bytes that are in no line, of `width` bytes each.
#[inline(always)]
fn rest(cut: Cut, len: u64, width: u64, one: impl Fn(u64)) {
    let (head, count) = (cut.head / width, (len - cut.body) / width);
    let step = u64::from(thread::grid_size()) * u64::from(BLOCK);
    let mut i = u64::from(Block.id() * BLOCK + Block.rank());
    while i < count {
        one(if i < head { i } else { i + cut.body / width });
        i += step;
    }
}

/// The same for each kernel, whatever its own side is: `$lines` moves a run of lines, `$one` an element.
macro_rules! moved {
    ($there:ident, $here:ident, $cut:ident: $lines:expr, $one:ident => $each:expr) => {{
        let (whole, part) = ($cut.head..$cut.head + $cut.body, lines($cut));
        if part.start < part.end {
            let there = $there.slice(whole.clone()).cast::<F32x4>().slice(part.clone());
            let here = $here.slice(whole).cast::<F32x4>().slice(part);
            $lines(there, here);
        }
        match $cut.width {
            8 => moved!(@rest u64 $there, $here, $cut, $one => $each),
            4 => moved!(@rest u32 $there, $here, $cut, $one => $each),
            _ => moved!(@rest u8 $there, $here, $cut, $one => $each),
        }
    }};
    (@rest $width:ident $there:ident, $here:ident, $cut:ident, $one:ident => $each:expr) => {{
        let (there, $one) = ($there.cast::<$width>(), $here.cast::<$width>());
        rest($cut, $there.len(), size_of::<$width>() as u64, |i| $each(there.at(i), i));
    }};
}

/// `src` of this PE's heap to `dst` at PE `to`.
#[kernel(block = 256)]
pub fn put(dst: SymSlice<u8>, src: SymSlice<u8>, cut: Cut, to: u32) {
    moved!(dst, src, cut: |there, here| shmem::put(Block, there, here, to), here => |there, i| shmem::p(there, here.load(i), to));
}

/// `src` of this PE's own memory to `dst` at PE `to`.
#[kernel(block = 256)]
pub fn put_local(dst: SymSlice<u8>, src: Global<u8>, cut: Cut, to: u32) {
    moved!(dst, src, cut: |there, here| shmem::put(Block, there, here, to), here => |there, i| shmem::p(there, here.load(i), to));
}

/// `src` at PE `from` to `dst` of this PE's heap.
#[kernel(block = 256)]
pub fn get(dst: SymSlice<u8>, src: SymSlice<u8>, cut: Cut, from: u32) {
    moved!(src, dst, cut: |there, here| shmem::get(Block, here, there, from), here => |there, i| here.store(i, shmem::g(there, from)));
}

/// `src` at PE `from` to `dst` of this PE's own memory.
#[kernel(block = 256)]
pub fn get_local(dst: Global<u8>, src: SymSlice<u8>, cut: Cut, from: u32) {
    moved!(src, dst, cut: |there, here| shmem::get(Block, here, there, from), here => |there, i| here.store(i, shmem::g(there, from)));
}
