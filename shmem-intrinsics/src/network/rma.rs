//! put, get, p, g and signals as entries.
//!
//! Memory of the symmetric heap has keys: the leader posts an entry for each piece with one key. Other memory has none: what is
//! put goes inside the entries, what is got comes by a landing; members share the pieces.

use super::place::{piece, remote};
use super::queue::Queue;
use super::{Op, access, together};
use crate::Pod;
use crate::arch::{self, Extent, Space, Span, Strength};
use crate::context;
use crate::signal::Action;
use crate::slice::assert_element;
use crate::state::LANDING;
use crate::team::Peer;
use crate::tile::Tile;
use crate::vector::U64x2;
use shmem_mlx5::entry::{self, inline_head, inline_units};
use shmem_mlx5::{Length, Post, Remote, Unit};

/// Bytes of data inside one entry at most: it takes four blocks.
const INLINE: u32 = 220;
/// What fits beside the head of an entry: it goes inside also where nobody waits.
const SHORT: u32 = 12;

/// # Safety
/// As `arch::store_remote`.
#[inline(always)]
#[track_caller]
pub(crate) unsafe fn store<T: Pod>(offset: u64, value: T, to: Peer) {
    const { assert_element::<T>() };
    let (words, _) = arch::to_words(value);
    store_words(offset, words, size_of::<T>() as u32, to, false);
}

/// Returns at once, or when it is acknowledged.
#[inline(never)]
#[track_caller]
fn store_words(offset: u64, words: [u32; 4], bytes: u32, to: Peer, wait: bool) {
    let (queue, to) = (Queue::of(to), remote(to.pe, offset));
    if !wait && together::store(queue, to, words, bytes) {
        return;
    }
    let first = if bytes <= SHORT {
        queue.post(wait, |post| inline(post, to, [words[0], words[1], words[2]], bytes))
    } else {
        queue.post(wait, |post| inline_16(post, to, words))
    };
    if wait {
        queue.wait(first);
    }
}

/// 16 bytes inside an entry.
#[inline(always)]
pub(super) fn inline_16(post: Post, to: Remote, words: [u32; 4]) -> [Unit; 4] {
    let [control, place, data] = inline(post, to, [words[0], words[1], words[2]], 16);
    [control, place, data, Unit([words[3], 0, 0, 0])]
}

#[inline(always)]
pub(super) fn inline(post: Post, to: Remote, first: [u32; 3], bytes: u32) -> [Unit; 3] {
    // Lengths here are 1 to INLINE.
    inline_head(post, to, bytes, first).unwrap_or_default()
}

/// # Safety
/// As `arch::load_remote`.
#[inline(always)]
#[track_caller]
pub(crate) unsafe fn load<T: Pod>(offset: u64, from: Peer) -> T {
    const { assert_element::<T>() };
    let U64x2([low, high]) = load_words(offset, size_of::<T>() as u32, from);
    arch::from_words([low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32])
}

#[inline(never)]
#[track_caller]
pub(super) fn load_words(offset: u64, bytes: u32, from: Peer) -> U64x2 {
    let (queue, place) = (Queue::of(from), remote(from.pe, offset));
    let length = Length::new(bytes).unwrap_or(Length::MIN);
    queue.ask(
        |post, landing| entry::read(post, place, landing, length),
        // SAFETY: the landing, which is aligned and longer.
        |at| unsafe { arch::load(at, Space::Global, Strength::Relaxed) },
    )
}

#[inline(always)]
#[track_caller]
pub(crate) fn put<G: Tile>(tile: G, dst: u64, src: Span, extent: Extent, to: Peer, blocking: bool) {
    // Whoever waits for the source anyway has it read at once.
    let inside = if blocking { INLINE } else { SHORT };
    if src.space != Space::Symmetric || extent.bytes <= inside.into() {
        let mut at = u64::from(tile.rank()) * u64::from(INLINE);
        while at < extent.bytes {
            let bytes = (extent.bytes - at).min(INLINE.into()) as u32;
            let part = Span {
                address: src.address + at,
                space: src.space,
            };
            let place = dst + at;
            at += u64::from(tile.size()) * u64::from(INLINE);
            // This member's last one is rung for, and the others with it.
            let to = if at < extent.bytes { deferred(to) } else { to };
            put_inline(place, part, bytes, extent.align, to);
        }
    } else if tile.leader() {
        pieces::<true>(dst, src.address - arch::heap_base(), extent.bytes, to, blocking);
    }
    if blocking {
        tile.sync();
    }
}

/// The adapter is told of it with what comes next there.
#[inline(always)]
fn deferred(to: Peer) -> Peer {
    Peer {
        ctx: to.ctx | context::DEFERRED,
        ..to
    }
}

/// Moves what lies at `here` of this PE's heap and at `there` of the other's; PUT: from here to there.
#[inline(never)]
#[track_caller]
fn pieces<const PUT: bool>(there: u64, here: u64, bytes: u64, peer: Peer, wait: bool) {
    let queue = Queue::of(peer);
    let mut at = 0;
    while at < bytes {
        let (remote, local, length) = piece(peer.pe, there + at, here + at, bytes - at);
        at += u64::from(length.get());
        let last = wait && at >= bytes;
        let first = queue.post(last, |post| {
            if PUT {
                entry::write(post, remote, local, length)
            } else {
                entry::read(post, remote, local, length)
            }
        });
        if last {
            queue.wait(first);
        }
    }
}

/// Data that the entry carries itself.
#[inline(never)]
#[track_caller]
fn put_inline(dst: u64, src: Span, bytes: u32, align: u32, to: Peer) {
    let (queue, place) = (Queue::of(to), remote(to.pe, dst));
    let Some(units) = inline_units(bytes) else {
        return;
    };
    let word = |i: u32| word(src, 4 * i, bytes, align);
    let (first, post) = queue.begin(units, false);
    let [control, place, data] = inline(post, place, [word(0), word(1), word(2)], bytes);
    queue.write(first, 0, control);
    queue.write(first, 1, place);
    queue.write(first, 2, data);
    let mut unit = 3;
    while unit < units {
        let at = 4 * unit as u32 - 9;
        queue.write(first, unit, Unit([word(at), word(at + 1), word(at + 2), word(at + 3)]));
        unit += 1;
    }
    queue.publish(first, post, control);
}

/// Four bytes of the source, zeros behind its end.
#[inline(always)]
#[track_caller]
fn word(src: Span, at: u32, bytes: u32, align: u32) -> u32 {
    let from = src.address + u64::from(at);
    if align >= 4 && at + 4 <= bytes {
        // SAFETY: inside the source, which is aligned.
        return unsafe { arch::load(from, src.space, Strength::Weak) };
    }
    let (mut word, mut i) = (0, 0);
    while i < 4 && at + i < bytes {
        // SAFETY: inside the source.
        let byte: u8 = unsafe { arch::load(from + u64::from(i), src.space, Strength::Weak) };
        word |= u32::from(byte) << (8 * i);
        i += 1;
    }
    word
}

#[inline(always)]
#[track_caller]
pub(crate) fn put_signal<G: Tile, A: Action>(
    tile: G,
    dst: u64,
    src: Span,
    extent: Extent,
    action: A,
    to: Peer,
    blocking: bool,
) {
    // The signal's entry comes behind those of all members, is done after them, and is rung for with them.
    put(tile, dst, src, extent, deferred(to), false);
    tile.sync();
    if tile.leader() {
        let reads = src.space == Space::Symmetric && extent.bytes > SHORT.into();
        apply(action, to, blocking && reads);
    }
    if blocking {
        tile.sync();
    }
}

#[inline(always)]
#[track_caller]
pub(crate) fn signal<A: Action>(action: A, to: Peer) {
    apply(action, to, false);
}

#[inline(always)]
#[track_caller]
fn apply<A: Action>(action: A, to: Peer, wait: bool) {
    let (offset, value) = (action.__offset(), action.__value());
    if A::__ADDS {
        // The second half of a counter is what adapters add to.
        access::<u64>(Op::Add, (offset + 8, to), value, 0, wait);
    } else {
        store_words(offset, [value as u32, (value >> 32) as u32, 0, 0], 8, to, wait);
    }
}

#[inline(always)]
#[track_caller]
pub(crate) fn get<G: Tile>(tile: G, dst: Span, src: u64, extent: Extent, from: Peer, blocking: bool) {
    if dst.space == Space::Symmetric {
        if tile.leader() {
            pieces::<false>(src, dst.address - arch::heap_base(), extent.bytes, from, blocking);
        }
    } else {
        let mut at = u64::from(tile.rank()) * LANDING;
        while at < extent.bytes {
            let bytes = (extent.bytes - at).min(LANDING) as u32;
            let part = Span {
                address: dst.address + at,
                space: dst.space,
            };
            get_landed(part, src + at, bytes, extent.align, from);
            at += u64::from(tile.size()) * LANDING;
        }
    }
    if blocking {
        tile.sync();
    }
}

#[inline(never)]
#[track_caller]
fn get_landed(dst: Span, src: u64, bytes: u32, align: u32, from: Peer) {
    let (queue, place) = (Queue::of(from), remote(from.pe, src));
    let length = Length::new(bytes).unwrap_or(Length::MIN);
    queue.ask(
        |post, landing| entry::read(post, place, landing, length),
        |landing| {
            let mut at = 0;
            while at < u64::from(bytes) {
                // SAFETY: inside the landing and the destination; elements are aligned.
                at += unsafe {
                    match align {
                        1 => move_one::<u8>(landing + at, dst, at),
                        2 => move_one::<u16>(landing + at, dst, at),
                        _ => move_one::<u32>(landing + at, dst, at),
                    }
                };
            }
        },
    );
}

/// # Safety
/// Both are live for a T.
#[inline(always)]
#[track_caller]
unsafe fn move_one<T: Pod>(from: u64, dst: Span, at: u64) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        let value: T = arch::load(from, Space::Global, Strength::Relaxed);
        arch::store(dst.address + at, value, dst.space, Strength::Weak);
    }
    size_of::<T>() as u64
}
