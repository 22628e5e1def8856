//! Records of calls, in builds that have them.

use super::memory::store;
use super::registers::globaltimer;
use super::time::clock;
use crate::arch::{Space, Strength};
use crate::tile::Tile;
use crate::timeline::{Kind, RECORDS_AT, Record, Ring};
use core::arch::{asm, global_asm};
use core::mem::offset_of;
use core::panic::Location;

global_asm!(".visible .const .align 8 .b8 SHMEM_TIMELINE[{bytes}];", bytes = const size_of::<Ring>());

/// A call under way; recorded when dropped.
pub(crate) struct Span {
    leads: bool,
    begin_ns: u64,
    begin_clock: u64,
    kind: Kind,
    peer: u32,
    bytes: u64,
    name: (u64, u32),
    line: u32,
}

/// One thread's call begins, if it leads.
#[inline(always)]
#[track_caller]
pub(crate) fn begin(leads: bool, kind: Kind, peer: u32, bytes: u64) -> Span {
    let at = Location::caller();
    new(leads, kind, peer, bytes, at.file(), at.line())
}

/// A tile's call begins.
#[inline(always)]
#[track_caller]
pub(crate) fn begin_tile<G: Tile>(tile: G, kind: Kind, peer: u32, bytes: u64) -> Span {
    begin(tile.leader(), kind, peer, bytes)
}

/// A kernel begins on a thread.
#[inline(always)]
pub(crate) fn begin_kernel(name: &'static str) -> Span {
    new(
        crate::thread::index() == 0,
        Kind::Block,
        crate::timeline::NO_PEER,
        0,
        name,
        0,
    )
}

#[inline(always)]
fn new(leads: bool, kind: Kind, peer: u32, bytes: u64, name: &'static str, line: u32) -> Span {
    Span {
        leads,
        begin_ns: globaltimer(),
        begin_clock: clock(),
        kind,
        peer,
        bytes,
        name: (name.as_ptr() as u64, name.len() as u32),
        line,
    }
}

impl Drop for Span {
    #[inline(always)]
    fn drop(&mut self) {
        if self.leads {
            record(self, clock());
        }
    }
}

/// Not inlined: it is in every call.
#[inline(never)]
fn record(span: &Span, end_clock: u64) {
    let (ring, capacity): (u64, u64);
    // SAFETY: the host wrote it before the launch.
    unsafe {
        asm!("ld.const.v2.u64 {{{a}, {b}}}, [SHMEM_TIMELINE];", a = out(reg64) ring, b = out(reg64) capacity, options(pure, nomem, nostack));
    }
    if ring == 0 {
        return;
    }
    let (number, sm): (u64, u32);
    // SAFETY: a ring begins with its count; reads a register.
    unsafe {
        asm!("atom.relaxed.gpu.global.add.u64 {n}, [{r}], 1;", n = out(reg64) number, r = in(reg64) ring, options(nostack));
        asm!("mov.u32 {s}, %smid;", s = out(reg32) sm, options(nomem, nostack));
    }
    if number >= capacity {
        return;
    }
    let at = ring + RECORDS_AT + number * size_of::<Record>() as u64;
    macro_rules! set { ($($field:ident: $value:expr),* $(,)?) => { $(
        // SAFETY: a field of a record that is this thread's alone.
        unsafe { store(at + offset_of!(Record, $field) as u64, $value, Space::Global, Strength::Weak) };
    )* } }
    set! {
        begin_ns: span.begin_ns,
        begin_clock: span.begin_clock,
        end_clock: end_clock,
        file: span.name.0,
        bytes: span.bytes,
        file_len: span.name.1,
        line: span.line,
        kind: span.kind as u32,
        peer: span.peer,
        block: crate::thread::block_index(),
        thread: crate::thread::index(),
        sm: sm,
        blocks: crate::thread::grid_size(),
    }
}
