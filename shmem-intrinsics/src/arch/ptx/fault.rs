//! What a thread does last: it leaves a record for its host, tells every PE, and ends.

use super::memory::{load, store};
use super::registers::{block_idx, fault as record_address, heap_base, n_pes, peer_base, thread_idx};
use crate::arch::{Space, Strength};
use crate::fault::FaultKind;
use crate::state::{FaultRecord, SystemArea};
use core::arch::asm;
use core::mem::offset_of;
use core::panic::Location;

pub(crate) fn fault(kind: FaultKind, a: u64, b: u64, at: Option<&'static Location<'static>>) -> ! {
    // Whoever saw the abort word now also sees the record of the PE that set it, and so does the host that reads ours.
    fence();
    let held: u32;
    // SAFETY: the claim lies in the system area of this PE's heap.
    unsafe {
        asm!("atom.relaxed.sys.global.cas.b32 {h}, [{c}], 0, 1;", h = out(reg32) held, c = in(reg64) heap_base() + SystemArea::CLAIM, options(nostack));
    }
    if held == 0 {
        // The first thread to claim the record is the only one to write it.
        write(record_address(), kind, a, b, at);
    }
    fence();
    // Of PEs that only a network reaches, the host tells.
    // SAFETY: each heap begins with the system area.
    unsafe {
        store(
            heap_base() + SystemArea::ABORT,
            1u32,
            Space::Symmetric,
            Strength::Relaxed,
        )
    };
    let mut pe = 0;
    while pe < n_pes() {
        let base = peer_base(pe);
        if base != 0 {
            // SAFETY: each heap begins with the system area.
            unsafe { store(base + SystemArea::ABORT, 1u32, Space::Symmetric, Strength::Relaxed) };
        }
        pe += 1;
    }
    // SAFETY: ends this thread; barriers without a count no longer wait for it.
    unsafe { asm!("exit;", options(noreturn, nostack)) }
}

fn fence() {
    // SAFETY: a fence.
    unsafe { asm!("fence.acq_rel.sys;", options(nostack)) }
}

fn write(record: u64, kind: FaultKind, a: u64, b: u64, at: Option<&'static Location<'static>>) {
    macro_rules! set {
        ($field:ident, $value:expr) => {
            // SAFETY: a field of the record that this thread has claimed.
            unsafe {
                store(
                    record + offset_of!(FaultRecord, $field) as u64,
                    $value,
                    Space::Global,
                    Strength::Weak,
                )
            }
        };
        ($field:ident[$i:expr], $value:expr) => {
            // SAFETY: as above.
            unsafe {
                store(
                    record + offset_of!(FaultRecord, $field) as u64 + $i * size_of_val(&$value) as u64,
                    $value,
                    Space::Global,
                    Strength::Weak,
                )
            }
        };
    }
    set!(kind, kind as u32);
    set!(a, a);
    set!(b, b);
    let (block, thread) = (block_idx(), thread_idx());
    set!(block[0], block[0]);
    set!(block[1], block[1]);
    set!(block[2], block[2]);
    set!(thread[0], thread[0]);
    set!(thread[1], thread[1]);
    set!(thread[2], thread[2]);
    if let Some(at) = at {
        set!(line, at.line());
        set!(column, at.column());
        let file = at.file().as_bytes();
        let kept = file.len().min(128);
        set!(file_len, kept as u32);
        let from = file.as_ptr() as u64 + (file.len() - kept) as u64;
        let mut i = 0;
        while i < kept as u64 {
            // SAFETY: the compiler's text of the file's name; through a generic address.
            let byte: u8 = unsafe { load(from + i, Space::Local, Strength::Weak) };
            set!(file[i], byte);
            i += 1;
        }
    }
    // SAFETY: the release makes every field visible to the host before the flag.
    unsafe {
        asm!("st.release.sys.global.u32 [{r}], 1;", r = in(reg64) record + offset_of!(FaultRecord, ready) as u64, options(nostack));
    }
}
