//! Panics of kernels: silent, caught at the lane's root, and told as faults with message and place.
//!
//! One that nothing can catch, because it leaves a destructor while its lane unwinds, ends the process. The lane can't be
//! taken off its stack instead: the hook is called with the process's lock on hooks held and the thread marked as being in
//! its hook, and both would stay so. So its message and place are printed before the process aborts.

use shmem::hook;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{self, Location, PanicHookInfo};
use std::sync::Once;

/// What a panic said and where it stood.
pub(crate) struct Note {
    pub(crate) message: String,
    /// None where another hook kept ours from seeing the panic.
    pub(crate) place: Option<Location<'static>>,
}

thread_local! {
    static LAST: RefCell<Option<Note>> = const { RefCell::new(None) };
    /// Kernel and PE of the lane that runs.
    static RUNNING: Cell<(&'static str, u32)> = const { Cell::new(("", 0)) };
}

/// Puts a hook before the process's own: it keeps panics inside lanes, and passes all others on.
pub(crate) fn install_hook() {
    static ONCE: Once = Once::new();
    // Hooks can't be changed during a panic; a world that is made in a destructor does without.
    if std::thread::panicking() {
        return;
    }
    ONCE.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            // Without unwinding this is the last that anyone sees of the process.
            if !cfg!(panic = "unwind") || !hook::in_kernel() {
                previous(info);
            } else if can_unwind(info) {
                note(info);
            } else {
                last_words();
                previous(info);
            }
        }));
    });
}

/// Says which lane is about to run on this thread.
pub(crate) fn running(kernel: &'static str, pe: u32) {
    RUNNING.set((kernel, pe));
}

/// False for the panics by which the compiler ends a process, after a panic that has left a destructor or an `extern "C"`
/// function: known by their texts, until `PanicHookInfo::can_unwind` is stable.
fn can_unwind(info: &PanicHookInfo<'_>) -> bool {
    let text = info.payload().downcast_ref::<&str>().copied().unwrap_or_default();
    !matches!(
        text,
        "panic in a destructor during cleanup" | "panic in a function that cannot unwind"
    )
}

/// What a process that aborts leaves of a kernel's panic.
fn last_words() {
    let (kernel, pe) = RUNNING.get();
    let note = take_note(None);
    let place = note.place.map_or_else(String::new, |place| format!(" at {place}"));
    eprintln!(
        "kernel `{kernel}` on PE {pe} panicked{place}: {}\nThe panic can't be caught: it left a destructor while the lane \
         unwound, or an `extern \"C\"` function. The process ends.",
        note.message
    );
}

fn note(info: &PanicHookInfo<'_>) {
    // SAFETY: the compiler keeps a panic's place in static memory; only the signature of `location` forgets that.
    let place = info
        .location()
        .map(|at| *unsafe { std::mem::transmute::<&Location<'_>, &Location<'static>>(at) });
    LAST.set(Some(Note {
        message: text(info.payload()),
        place,
    }));
}

fn text(payload: &dyn Any) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "panicked with a value that is no text".to_owned()
    }
}

/// The panic that is under way on this thread, or has just been caught with this payload.
pub(crate) fn take_note(payload: Option<&dyn Any>) -> Note {
    LAST.take().unwrap_or_else(|| Note {
        message: payload.map_or_else(|| "panicked".to_owned(), text),
        place: None,
    })
}
