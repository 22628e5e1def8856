//! Packets: the machine sees each store that is whole by itself.

use super::{Space, Strength, bare, load};
use crate::hook::current;
use crate::network;
use crate::team::Peer;
use crate::vector::U64x2;
use core::panic::Location;

/// # Safety
/// The offset is that of a live word of 8 bytes on the peer, which exists.
#[track_caller]
pub(crate) unsafe fn store_packet(offset: u64, word: u64, to: Peer) {
    if network::carries(to.pe) {
        let _reach = super::Reach::begin("packet", true, to, 8);
        // SAFETY: the caller's promise.
        return unsafe { network::store(offset, word, to) };
    }
    current()
        .machine
        .packet(offset, word.into(), 8, bare(to), Location::caller());
}

/// # Safety
/// The offset is that of 16 live bytes on the peer, which exists, and a multiple of 16.
#[track_caller]
pub(crate) unsafe fn store_packet_pair(offset: u64, words: [u64; 2], to: Peer) {
    // SAFETY: the caller's promise.
    unsafe {
        store_packet(offset, words[0], to);
        store_packet(offset + 8, words[1], to);
    }
}

/// # Safety
/// The address is that of 16 live bytes of this PE, and a multiple of 16.
#[track_caller]
pub(crate) unsafe fn load_packet_pair(address: u64) -> [u64; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        [
            load(address, Space::Symmetric, Strength::Relaxed),
            load(address + 8, Space::Symmetric, Strength::Relaxed),
        ]
    }
}

/// # Safety
/// As [`store_packet_pair`].
#[track_caller]
pub(crate) unsafe fn store_packet_whole(offset: u64, words: [u64; 2], to: Peer) {
    if network::carries(to.pe) {
        let _reach = super::Reach::begin("packet", true, to, 16);
        // SAFETY: the caller's promise.
        return unsafe { network::store(offset, U64x2(words), to) };
    }
    let value = u128::from(words[0]) | u128::from(words[1]) << 64;
    current()
        .machine
        .packet(offset, value, 16, bare(to), Location::caller());
}

/// # Safety
/// As [`load_packet_pair`].
#[track_caller]
pub(crate) unsafe fn load_packet_whole(address: u64) -> [u64; 2] {
    // SAFETY: the caller's promise; the element is 16 bytes and aligned to them.
    let U64x2(words) = unsafe { load(address, Space::Symmetric, Strength::Relaxed) };
    words
}
