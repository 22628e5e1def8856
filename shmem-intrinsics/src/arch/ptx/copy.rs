//! The copy engine of put: 16 bytes at a time, many loads in flight.
//!
//! 1. The edges, up to where the destination is 16-byte aligned and after the last whole 16 bytes, go by elements.
//! 2. The body is stored by 16 bytes. Each member has [`FLIGHT`] loads in flight before it stores: the link is filled by
//!    bytes in flight, and one load at a time does not fill it.
//! 3. Where source and destination disagree in alignment, the body's loads are narrower; the stores stay 16 bytes.
//!
//! Stores are strong (`relaxed.sys`): as fast as weak ones at every shape, and a word of the destination may be waited on.
//! Everything that depends on the element's type is known when this is compiled, so that only the paths that the type can
//! take remain.

use super::memory::{bits, load, store};
use crate::Pod;
use crate::arch::{Extent, Space, Span, Strength};
use crate::tile::Tile;
use core::arch::asm;

/// 16-byte loads that a member has in flight.
const FLIGHT: usize = 8;

/// Copies `extent` from `src` to the mapped address `dst`, shared out among the tile's members. No sync.
#[inline(always)]
pub(super) fn copy<G: Tile>(tile: G, dst: u64, src: Span, extent: Extent) {
    let Extent { bytes, element, align } = extent;
    let job = Job {
        to: dst,
        from: src.address,
        space: src.space,
        element,
        rank: tile.rank(),
        size: tile.size(),
    };
    let head = (dst.wrapping_neg() & 15).min(bytes);
    let body = (bytes - head) & !15;
    let from = (src.address + head) & 15;
    if align >= 16 || from == 0 {
        job.wide::<16>(head, body);
    } else if align == 8 || from == 8 {
        job.wide::<8>(head, body);
    } else if align == 4 || from & 3 == 0 {
        job.wide::<4>(head, body);
    } else {
        // Elements of one or two bytes whose source lies askew: all of it goes as the edges do.
        job.edges(align, bytes, 0, bytes);
        return;
    }
    if align < 16 && body != bytes {
        job.edges(align, head, body, bytes - body);
    }
}

/// One member's part of a copy.
#[derive(Clone, Copy)]
struct Job {
    to: u64,
    from: u64,
    space: Space,
    element: u32,
    rank: u32,
    size: u32,
}

impl Job {
    /// `count` bytes in all: those before `gap_at`, and those from `gap_at + gap` on.
    #[inline(always)]
    fn edges(self, align: u32, gap_at: u64, gap: u64, count: u64) {
        match align {
            1 => self.pieces::<u8>(gap_at, gap, count),
            2 => self.pieces::<u16>(gap_at, gap, count),
            4 => self.pieces::<u32>(gap_at, gap, count),
            _ => self.pieces::<u64>(gap_at, gap, count),
        }
    }

    #[inline(always)]
    fn pieces<T: Pod>(self, gap_at: u64, gap: u64, count: u64) {
        let width = size_of::<T>() as u64;
        let mut i = u64::from(self.rank) * width;
        while i < count {
            let at = if i < gap_at { i } else { i + gap };
            // SAFETY: inside both objects, which are aligned for T.
            unsafe {
                let value: T = load(self.from + at, self.space, Strength::Weak);
                store(self.to + at, value, Space::Symmetric, Strength::Relaxed);
            }
            i += u64::from(self.size) * width;
        }
    }

    /// Bytes `begin..begin + bytes`, a multiple of 16: the destination is 16-byte aligned there, the source to ALIGN.
    #[inline(always)]
    fn wide<const ALIGN: usize>(self, begin: u64, bytes: u64) {
        let step = u64::from(self.size) * 16;
        let mut at = u64::from(self.rank) * 16;
        let (mut from, mut to) = (self.from + begin + at, self.to + begin + at);
        // Below this, the member's next FLIGHT lines are all inside.
        let whole = bytes.saturating_sub((FLIGHT as u64 - 1) * step);
        while at < whole {
            let mut flight = [[0u32; 4]; FLIGHT];
            // Counted loops unroll, and the flight stays in registers; iterators would put it in local memory.
            let mut k = 0;
            while k < FLIGHT {
                flight[k] = load16::<ALIGN>(from, self.space);
                from = advance(from, step);
                k += 1;
            }
            k = 0;
            while k < FLIGHT {
                store16(to, flight[k], self.element);
                to = advance(to, step);
                k += 1;
            }
            at += FLIGHT as u64 * step;
        }
        while at < bytes {
            store16(to, load16::<ALIGN>(from, self.space), self.element);
            from += step;
            to += step;
            at += step;
        }
    }
}

/// `address + step`, behind the optimiser's back: it would keep all sixteen addresses of a flight in registers of their
/// own, and a block of 1024 threads has 64 registers for each.
#[inline(always)]
fn advance(address: u64, step: u64) -> u64 {
    let next: u64;
    // SAFETY: adds two numbers.
    unsafe {
        asm!("add.u64 {n}, {a}, {s};", n = out(reg64) next, a = in(reg64) address, s = in(reg64) step, options(pure, nomem, nostack));
    }
    next
}

#[inline(always)]
fn load16<const ALIGN: usize>(at: u64, space: Space) -> [u32; 4] {
    // SAFETY: inside the source, and aligned to ALIGN.
    unsafe {
        match ALIGN {
            16 => match space {
                Space::Shared => load_vector::<0>(at),
                Space::Local => load_vector::<1>(at),
                _ => load_vector::<2>(at),
            },
            8 => bits([
                load::<u64>(at, space, Strength::Weak),
                load::<u64>(at + 8, space, Strength::Weak),
            ]),
            _ => [
                load(at, space, Strength::Weak),
                load(at + 4, space, Strength::Weak),
                load(at + 8, space, Strength::Weak),
                load(at + 12, space, Strength::Weak),
            ],
        }
    }
}

/// # Safety
/// The address is readable for 16 bytes and aligned.
#[inline(always)]
unsafe fn load_vector<const SPACE: u32>(at: u64) -> [u32; 4] {
    let (x, y, z, w): (u32, u32, u32, u32);
    macro_rules! ld {
        ($space:literal) => {
            asm!(
                concat!("ld", $space, ".v4.u32 {{{x}, {y}, {z}, {w}}}, [{a}];"),
                x = out(reg32) x, y = out(reg32) y, z = out(reg32) z, w = out(reg32) w, a = in(reg64) at,
                options(nostack, readonly),
            )
        };
    }
    // SAFETY: the caller's promise.
    unsafe {
        match SPACE {
            0 => ld!(".shared"),
            1 => ld!(""),
            _ => ld!(".global"),
        }
    }
    [x, y, z, w]
}

/// A vector store is separate stores of its parts to PTX, so that its parts are as wide as an element that may be waited on.
#[inline(always)]
fn store16(at: u64, v: [u32; 4], element: u32) {
    // SAFETY: inside the destination, and 16-byte aligned.
    unsafe {
        if element >= 8 {
            let v: [u64; 2] = bits(v);
            asm!("st.relaxed.sys.global.v2.b64 [{a}], {{{x}, {y}}};", x = in(reg64) v[0], y = in(reg64) v[1], a = in(reg64) at, options(nostack));
        } else {
            asm!(
                "st.relaxed.sys.global.v4.b32 [{a}], {{{x}, {y}, {z}, {w}}};",
                x = in(reg32) v[0], y = in(reg32) v[1], z = in(reg32) v[2], w = in(reg32) v[3], a = in(reg64) at,
                options(nostack),
            );
        }
    }
}
