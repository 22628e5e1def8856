//! Packets: stores and loads that reach data and flag together.

use super::memory::{bits, load_by_size, store_by_size};
use super::registers::peer_base;
use crate::network;
use crate::team::Peer;
use crate::vector::U64x2;
use core::arch::asm;

/// # Safety
/// The offset is that of a live word of 8 bytes on the peer, which exists.
#[inline(always)]
#[cfg_attr(shmem_timeline, track_caller)]
pub(crate) unsafe fn store_packet(offset: u64, word: u64, to: Peer) {
    span!(crate::Thread, P, to.pe, 8);
    if network::carries(to.pe) {
        // SAFETY: the caller's promise.
        return unsafe { network::store(offset, word, to) };
    }
    // SAFETY: the caller's promise; the heap of every PE is mapped.
    unsafe { store_by_size!(".relaxed.sys.global", peer_base(to.pe) + offset, word, u64) }
}

/// Two words, each whole by itself: a vector is separate accesses of its parts.
///
/// # Safety
/// The offset is that of 16 live bytes on the peer, which exists, and a multiple of 16.
#[inline(always)]
#[cfg_attr(shmem_timeline, track_caller)]
pub(crate) unsafe fn store_packet_pair(offset: u64, words: [u64; 2], to: Peer) {
    span!(crate::Thread, P, to.pe, 16);
    if network::carries(to.pe) {
        // SAFETY: the caller's promise.
        return unsafe { network::store(offset, U64x2(words), to) };
    }
    // SAFETY: the caller's promise; the heap of every PE is mapped.
    unsafe { store_by_size!(".relaxed.sys.global", peer_base(to.pe) + offset, words, [u64; 2]) }
}

/// # Safety
/// The address is that of 16 live bytes of this PE, and a multiple of 16.
#[inline(always)]
pub(crate) unsafe fn load_packet_pair(address: u64) -> [u64; 2] {
    // SAFETY: the caller's promise.
    unsafe { load_by_size!(".relaxed.sys.global", address, [u64; 2]) }
}

/// 16 bytes as one scalar access.
///
/// # Safety
/// As [`store_packet_pair`].
#[inline(always)]
#[cfg_attr(shmem_timeline, track_caller)]
pub(crate) unsafe fn store_packet_whole(offset: u64, words: [u64; 2], to: Peer) {
    span!(crate::Thread, P, to.pe, 16);
    if network::carries(to.pe) {
        // SAFETY: the caller's promise.
        return unsafe { network::store(offset, U64x2(words), to) };
    }
    // SAFETY: the caller's promise; the heap of every PE is mapped.
    unsafe {
        asm!(
            "{{ .reg .b128 %packet;",
            "mov.b128 %packet, {{{x}, {y}}};",
            "st.relaxed.sys.global.b128 [{a}], %packet; }}",
            x = in(reg64) words[0], y = in(reg64) words[1], a = in(reg64) peer_base(to.pe) + offset,
            options(nostack),
        );
    }
}

/// # Safety
/// As [`load_packet_pair`].
#[inline(always)]
pub(crate) unsafe fn load_packet_whole(address: u64) -> [u64; 2] {
    let (x, y): (u64, u64);
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "{{ .reg .b128 %packet;",
            "ld.relaxed.sys.global.b128 %packet, [{a}];",
            "mov.b128 {{{x}, {y}}}, %packet; }}",
            x = out(reg64) x, y = out(reg64) y, a = in(reg64) address,
            options(nostack, readonly),
        );
    }
    [x, y]
}
