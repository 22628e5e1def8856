//! Memory of this process in the place of a device's.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Ordinary device memory, zero at first.
pub(super) struct Buffer {
    start: *mut u8,
    layout: Layout,
}

/// What a buffer begins at a multiple of.
const ALIGN: u64 = 256;
/// What the allocator is asked for: beyond it, it would write all the zeros itself, where the system's pages are zero and
/// cost memory once they are touched.
const PLAIN_ALIGN: u64 = 16;

impl Buffer {
    pub(super) fn new(bytes: u64) -> Option<Self> {
        let size = bytes.max(1).checked_add(ALIGN - PLAIN_ALIGN)?;
        let layout = Layout::from_size_align(usize::try_from(size).ok()?, PLAIN_ALIGN as usize).ok()?;
        // SAFETY: the layout has at least one byte.
        let start = unsafe { alloc_zeroed(layout) };
        (!start.is_null()).then_some(Self { start, layout })
    }

    pub(super) fn address(&self) -> u64 {
        (self.start as u64).next_multiple_of(ALIGN)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: `new` allocated it with this layout.
        unsafe { dealloc(self.start, self.layout) };
    }
}

/// Reads memory that lanes of other PEs may be writing: what it finds then is unspecified, but it is no data race.
///
/// # Safety
/// The range is readable.
pub(super) unsafe fn load(address: u64, into: &mut [u8]) {
    let start = address as *mut u8;
    let head = start.align_offset(8).min(into.len());
    let (head, rest) = into.split_at_mut(head);
    let byte = |i: usize, byte: &mut u8| {
        // SAFETY: inside the range; an AtomicU8 is a byte.
        *byte = unsafe { AtomicU8::from_ptr(start.add(i)) }.load(Ordering::Relaxed);
    };
    let (words, tail) = rest.as_chunks_mut::<8>();
    let at = head.len();
    let tail_at = at + words.len() * 8;
    head.iter_mut().enumerate().for_each(|(i, b)| byte(i, b));
    for (i, word) in words.iter_mut().enumerate() {
        // SAFETY: inside the range, and aligned behind the head.
        let value = unsafe { AtomicU64::from_ptr(start.add(at + i * 8).cast()) }.load(Ordering::Relaxed);
        *word = value.to_ne_bytes();
    }
    tail.iter_mut().enumerate().for_each(|(i, b)| byte(tail_at + i, b));
}

/// Writes memory that lanes of other PEs may be using, as [`load`] reads it.
///
/// # Safety
/// The range is writable.
pub(super) unsafe fn store(address: u64, from: &[u8]) {
    let start = address as *mut u8;
    let head = start.align_offset(8).min(from.len());
    let (head, rest) = from.split_at(head);
    let byte = |i: usize, byte: u8| {
        // SAFETY: inside the range; an AtomicU8 is a byte.
        unsafe { AtomicU8::from_ptr(start.add(i)) }.store(byte, Ordering::Relaxed);
    };
    let (words, tail) = rest.as_chunks::<8>();
    let at = head.len();
    let tail_at = at + words.len() * 8;
    head.iter().enumerate().for_each(|(i, b)| byte(i, *b));
    for (i, word) in words.iter().enumerate() {
        // SAFETY: inside the range, and aligned behind the head.
        unsafe { AtomicU64::from_ptr(start.add(at + i * 8).cast()) }
            .store(u64::from_ne_bytes(*word), Ordering::Relaxed);
    }
    tail.iter().enumerate().for_each(|(i, b)| byte(tail_at + i, *b));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_buffer_is_aligned_and_costs_memory_once_it_is_touched() {
        let resident = || {
            let text = std::fs::read_to_string("/proc/self/statm").unwrap();
            text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
        };
        let before = resident();
        let large = Buffer::new(1 << 30).unwrap();
        assert!(resident() < before + (256 << 20), "{} became {}", before, resident());
        assert_eq!(large.address() % 256, 0);
        for bytes in [0, 1, 255, 4096] {
            let buffer = Buffer::new(bytes).unwrap();
            let mut last = [1];
            assert_eq!(buffer.address() % 256, 0);
            // SAFETY: the buffer has a byte at least, and as many as were asked for.
            unsafe { load(buffer.address() + bytes.max(1) - 1, &mut last) };
            assert_eq!(last, [0]);
        }
        assert!(Buffer::new(u64::MAX).is_none());
    }

    #[test]
    fn copies_of_any_length_and_alignment_arrive_whole() {
        let data: Vec<u8> = (0..64).collect();
        for start in 0..9 {
            for len in 0..40 {
                let mut memory = [0xffu64; 10];
                let address = memory.as_mut_ptr() as u64 + start;
                let mut back = vec![0; len];
                // SAFETY: start + len is less than 80 bytes.
                unsafe {
                    store(address, &data[..len]);
                    load(address, &mut back);
                }
                assert_eq!(back, data[..len]);
            }
        }
    }
}
