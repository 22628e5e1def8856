//! Panics of kernels: silent, caught at the lane's root, and told as faults with message and place.

use shmem::hook;
use std::any::Any;
use std::cell::RefCell;
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
            if cfg!(panic = "unwind") && hook::in_kernel() {
                note(info);
            } else {
                previous(info);
            }
        }));
    });
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
