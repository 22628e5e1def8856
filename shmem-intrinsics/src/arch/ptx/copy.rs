//! The copy engine of put and get: 16 bytes at a time on the peer's side, many loads in flight.
//!
//! 1. The edges, up to where the peer's side is 16-byte aligned and after the last whole 16 bytes, go by elements. Aligned transfers
//!    have none.
//! 2. The body goes by lines of 16 bytes. Each member has a flight of loads under way before it stores: the link is filled
//!    by bytes in flight, and one load at a time does not fill it.
//! 3. Where the two sides disagree in alignment, this side's accesses are narrower; the peer's stay 16 bytes.
//!
//! The peer's side is strong (`relaxed.sys`): as fast as weak at every shape; stored words may be waited on, and loads pass
//! by the L1 cache. Everything that depends on the element's type and the tile is known when this is compiled, so that only
//! the paths that they can take remain.

use super::memory::{bits, load, store};
use super::opaque::apart;
use crate::Pod;
use crate::arch::{Extent, Space, Span, Strength};
use crate::tile::Tile;
use core::arch::asm;

/// Lines that a member of a large tile has in flight.
const FLIGHT: usize = 8;
/// Lines that a thread alone has in flight when it gets; that takes 128 registers.
const LONE_FLIGHT: u32 = 32;
/// Elements of the edges that a member has in flight.
const EDGE_FLIGHT: usize = 4;
/// Edges are shorter than two lines.
const EDGES: u32 = 32;
/// A line's bytes.
const LINE: u64 = 16;
/// Threads of a warp.
const WARP: u32 = 32;

/// What a member does: PUT stores to the peer, otherwise it loads from there.
#[derive(Clone, Copy)]
struct Job<const PUT: bool> {
    peer: u64,
    here: u64,
    space: Space,
    element: u32,
    rank: u32,
    size: u32,
}

/// Copies `extent` between the mapped address `peer` and `here`, shared out among the tile's members. No sync. `more`: other
/// copies may follow before one.
#[inline(always)]
pub(super) fn copy<G: Tile, const PUT: bool>(tile: G, peer: u64, here: Span, extent: Extent, more: bool) {
    let Extent {
        mut bytes,
        element,
        align,
    } = extent;
    let mut job = Job::<PUT>::new(tile, peer, here, element);
    // Short transfers wait for the arithmetic before their loads: aligned ones have little of it, and a member that has nothing to do
    // leaves at once.
    let room = |lines: u32| bytes <= u64::from(job.size * lines) * LINE;
    let aligned = align >= 16 || (peer | here.address | bytes) & (LINE - 1) == 0;
    if !PUT && more && aligned && job.warps() > 1 && room(FLIGHT as u32) {
        return job.few(bytes as u32 / LINE as u32);
    }
    // Who has no line has no piece of an edge either, unless it is among the first.
    if u64::from(job.rank) >= (bytes / LINE).max(u64::from(EDGES / align)) {
        return;
    }
    if aligned && room(1) {
        return job.single::<16>(bytes as u32 / LINE as u32);
    }
    if aligned && room(2) {
        return job.pair(bytes as u32 / LINE as u32);
    }
    if G::__BLOCKS {
        (job.peer, job.here, bytes) = (apart(job.peer), apart(job.here), apart(bytes));
    }
    if !aligned {
        let (head, body) = split(job.peer, bytes);
        job.edges(align, head, body, bytes - body);
        (job.peer, job.here, bytes) = (peer + head, here.address + head, body);
        let askew = job.here & (LINE - 1);
        if askew != 0 {
            return if align == 8 || askew == 8 {
                job.lines::<G, 8>(bytes);
            } else if align == 4 || askew & 3 == 0 {
                job.lines::<G, 4>(bytes);
            } else if align == 2 || askew & 1 == 0 {
                job.lines::<G, 2>(bytes);
            } else {
                job.lines::<G, 1>(bytes);
            };
        }
    }
    job.lines::<G, 16>(bytes);
}

/// Copies what lies before and behind the whole lines on the peer's side, shared out among the members. No sync. How many
/// bytes lie before them, and how many bytes of lines there are: nothing is copied, and none are told, where the two sides
/// disagree in alignment.
#[inline(always)]
pub(super) fn edges<G: Tile, const PUT: bool>(tile: G, peer: u64, here: Span, extent: Extent) -> Option<(u64, u64)> {
    let Extent { bytes, element, align } = extent;
    if align >= 16 {
        return Some((0, bytes));
    }
    if (peer ^ here.address) & (LINE - 1) != 0 {
        return None;
    }
    let (head, body) = split(peer, bytes);
    if body != bytes {
        Job::<PUT>::new(tile, peer, here, element).edges(align, head, body, bytes - body);
    }
    Some((head, body))
}

/// How many bytes lie before the first whole line at the peer, and how many in whole lines.
#[inline(always)]
fn split(peer: u64, bytes: u64) -> (u64, u64) {
    let head = (peer.wrapping_neg() & (LINE - 1)).min(bytes);
    (head, (bytes - head) & !(LINE - 1))
}

impl<const PUT: bool> Job<PUT> {
    #[inline(always)]
    fn new<G: Tile>(tile: G, peer: u64, here: Span, element: u32) -> Self {
        Self {
            peer,
            here: here.address,
            space: here.space,
            element,
            rank: tile.rank(),
            size: tile.size(),
        }
    }

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
        // Edges are shorter than two lines.
        let (width, count) = (size_of::<T>() as u32, count as u32);
        let step = self.size.saturating_mul(width);
        let mut i = self.rank * width;
        while i < count {
            // A thread alone has several of them; their loads go out together.
            let mut flight = [T::zeroed(); EDGE_FLIGHT];
            let mut k = 0;
            while k < EDGE_FLIGHT {
                let at = i.saturating_add(step.saturating_mul(k as u32));
                if at < count {
                    flight[k] = self.load_piece(beyond(at, gap_at, gap));
                }
                k += 1;
            }
            k = 0;
            while k < EDGE_FLIGHT {
                let at = i.saturating_add(step.saturating_mul(k as u32));
                if at < count {
                    self.store_piece(beyond(at, gap_at, gap), flight[k]);
                }
                k += 1;
            }
            i = i.saturating_add(step.saturating_mul(EDGE_FLIGHT as u32));
        }
    }

    #[inline(always)]
    fn load_piece<T: Pod>(self, at: u64) -> T {
        // SAFETY: inside the source, which is aligned for T.
        unsafe {
            if PUT {
                load(self.here + at, self.space, Strength::Weak)
            } else {
                load(self.peer + at, Space::Symmetric, Strength::Relaxed)
            }
        }
    }

    #[inline(always)]
    fn store_piece<T: Pod>(self, at: u64, value: T) {
        // SAFETY: inside the destination, which is aligned for T.
        unsafe {
            if PUT {
                store(self.peer + at, value, Space::Symmetric, Strength::Relaxed);
            } else {
                store(self.here + at, value, self.space, Strength::Weak);
            }
        }
    }

    /// `bytes`, a multiple of 16: the peer's side is 16-byte aligned, this side to ALIGN.
    #[inline(always)]
    fn lines<G: Tile, const ALIGN: usize>(self, bytes: u64) {
        // 2^32 lines are 64 GiB. Indices of 32 bits halve the arithmetic, which is what short transfers wait for.
        let mut done = 0;
        while done < bytes {
            let (peer, here) = (self.peer + done, self.here + done);
            let some = (bytes - done).min(1 << 35);
            if ALIGN == 16 && G::__LONE && !PUT {
                self.alone(peer, here, (some / LINE) as u32);
            } else if ALIGN == 16 || ALIGN >= 4 && !G::__BLOCKS {
                self.flights::<ALIGN, FLIGHT>(peer, here, (some / LINE) as u32);
            } else if ALIGN >= 4 {
                self.flights::<ALIGN, 4>(peer, here, (some / LINE) as u32);
            } else {
                self.flights::<ALIGN, 1>(peer, here, (some / LINE) as u32);
            }
            done += some;
        }
    }

    /// A line for each member at most.
    #[inline(always)]
    fn single<const ALIGN: usize>(self, lines: u32) {
        if self.rank < lines {
            let (from, to) = self.ends(self.peer, self.here, self.rank);
            self.store_line::<ALIGN>(to, self.load_line::<ALIGN>(from));
        }
    }

    /// Two lines for each member at most.
    #[inline(always)]
    fn pair(self, lines: u32) {
        if self.rank < lines {
            let (from, to) = self.ends(self.peer, self.here, self.rank);
            let first = self.load_line::<16>(from);
            if self.rank + self.size < lines {
                let second = self.load_line::<16>(advance(from, self.size));
                self.store_line::<16>(advance(to, self.size), second);
            }
            self.store_line::<16>(to, first);
        }
    }

    /// How many warps a block's tile has; 0 where it is no block's, or its size no multiple of theirs.
    #[inline(always)]
    fn warps(self) -> u32 {
        if self.size > 1024 || !self.size.is_multiple_of(WARP) {
            0
        } else {
            self.size / WARP
        }
    }

    /// A flight for each member at most: by as few warps as can be, and by other ones each time. A warp waits for its loads before it
    /// can go on to the next transfer; the others go ahead.
    #[inline(always)]
    fn few(self, lines: u32) {
        const PART: u32 = WARP * FLIGHT as u32;
        let (warp, warps) = (self.rank / WARP, self.warps());
        let hash = ((self.here >> 4) as u32).wrapping_mul(0x9e37_79b9);
        let first = ((u64::from(hash) * u64::from(warps)) >> 32) as u32;
        let begin = PART
            * if warp < first {
                warp + warps - first
            } else {
                warp - first
            };
        if begin < lines {
            let at = u64::from(begin) * LINE;
            let part = Self {
                rank: self.rank % WARP,
                size: WARP,
                ..self
            };
            part.flights::<16, FLIGHT>(self.peer + at, self.here + at, (lines - begin).min(PART));
        }
    }

    /// A get by one thread, which has no other warps to hide the link's latency behind.
    #[inline(always)]
    fn alone(self, peer: u64, here: u64, lines: u32) {
        // Spelt out: a loop of 32 is not unrolled, and an array that is indexed at run time lies in local memory.
        macro_rules! flight {
            ($from:expr, $to:expr, $($k:literal)*) => {{
                let flight = [$(self.load_line::<16>($from + $k * LINE)),*];
                $(self.store_line::<16>($to + $k * LINE, flight[$k]);)*
            }};
        }
        let mut line = 0;
        while lines - line >= LONE_FLIGHT {
            let (from, to) = self.ends(peer, here, line);
            flight!(from, to, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
            line += LONE_FLIGHT;
        }
        let (from, to) = self.ends(peer, here, line);
        let (peer, here) = if PUT { (to, from) } else { (from, to) };
        self.flights::<16, FLIGHT>(peer, here, lines - line);
    }

    #[inline(always)]
    fn flights<const ALIGN: usize, const N: usize>(self, peer: u64, here: u64, lines: u32) {
        let mut line = self.rank;
        // Short transfers, a line for each member at most: what they wait for is the arithmetic before the load.
        if lines <= self.size {
            return Self { peer, here, ..self }.single::<ALIGN>(lines);
        }
        // Below this, the member's next N lines are all inside.
        let whole = lines.saturating_sub((N as u32 - 1) * self.size);
        while line < whole {
            let mut flight = [[0u32; 4]; N];
            let (mut from, mut to) = self.ends(peer, here, line);
            // Counted loops unroll, and the flight stays in registers; iterators would put it in local memory.
            let mut k = 0;
            while k < N {
                flight[k] = self.load_line::<ALIGN>(from);
                from = advance(from, self.size);
                k += 1;
            }
            k = 0;
            while k < N {
                self.store_line::<ALIGN>(to, flight[k]);
                to = advance(to, self.size);
                k += 1;
            }
            line += N as u32 * self.size;
        }
        // Fewer than N are left: one more flight, in which each line is looked at.
        if N > 1 && line < lines {
            let mut flight = [[0u32; 4]; N];
            let (mut from, mut to) = self.ends(peer, here, line);
            let (mut k, mut left) = (0, lines - line);
            while k < N - 1 {
                if self.has(k, left) {
                    flight[k] = self.load_line::<ALIGN>(from);
                }
                from = advance(from, self.size);
                k += 1;
            }
            k = 0;
            left = lines - line;
            while k < N - 1 {
                if self.has(k, left) {
                    self.store_line::<ALIGN>(to, flight[k]);
                }
                to = advance(to, self.size);
                k += 1;
            }
        }
    }

    /// Whether the member's k-th line from here is one of the `left` lines from here.
    #[inline(always)]
    fn has(self, k: usize, left: u32) -> bool {
        k as u32 * self.size < left
    }

    /// Where line `line` is loaded from, and stored to.
    #[inline(always)]
    fn ends(self, peer: u64, here: u64, line: u32) -> (u64, u64) {
        let at = u64::from(line) * LINE;
        if PUT {
            (here + at, peer + at)
        } else {
            (peer + at, here + at)
        }
    }

    #[inline(always)]
    fn load_line<const ALIGN: usize>(self, from: u64) -> [u32; 4] {
        // SAFETY: inside the source; the peer's side is aligned to 16, this side to ALIGN.
        unsafe {
            if PUT {
                load_here::<ALIGN>(from, self.space)
            } else {
                load_vector(from, Side::Peer)
            }
        }
    }

    #[inline(always)]
    fn store_line<const ALIGN: usize>(self, to: u64, line: [u32; 4]) {
        // SAFETY: inside the destination; alignment as in `load_line`.
        unsafe {
            if PUT {
                store_peer(to, line, self.element);
            } else {
                store_here::<ALIGN>(to, line, self.space);
            }
        }
    }
}

/// Byte `at` of two runs, of which the second begins `gap` bytes after `gap_at`.
#[inline(always)]
fn beyond(at: u32, gap_at: u64, gap: u64) -> u64 {
    let at = u64::from(at);
    if at < gap_at { at } else { at + gap }
}

/// `address` one line of each member further, behind the optimiser's back: it would keep all addresses of a flight in
/// registers of their own, and a block of 1024 threads has 64 registers for each thread.
#[inline(always)]
fn advance(address: u64, size: u32) -> u64 {
    let next: u64;
    // SAFETY: multiplies and adds.
    unsafe {
        asm!("mad.wide.u32 {n}, {s}, 16, {a};", n = out(reg64) next, a = in(reg64) address, s = in(reg32) size, options(pure, nomem, nostack));
    }
    next
}

/// # Safety
/// The address is readable for 16 bytes and aligned to ALIGN.
#[inline(always)]
unsafe fn load_here<const ALIGN: usize>(at: u64, space: Space) -> [u32; 4] {
    macro_rules! pieces {
        ($t:ty, $n:literal) => {{
            let mut v = [0 as $t; $n];
            let mut i = 0;
            while i < $n {
                // SAFETY: the caller's promise.
                v[i] = unsafe { load(at + (i * size_of::<$t>()) as u64, space, Strength::Weak) };
                i += 1;
            }
            bits(v)
        }};
    }
    match ALIGN {
        // SAFETY: the caller's promise.
        16 => unsafe { load_vector(at, space.into()) },
        8 => pieces!(u64, 2),
        4 => pieces!(u32, 4),
        2 => pieces!(u16, 8),
        _ => pieces!(u8, 16),
    }
}

/// # Safety
/// The address is writable for 16 bytes and aligned to ALIGN.
#[inline(always)]
unsafe fn store_here<const ALIGN: usize>(at: u64, line: [u32; 4], space: Space) {
    macro_rules! pieces {
        ($t:ty, $n:literal) => {{
            let v: [$t; $n] = bits(line);
            let mut i = 0;
            while i < $n {
                // SAFETY: the caller's promise.
                unsafe { store(at + (i * size_of::<$t>()) as u64, v[i], space, Strength::Weak) };
                i += 1;
            }
        }};
    }
    match ALIGN {
        // SAFETY: the caller's promise.
        16 => unsafe { store_vector(at, line, space.into()) },
        8 => pieces!(u64, 2),
        4 => pieces!(u32, 4),
        2 => pieces!(u16, 8),
        _ => pieces!(u8, 16),
    }
}

/// What a 16-byte access reaches.
#[derive(Clone, Copy)]
enum Side {
    Peer,
    Global,
    Shared,
    Local,
}

impl From<Space> for Side {
    #[inline(always)]
    fn from(space: Space) -> Self {
        match space {
            Space::Shared => Self::Shared,
            Space::Local => Self::Local,
            _ => Self::Global,
        }
    }
}

/// # Safety
/// The address is readable for 16 bytes and aligned to them.
#[inline(always)]
unsafe fn load_vector(at: u64, side: Side) -> [u32; 4] {
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
        match side {
            Side::Peer => ld!(".relaxed.sys.global"),
            Side::Global => ld!(".global"),
            Side::Shared => ld!(".shared"),
            Side::Local => ld!(""),
        }
    }
    [x, y, z, w]
}

/// # Safety
/// The address is writable for 16 bytes and aligned to them.
#[inline(always)]
unsafe fn store_vector(at: u64, v: [u32; 4], side: Side) {
    macro_rules! st {
        ($space:literal) => {
            asm!(
                concat!("st", $space, ".v4.b32 [{a}], {{{x}, {y}, {z}, {w}}};"),
                x = in(reg32) v[0], y = in(reg32) v[1], z = in(reg32) v[2], w = in(reg32) v[3], a = in(reg64) at,
                options(nostack),
            )
        };
    }
    // SAFETY: the caller's promise.
    unsafe {
        match side {
            Side::Peer => st!(".relaxed.sys.global"),
            Side::Global => st!(".global"),
            Side::Shared => st!(".shared"),
            Side::Local => st!(""),
        }
    }
}

/// A vector store is separate stores of its parts to PTX, so that its parts are as wide as an element that may be waited on.
///
/// # Safety
/// The address is a peer's, writable for 16 bytes and aligned to them.
#[inline(always)]
unsafe fn store_peer(at: u64, v: [u32; 4], element: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        if element >= 8 {
            let v: [u64; 2] = bits(v);
            asm!("st.relaxed.sys.global.v2.b64 [{a}], {{{x}, {y}}};", x = in(reg64) v[0], y = in(reg64) v[1], a = in(reg64) at, options(nostack));
        } else {
            store_vector(at, v, Side::Peer);
        }
    }
}
